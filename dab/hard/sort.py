import torch
from torch import Tensor, nn


class Sort(nn.Module):
    """Sort a feature map along its rows, and along its columns, and concatenate the two along dimension 1.

    [B, C, H, W] → [B, 2C, H, W] and [B, H, W] → [B, 2H, W]: rows first, then columns. Ascending unless `descending`.
    """

    bits_per_unit: float | None = None
    keeps_input = True

    def __init__(self, descending: bool = False) -> None:
        super().__init__()
        self.descending = descending

    def forward(self, z: Tensor) -> Tensor:
        self.out_shape(tuple(z.shape[1:]))  # refuses flat inputs
        rows = z.sort(-1, descending=self.descending).values
        columns = z.sort(-2, descending=self.descending).values
        return torch.cat([rows, columns], 1)

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        if len(in_shape) not in (2, 3):
            raise ValueError(
                f"Sort needs samples of shape [C, H, W] or [H, W], given {list(in_shape)}: use Sort1d for flat samples"
            )
        return 2 * in_shape[0], *in_shape[1:]

    def extra_repr(self) -> str:
        return f"descending={self.descending}"


class Sort1d(nn.Module):
    """All units of a sample in one sort, in the shape they came in. Ascending unless `descending`."""

    bits_per_unit: float | None = None
    keeps_input = True

    def __init__(self, descending: bool = False) -> None:
        super().__init__()
        self.descending = descending

    def forward(self, z: Tensor) -> Tensor:
        if z.dim() == 1:  # one unit a sample
            return z.clone()
        return z.flatten(1).sort(1, descending=self.descending).values.reshape(z.shape)

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(in_shape)

    def extra_repr(self) -> str:
        return f"descending={self.descending}"
