"""Which estimator and which hard function cannot go together."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from dab.approximators.matched import KNOWN
from dab.estimators.no_hard import NoHard
from dab.estimators.relaxed import Relaxed
from dab.estimators.vector_quantization import VectorQuantization
from dab.hard import Bernoulli, Categorical, Nearest, out_shape
from dab.surrogate import shape_reason


def has_hard(estimator: type[nn.Module]) -> bool:
    """Whether it matters to an estimator which hard function is chosen."""
    return not issubclass(estimator, NoHard)


def draws_itself(estimator: type[nn.Module]) -> tuple[type[nn.Module], ...]:
    """The hard functions that an estimator draws itself instead of being given one."""
    options = inspect.signature(estimator).parameters
    if not has_hard(estimator) or "hard" in options:
        return ()
    return (Bernoulli, Categorical) if "categorical" in options else (Bernoulli,)


def why_not(
    estimator: type[nn.Module], hard: type[nn.Module] | Callable[[Tensor], Tensor], in_shape: tuple[int, ...] = ()
) -> str | None:
    """The reason why this kind of estimator cannot train through `hard`, or None.

    hard        a hard function, or its class; with a class only what does not depend on shapes is told
    in_shape    of a sample before the hard function
    """
    kind: Any = hard if inspect.isclass(hard) else type(hard)
    drawn = draws_itself(estimator)
    if drawn and not issubclass(kind, drawn):
        allowed = " or ".join(d.__name__ for d in drawn)
        return f"{estimator.__name__} draws its {allowed} sample itself, given {kind.__name__}: use hard=bernoulli" + (
            " or hard=categorical" if len(drawn) > 1 else ""
        )
    if issubclass(estimator, VectorQuantization) and not issubclass(kind, Nearest):
        return f"{estimator.__name__} learns the words of a Nearest, given {kind.__name__}: use hard=nearest"
    if issubclass(estimator, Relaxed) and not issubclass(kind, KNOWN):
        known = ", ".join(k.__name__ for k in KNOWN)
        return f"{estimator.__name__} knows the soft form of {known}, given {kind.__name__}: use a bridge, or smoothing"
    if inspect.isclass(hard) or not getattr(estimator, "needs_same_shape", False):
        return None
    return shape_reason(estimator.__name__, in_shape, out_shape(hard, in_shape), kind.__name__)
