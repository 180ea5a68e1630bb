from collections.abc import Callable
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from dab.estimators.interpolation import sign, towards_better
from dab.estimators.noise import draw, sum_of_gamma
from dab.estimators.traits import Calls
from dab.precision import working_dtype
from dab.ranges import Count, Positive, When, ranged
from dab.surrogate import check_shape_kept, hard_value, value_with_rule, values_at, zero_penalty


class IMLE(nn.Module):
    """Implicit maximum likelihood (Niepert et al. 2021): interpolation between solutions of perturbed inputs.

    layer = IMLE(ShortestPath(5, 5), strength=10.0, sigma=0.5, samples=4, ones=8)
    y, _ = layer(costs(x))                              # y is hard(z), bit for bit
    (y - path).abs().sum(1).mean().backward()

    Backward, the mean over noise e of (h(z + σe) - h(z + σe - λg)) / λ, the same e in both; for a function that
    minimises (its `sense`), of (h(z + σe + λg) - h(z + σe)) / λ. Divided by λ, as in the paper and in PyEPO; the
    authors' code is not, so its learning rates are λ times ours. Only for hard functions that keep the shape.

    strength    λ, with `relative` as for Interpolation
    sigma       scale of the noise
    samples     of the noise; 2 calls of `hard` for each
    noise       gamma (sums of Gamma variables: k of them together make a Gumbel) | gumbel | gaussian
    ones        k of the Gamma noise: how many ones a solution has
    smoothed    False: y is hard(z), bit for bit. True: the mean of h(z + σe), as published; `hard_forward` tells. In
                evaluation mode y is always hard
    """

    needs_same_shape = True

    @ranged
    def __init__(
        self,
        hard: Callable[[Tensor], Tensor],
        strength: Positive = 10.0,
        sigma: Positive = 1.0,
        samples: Count = 1,
        noise: Literal["gamma", "gumbel", "gaussian"] = "gamma",
        ones: Annotated[Count, When("noise", ("gamma",))] = 5,
        relative: bool = False,
        smoothed: bool = False,
    ) -> None:
        super().__init__()
        self.hard, self.strength, self.sigma = hard, float(strength), float(sigma)
        self.samples, self.ones = samples, ones
        self.family = noise
        self.relative, self.hard_forward = relative, not smoothed

    @property
    def calls(self) -> Calls:
        return Calls(1, 2 * self.samples) if self.hard_forward else Calls(self.samples, self.samples)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        if not self.training:
            return self.value(z), zero_penalty(z)
        around = self.perturbed(z.detach())
        if self.hard_forward:
            return value_with_rule(self.value(z), z, self.gradient, around), zero_penalty(z)
        values = values_at(self.hard, around)
        check_shape_kept(type(self).__name__, around, values)
        y = values.mean(0).to(z.dtype)
        return value_with_rule(y, z, self.gradient, around, values), zero_penalty(z)

    def value(self, z: Tensor) -> Tensor:
        h = hard_value(self.hard, z)
        check_shape_kept(type(self).__name__, z, h)
        return h

    def perturbed(self, z: Tensor) -> Tensor:
        """z + σe, drawn in the forward pass: the backward pass draws nothing.  [B, ...] → [samples, B, ...]"""
        x = z.to(working_dtype(z)).expand(self.samples, *z.shape)
        drawn = sum_of_gamma(x, self.ones) if self.family == "gamma" else draw(self.family, x)
        return x + self.sigma * drawn

    def gradient(self, g: Tensor, y: Tensor, z: Tensor, around: Tensor, values: Tensor | None = None) -> Tensor:
        move, strength = towards_better(self.hard, z, g, self.strength, self.relative)
        if values is None:
            values, moved = values_at(self.hard, torch.cat([around, around + move])).chunk(2)
        else:
            moved = values_at(self.hard, around + move)
        return ((values - moved).mean(0) * sign(self.hard) / strength).to(g.dtype)

    def extra_repr(self) -> str:
        return f"strength={self.strength:g}, sigma={self.sigma:g}, samples={self.samples}, noise={self.family}"
