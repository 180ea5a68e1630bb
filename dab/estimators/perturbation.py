"""What smoothing, SPSA and perturbed optimizers share: values of the hard function around z become a Jacobian.

For noise e with the score r(e), minus the gradient of its log-density, the smoothed function E h(z + σe) has the
Jacobian E h(z + σe) r(e)' / σ: values alone, so h may be anything, of any output shape. Whatever does not depend on e
may be taken off h (a baseline): the mean stays, the variance falls.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from dab.estimators.traits import Calls
from dab.precision import full_precision, working_dtype
from dab.surrogate import hard_value, row_wise, value_with_gradient, values_at, zero_penalty

Baseline = Literal["antithetic", "leave_one_out", "centre", "none"]


class Perturbation(nn.Module):
    """The hard value forward, the estimated Jacobian of the smoothed function backward. Implementations give `noise`.

    hard        any callable [B, ...] → [B, ...]; called once for the value and once for all samples together
    sigma       scale of the noise
    samples     perturbed calls of `hard` for every sample of the batch and step
    baseline    antithetic (pairs z ± σe, for symmetric noise: an even number of samples), leave_one_out (the mean of
                the other samples), centre (the value at z, which is known), none
    relative    True: sigma counts in standard deviations of z: one number, over the batch and averaged over the units
                (1 where there is none: one row, or equal ones)
    smoothed    True: in training y is the mean of the perturbed values instead of the hard one

    For a function that is not row-wise (dab/hard/__init__.py) the whole batch counts as one input, so that what a row
    does to the others' outputs is in its gradient too, with the noise of all of them.
    """

    def __init__(
        self,
        hard: Callable[[Tensor], Tensor],
        sigma: float,
        samples: int,
        baseline: Baseline,
        relative: bool = False,
        smoothed: bool = False,
    ) -> None:
        super().__init__()
        least = 2 if baseline in ("antithetic", "leave_one_out") else 1
        if samples < least or (baseline == "antithetic" and samples % 2):
            even = "even and " if baseline == "antithetic" else ""
            raise ValueError(f"samples must be {even}>= {least} with baseline={baseline}, given {samples}")
        self.hard = hard
        self.sigma = float(sigma)
        self.samples, self.baseline = samples, baseline
        self.relative, self.hard_forward = relative, not smoothed

    @property
    def calls(self) -> Calls:
        return Calls(self.samples + int(self.hard_forward or self.baseline == "centre"))

    def noise(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Noise of unit scale and its score.  [K, B, ...] → 2 × [K, B, ...]"""
        raise NotImplementedError

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        if not self.training or (self.hard_forward and not torch.is_grad_enabled()):
            return hard_value(self.hard, z), zero_penalty(z)
        h = hard_value(self.hard, z) if self.hard_forward or self.baseline == "centre" else None
        with full_precision(z):
            x = z.to(working_dtype(z))
            sigma = self.scale(x.detach())
            noise, score = self.noise(x.detach().expand(self.draws(), *x.shape))
            values = values_at(self.hard, x.detach() + sigma * self.with_mirrors(noise))  # [samples, B, ...]
            mean = values.mean(0)
            y = h if h is not None and self.hard_forward else mean.to(z.dtype)
            differences = self.differences(values, mean, h)  # [draws, B, ...]
            return value_with_gradient(y, self.linear(x, differences, score / sigma)), zero_penalty(z)

    def draws(self) -> int:
        """How often noise is drawn."""
        return self.samples // 2 if self.baseline == "antithetic" else self.samples

    def with_mirrors(self, noise: Tensor) -> Tensor:
        return torch.cat([noise, -noise]) if self.baseline == "antithetic" else noise

    def scale(self, x: Tensor) -> Tensor | float:
        if not self.relative or not x.numel():
            return self.sigma
        deviation = x.var(0, correction=0).mean().sqrt()
        return self.sigma * torch.where(deviation > 0, deviation, 1.0)

    def differences(self, values: Tensor, mean: Tensor, h: Tensor | None) -> Tensor:
        """The perturbed values less their baseline.  [samples, B, ...] → [draws, B, ...]"""
        if self.baseline == "antithetic":
            plus, minus = values.chunk(2)
            return (plus - minus) / 2
        if self.baseline == "leave_one_out":  # a value less the mean of the others
            return (values - mean) * (len(values) / (len(values) - 1))
        return values - h.to(values.dtype) if self.baseline == "centre" and h is not None else values

    def linear(self, x: Tensor, differences: Tensor, score: Tensor) -> Tensor:
        """J x with J the mean of the outer products: its value means nothing, its gradient is J' times what arrives."""
        together = 2 if row_wise(self.hard) else 1  # the first dimension that belongs to an input
        along = (score * x).flatten(together).sum(-1) if x.dim() + 1 > together else score * x  # [draws, B] or [draws]
        return (differences * along.reshape(*along.shape, *[1] * (differences.dim() - along.dim()))).mean(0)

    def extra_repr(self) -> str:
        return f"sigma={self.sigma:g}{' std' * self.relative}, samples={self.samples}, baseline={self.baseline}"
