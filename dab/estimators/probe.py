"""How good is a gradient estimate? The exact gradient by enumeration, and the statistics of many draws against it.

    exact = exact_gradient(logits, objective)
    report = gradient_statistics(Rebar(), logits, objective, draws=1000)
    print(report.cosine, report.bias_norm, report.variance.sum())

Everything is flat: the gradients of the logits and of any further `parameters`, one after the other, [C]. Gradients
are those of the batch mean. Nothing is left in any `.grad`, but random numbers are used up.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import grad

from dab.estimators.objective import Objective

MAX_UNITS = 12


class GradientStatistics(NamedTuple):
    draws: int
    mean: Tensor  # [C]
    variance: Tensor  # [C], of one draw
    standard_error: Tensor  # [C], of the mean
    exact: Tensor | None = None  # [C]

    @property
    def truth(self) -> Tensor:
        """[C], the exact gradient, if there is one."""
        if self.exact is None:
            raise ValueError("no exact gradient was given: pass exact=, for example from exact_gradient")
        return self.exact

    @property
    def bias(self) -> Tensor:
        """[C]; holds the noise of the mean too, so see it beside `standard_error`."""
        return self.mean - self.truth

    @property
    def bias_norm(self) -> Tensor:
        return self.bias.norm()

    @property
    def cosine(self) -> Tensor:
        """Of the mean with the exact gradient."""
        return torch.cosine_similarity(self.mean, self.truth, dim=0)

    @property
    def z(self) -> Tensor:
        """[C], the bias in standard errors; rounding counts as none, so a coordinate without variance must be exact."""
        rounding = 64 * torch.finfo(self.mean.dtype).eps * self.mean.abs().max().clamp(min=1)
        return torch.where(self.bias.abs() <= rounding, 0.0, self.bias / self.standard_error)


def exact_gradient(logits: Tensor, objective: Objective, parameters: Sequence[Tensor] = ()) -> Tensor:
    """The gradient of E objective(b), b ~ Bern(sigmoid(logits)), batch mean, by a sum over all 2^D states.

    logits: [B, D], D <= 12, requiring a gradient; the objective may contain them.  → [C]
    """
    if logits.dim() != 2 or logits.shape[1] > MAX_UNITS:
        raise ValueError(f"logits must be [B, D] with D <= {MAX_UNITS} to be enumerated, given {list(logits.shape)}")
    wanted = [logits, *parameters]
    total = torch.zeros(sum(p.numel() for p in wanted), dtype=logits.dtype, device=logits.device)
    for state in states(logits.shape[1], logits):
        log_q = nn.functional.logsigmoid((2 * state - 1) * logits).sum(1)  # [B]
        total += flat_gradient((log_q.exp() * objective(state.expand_as(logits).clone())).mean(), wanted)
    return total


def states(units: int, like: Tensor) -> Iterator[Tensor]:
    """All 2^D samples, one by one.  [D]"""
    for state in product((0.0, 1.0), repeat=units):
        yield torch.tensor(state, dtype=like.dtype, device=like.device)


def flat_gradient(loss: Tensor, wanted: Sequence[Tensor]) -> Tensor:
    """[C]; zeros where the loss does not reach."""
    if not loss.requires_grad:
        return torch.cat([torch.zeros_like(p).flatten() for p in wanted])
    gradients = grad(loss, wanted, retain_graph=True, allow_unused=True, materialize_grads=True)
    return torch.cat([g.flatten() for g in gradients])


def gradient_statistics(
    estimator: nn.Module,
    logits: Tensor,
    objective: Objective,
    draws: int,
    parameters: Sequence[Tensor] = (),
    exact: Tensor | None = None,
) -> GradientStatistics:
    """Mean and variance of `draws` (>= 2) gradients of an objective estimator (a layer estimator: see Lift).

    logits: [B, ...], requiring a gradient. `exact` is enumerated where that is possible and it is not given.
    """
    if draws < 2:
        raise ValueError(f"draws must be >= 2, given {draws}: one draw has no variance")
    wanted = [logits, *parameters]
    count, mean = 0, torch.zeros((), dtype=logits.dtype, device=logits.device)
    spread = torch.zeros_like(mean)  # Welford: the sum of squared distances from the running mean
    for count in range(1, draws + 1):
        gradient = flat_gradient(estimator(logits, objective)[0], wanted)
        step = gradient - mean
        mean = mean + step / count
        spread = spread + step * (gradient - mean)
    if exact is None and logits.dim() == 2 and logits.shape[1] <= MAX_UNITS:
        exact = exact_gradient(logits, objective, parameters)
    return _statistics(count, mean, spread / (count - 1), exact)


def statistics_of(gradients: Tensor, exact: Tensor | None = None) -> GradientStatistics:
    """The same for draws that are already there.  gradients: [draws, C], exact: [C]"""
    return _statistics(len(gradients), gradients.mean(0), gradients.var(0), exact)


def _statistics(draws: int, mean: Tensor, variance: Tensor, exact: Tensor | None) -> GradientStatistics:
    return GradientStatistics(draws, mean, variance, (variance / draws).sqrt(), exact)
