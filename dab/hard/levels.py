import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from dab.precision import working_dtype
from dab.ranges import Several, ranged


class Levels(nn.Module):
    """tanh(z), rounded to the nearest of `levels` evenly spaced values from -1 to 1 (ties go up).

    The rounding of finite scalar quantisation (Mentzer et al. 2023) in its symmetric form: for an even number of levels
    the original is shifted, so that one of them is 0.
    """

    keeps_input = True

    @ranged
    def __init__(self, levels: Several = 5) -> None:
        super().__init__()
        self.levels = levels
        self.bits_per_unit: float | None = math.log2(levels)

    @property
    def values(self) -> list[float]:
        """What a unit can be, ascending."""
        steps = self.levels - 1
        return [(2 * place - steps) / steps for place in range(self.levels)]

    @property
    def edges(self) -> list[float]:
        """Where z passes from one value to the next, ascending."""
        return [math.atanh((low + high) / 2) for low, high in pairwise(self.values)]

    def forward(self, z: Tensor) -> Tensor:
        steps = self.levels - 1
        bounded = torch.tanh(z.to(working_dtype(z)))
        place = ((bounded + 1) * (steps / 2) + 0.5).floor()  # 0 .. steps
        return ((2 * place - steps) / steps).to(z.dtype)

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(in_shape)

    def extra_repr(self) -> str:
        return f"levels={self.levels}"
