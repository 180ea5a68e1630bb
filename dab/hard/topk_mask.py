import math

import torch
from torch import Tensor, nn

from dab.hard.bits import or_nan


class TopKMask(nn.Module):
    """1 for the k largest units of a sample (exactly k, whichever of equals), 0 for the others, in the same shape."""

    bits_per_unit: float | None = 1.0
    values = (0.0, 1.0)
    keeps_input = True

    def __init__(self, k: int) -> None:
        super().__init__()
        if k < 1:
            raise ValueError(f"k must be at least 1, given {k}")
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
