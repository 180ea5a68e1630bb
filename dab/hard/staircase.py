import math

import torch
from torch import Tensor, nn

from dab.hard.bits import or_nan
from dab.precision import working_dtype
from dab.ranges import Finite, Positive, ranged


class Staircase(nn.Module):
    """Steps of equal width around zero, each with a height of its own (an edge belongs to the step above it).

    heights     from left to right; what lies beyond the first or the last step is on it. They need not rise: between
                the default ones the way up leads down
    width       of a step
    """

    keeps_input = True

    @ranged
    def __init__(self, heights: tuple[Finite, ...] = (-1.0, 0.5, -0.5, 1.0), width: Positive = 1.0) -> None:
        super().__init__()
        if len(heights) < 2:
            raise ValueError(f"there must be at least 2 heights, given {heights}")
        self.heights, self.width = tuple(heights), width
        self.values = tuple(sorted(set(heights)))
        self.bits_per_unit: float | None = math.log2(len(self.values))

    def forward(self, z: Tensor) -> Tensor:
        steps = len(self.heights)
        place = (z.detach().to(working_dtype(z)) / self.width + steps / 2).floor().clamp(0, steps - 1)
        heights = torch.tensor(self.heights, dtype=z.dtype, device=z.device)
        return or_nan(heights[place.nan_to_num().long()], z)

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(in_shape)

    def extra_repr(self) -> str:
        return f"heights={self.heights}, width={self.width:g}"
