from collections.abc import Callable

import torch
from torch import Tensor, nn

from dab.estimators.traits import Calls
from dab.precision import working_dtype
from dab.ranges import Positive, ranged
from dab.surrogate import check_shape_kept, hard_value, value_with_rule, values_at, zero_penalty


class Interpolation(nn.Module):
    """Black-box interpolation (Vlastelica et al. 2020): the solution for an input moved against the gradient.

    layer = Interpolation(ShortestPath(5, 5), strength=10.0)
    y, _ = layer(costs(x))                              # y is hard(z), bit for bit
    (y - path).abs().sum(1).mean().backward()

    Backward, (h(z) - h(z - λg)) / λ for a function that maximises <z, y>, and (h(z + λg) - h(z)) / λ for one that
    minimises it (its `sense`): the slope of the loss interpolated between here and a better solution. One more call,
    in the backward pass. Only for hard functions that keep the shape; meant for solvers with linear costs.

    strength    λ. How far a gradient moves the input, so its right size goes with that of the gradient: mean losses
                over a batch of 32 want 32 times that of a sum
    relative    True: λ is strength · |z| / |g| for every sample: gradients of any size move the input by that share
    """

    needs_same_shape = True
    calls = Calls(1, 1)

    @ranged
    def __init__(self, hard: Callable[[Tensor], Tensor], strength: Positive = 10.0, relative: bool = False) -> None:
        super().__init__()
        self.hard, self.strength, self.relative = hard, float(strength), relative

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        h = hard_value(self.hard, z)
        check_shape_kept(type(self).__name__, z, h)
        if not self.training:
            return h, zero_penalty(z)
        return value_with_rule(h, z, self.gradient), zero_penalty(z)

    def gradient(self, g: Tensor, h: Tensor, z: Tensor) -> Tensor:
        move, strength = towards_better(self.hard, z, g, self.strength, self.relative)
        moved = values_at(self.hard, (z.to(move.dtype) + move)[None])[0]
        return ((h.to(move.dtype) - moved) * sign(self.hard) / strength).to(g.dtype)

    def extra_repr(self) -> str:
        return f"strength={self.strength:g}{', relative' * self.relative}"


def sign(hard: Callable[[Tensor], Tensor]) -> int:
    """1 for a function that maximises <z, y>, -1 for one that minimises it."""
    return -1 if getattr(hard, "sense", "max") == "min" else 1


def towards_better(
    hard: Callable[[Tensor], Tensor], z: Tensor, g: Tensor, strength: float, relative: bool
) -> tuple[Tensor, Tensor]:
    """How z moves against the gradient g of the output, and λ, [B, 1, ...], in float32 at least."""
    z, g = z.to(working_dtype(z)), g.to(working_dtype(g))
    size = g.new_full((len(g), *[1] * (g.dim() - 1)), strength)
    if relative:
        # Where there is no gradient any size will do: nothing moves.
        length = g.flatten(1).norm(dim=1) if g.dim() > 1 else g.abs()
        reach = z.flatten(1).norm(dim=1) if z.dim() > 1 else z.abs()
        some = (length > 0) & (reach > 0)
        size = size * torch.where(some, reach / torch.where(some, length, 1.0), 1.0).view_as(size)
    return -sign(hard) * size * g, size
