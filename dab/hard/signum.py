import math

import torch.nn.functional as F
from torch import Tensor, nn

from dab.hard.bits import or_nan
from dab.ranges import NotNegative, ranged

TINY = 1e-30  # 2 / eps must be a number in float32


class Signum(nn.Module):
    """-1 below -eps, +1 above eps, 0 between (ties at ±eps go to 0)."""

    bits_per_unit: float | None = math.log2(3)
    values = (-1.0, 0.0, 1.0)
    keeps_input = True

    @ranged
    def __init__(self, eps: NotNegative = 0.5) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, z: Tensor) -> Tensor:
        z = z.detach()
        if not TINY < self.eps < math.inf:
            return or_nan((z > self.eps).to(z.dtype) - (z < -self.eps).to(z.dtype), z)
        # The same, several times as fast: what remains of z outside ±eps is at least 2 after the multiplication.
        return F.hardtanh_(F.hardshrink(z, self.eps).mul_(2 / self.eps))

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(in_shape)

    def extra_repr(self) -> str:
        return f"eps={self.eps:g}"
