import math

from torch import Tensor, nn


class Signum(nn.Module):
    """-1 below -eps, +1 above eps, 0 between (ties at ±eps go to 0)."""

    bits_per_unit: float | None = math.log2(3)

    def __init__(self, eps: float = 0.5) -> None:
        super().__init__()
        if not eps >= 0:
            raise ValueError(f"eps must be >= 0, given {eps}")
        self.eps = eps

    def forward(self, z: Tensor) -> Tensor:
        return (z > self.eps).to(z.dtype) - (z < -self.eps).to(z.dtype)

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(in_shape)

    def extra_repr(self) -> str:
        return f"eps={self.eps:g}"
