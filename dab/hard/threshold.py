from torch import Tensor, nn

from dab.hard.bits import or_nan
from dab.ranges import Finite, ranged


class Threshold(nn.Module):
    """1 above tau, 0 otherwise."""

    bits_per_unit: float | None = 1.0
    values = (0.0, 1.0)
    keeps_input = True

    @ranged
    def __init__(self, tau: Finite = 0.5) -> None:
        super().__init__()
        self.tau = tau

    def forward(self, z: Tensor) -> Tensor:
        return or_nan(z > self.tau, z)

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(in_shape)

    def extra_repr(self) -> str:
        return f"tau={self.tau:g}"
