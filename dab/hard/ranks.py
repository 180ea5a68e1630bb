from torch import Tensor, nn

from dab.hard.bits import or_nan


class Ranks(nn.Module):
    """How many units of its sample are smaller than a unit (equals in the order in which they stand): 0, 1, 2, ..."""

    bits_per_unit: float | None = None  # grows with the sample
    keeps_input = True

    def forward(self, z: Tensor) -> Tensor:
        if z.dim() == 1:  # one unit a sample
            return or_nan(z.detach() * 0, z)
        units = z.detach().flatten(1)
        ranks = units.sort(dim=1, stable=True).indices.argsort(1)
        return or_nan(ranks, units, units.amax(1, keepdim=True)).reshape(z.shape)

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(in_shape)
