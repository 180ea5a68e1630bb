from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from dab.estimators.interpolation import sign
from dab.ranges import ranged
from dab.surrogate import check_shape_kept, hard_value, value_with_gradient, zero_penalty


class Identity(nn.Module):
    """Identity with projection (Sahoo et al. 2023): straight-through for solvers, past what their output does not see.

    layer = Identity(ShortestPath(5, 5))
    y, _ = layer(costs(x))                              # y is hard(z), bit for bit
    (y * true_costs).sum(1).mean().backward()

    A solver's output does not change when its input is scaled, or (where all solutions have as many ones) shifted; a
    gradient along these directions does nothing but shrink or blow up the input. So the identity is taken of the
    projected input, with minus its sign for a solver that minimises (its `sense`). Only for hard functions that keep
    the shape; no further call of them.

    projection  of a sample: none, mean (mean zero), norm (length one), both (first mean, then length)
    """

    needs_same_shape = True

    @ranged
    def __init__(
        self, hard: Callable[[Tensor], Tensor], projection: Literal["none", "mean", "norm", "both"] = "both"
    ) -> None:
        super().__init__()
        self.hard = hard
        self.projection = projection

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        h = hard_value(self.hard, z)
        check_shape_kept(type(self).__name__, z, h)
        if not self.training:
            return h, zero_penalty(z)
        return value_with_gradient(h, sign(self.hard) * self.projected(z)), zero_penalty(z)

    def projected(self, z: Tensor) -> Tensor:
        units = tuple(range(1, z.dim()))
        if self.projection in ("mean", "both") and units:
            z = z - z.mean(units, keepdim=True)
        if self.projection in ("norm", "both") and units:
            z = z / z.square().sum(units, keepdim=True).sqrt().clamp(min=1e-12)
        return z

    def extra_repr(self) -> str:
        return f"projection={self.projection}"
