"""The bridge: the value of a hard function, the gradient of a network that learns to imitate it.

With h = hard(z), s = approximator(z), g the gradient that arrives at the output, d the gradient of the penalty
at s, J = ds/dz and A = ds/dphi (phi: the parameters of the approximator), who receives what is the *routing*:

    routing     into z        into phi
    released    J'g           A'd           as in the code printed with the paper: the penalty trains phi alone
    equation    J'(g + d)     A'd           the printed objective: the penalty also shapes the layer before
    additive    J'(g + d)     A'(g + d)     h + s - stop(s): the task trains phi too
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from dab.approximators import auto
from dab.precision import full_precision, widen_, working_dtype
from dab.ranges import NotNegative, OneOf, ranged
from dab.stateless import buffers_by_name, call_with, parameters_by_name
from dab.surrogate import hard_value, value_with_gradient, zero_penalty


def _l2(s: Tensor, h: Tensor) -> Tensor:
    return (s - h).square().sum(1)


def _l1(s: Tensor, h: Tensor) -> Tensor:
    return (s - h).abs().sum(1)


def _huber(s: Tensor, h: Tensor) -> Tensor:
    return F.huber_loss(s, h, reduction="none").sum(1)


def _cosine(s: Tensor, h: Tensor) -> Tensor:
    return 1 - F.cosine_similarity(s, h, dim=1)


def _cross_entropy(s: Tensor, h: Tensor) -> Tensor:
    # Hard outputs are seldom distributions, so both sides become one by a softmax over the units.
    return -(h.softmax(1) * s.log_softmax(1)).sum(1)


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # s, h: [B, units] → [B]
    "l2": _l2,
    "l1": _l1,
    "huber": _huber,
    "cosine": _cosine,
    "cross_entropy": _cross_entropy,
}


class Bridge(nn.Module):
    """A layer that computes `hard` and learns a gradient for it.

    y, penalty = bridge(z)      # z: [B, ...] → y: [B, ...], penalty: [B]
    loss = task(y) + penalty.mean()

    `y` is `hard(z)` bit for bit, in training and in evaluation; `penalty` is gamma times the distance between
    the hard and the soft output of each sample. In evaluation mode the approximator is not run, no gradient passes
    and the penalty is zero. Nothing is kept between calls. For `nn.Sequential` there is `dab.inline`.

    hard          any callable [B, ...] → [B, ...]; called once per forward, without gradient (dab/hard/__init__.py has
                  the contract)
    approximator  a module with the input and output shapes of `hard`; runs in float32, or float64 if z is (so
                  `.bfloat16()` rounds its parameters and leaves them float32). `released` and `equation` run it twice
                  (once for z, once for its own parameters), so one that draws noise draws it twice; its buffers change
                  once
    gamma         weight of the penalty, >= 0
    routing       released | equation | additive: the table at the top of this file
    loss          per sample, over all units: l2 (sum of squares), l1 (sum of absolutes), huber (sum, delta 1),
                  cosine (1 - cosine similarity), cross_entropy (softmax of the units of both, hard side as target)
    in_shape      of a sample: instead of an approximator, the one of `dab.approximators.auto` is built
    """

    @ranged
    def __init__(
        self,
        hard: Callable[[Tensor], Tensor],
        approximator: nn.Module | None = None,
        gamma: NotNegative = 10.0,
        routing: Literal["released", "equation", "additive"] = "released",
        loss: Annotated[str, OneOf(tuple(LOSSES))] = "l2",
        in_shape: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__()
        if not callable(hard):
            raise TypeError(f"hard must be a function or module that maps tensor to tensor, given {hard!r}")
        if (approximator is None) == (in_shape is None):
            given = "neither" if in_shape is None else "both"
            raise ValueError(
                f"give either an approximator or in_shape, the shape of a sample to build one for, given {given}: "
                "for example dab.Bridge(hard, in_shape=(256,))"
            )
        if in_shape is not None:
            approximator = auto(hard, in_shape)
        if not isinstance(approximator, nn.Module):
            raise TypeError(
                f"approximator must be an nn.Module, given {type(approximator).__name__}: build one with "
                "dab.approximators.auto(hard, in_shape), wrap yours in a module, or give in_shape instead"
            )
        if any(is_lazy(p) for p in approximator.parameters()):
            raise ValueError(
                "the approximator has lazy parameters without a shape (LazyLinear or the like), which no optimizer can "
                "take over: call it once on a sample first, for example approximator(torch.zeros(1, *in_shape))"
            )
        self.hard = hard
        self.approximator: nn.Module | None = approximator
        self.gamma = float(gamma)
        self.routing = routing
        self.loss = loss

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        h = hard_value(self.hard, z)  # [B, ...]
        if not self.training:
            return h, zero_penalty(z)
        with full_precision(z):
            to_z, to_penalty = self._soft(z.to(working_dtype(z)))
            check_shape(to_z, h, z)
            penalty = self.gamma * LOSSES[self.loss](_units(to_penalty), _units(h.to(to_penalty.dtype)))
        return value_with_gradient(h, gradient_of=to_z), penalty

    def _soft(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The soft output twice: as the stand-in for the hard one, and as the penalty sees it."""
        if self.approximator is None:
            raise RuntimeError(
                "this bridge was stripped for inference: call .eval() on it, or train the original model"
            )
        if self.routing == "additive":
            s = self.approximator(x)
            return s, s
        to_z = _without_parameter_gradient(self.approximator, x)
        to_phi = self.approximator(x.detach())
        if self.routing == "released":
            return to_z, to_phi
        return to_z, to_phi + (to_z - to_z.detach())  # the value of to_phi, the gradients of both

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **options: Any) -> "Bridge":
        super()._apply(fn, *args, **options)
        if self.approximator is not None:
            widen_(self.approximator)
        return self

    def strip_(self) -> None:
        """Drop the approximator, for inference. See `dab.strip`."""
        self.approximator = None

    def extra_repr(self) -> str:
        # A hard function that is not a module would not show otherwise.
        name = "" if isinstance(self.hard, nn.Module) else f"hard={getattr(self.hard, '__name__', self.hard)!s}, "
        return f"{name}gamma={self.gamma:g}, routing={self.routing}, loss={self.loss}"


def check_shape(s: Tensor, h: Tensor, z: Tensor) -> None:
    """Refuse an approximator whose output has not the shape of the hard function's."""
    if s.shape != h.shape:
        raise ValueError(
            f"the approximator returned {list(s.shape)} and the hard function {list(h.shape)} for an input "
            f"{list(z.shape)}: give the approximator the output shape {list(h.shape[1:])}"
        )


def _without_parameter_gradient(module: nn.Module, x: Tensor) -> Tensor:
    # Buffers are copied, so that running statistics move once per forward: in the other evaluation.
    state = {name: p.detach() for name, p in parameters_by_name(module).items()}
    state |= {name: b.clone() for name, b in buffers_by_name(module).items()}
    return call_with(module, state, x)


def _units(t: Tensor) -> Tensor:
    return t.flatten(1) if t.dim() > 1 else t.unsqueeze(1)  # [B, ...] → [B, units]
