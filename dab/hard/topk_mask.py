import math

import torch
from torch import Tensor, nn

from dab.hard.bits import or_nan
from dab.ranges import Count, ranged


class TopKMask(nn.Module):
    """1 for the k largest units of a sample (exactly k, whichever of equals), 0 for the others, in the same shape."""

    bits_per_unit: float | None = 1.0
    values = (0.0, 1.0)
    keeps_input = True

    @ranged
    def __init__(self, k: Count) -> None:
        super().__init__()
        self.k = k

    def forward(self, z: Tensor) -> Tensor:
        self.out_shape(tuple(z.shape[1:]))  # refuses too large a k
        units = z.detach().flatten(1)
        mask = torch.zeros_like(units).scatter(1, units.topk(self.k, 1).indices, 1.0)
        return or_nan(mask, units, units.amax(1, keepdim=True)).reshape(z.shape)

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        if self.k > math.prod(in_shape):
            raise ValueError(f"k = {self.k} is more than the units of a sample {list(in_shape)}: lower k")
        return tuple(in_shape)

    def extra_repr(self) -> str:
        return f"k={self.k}"
