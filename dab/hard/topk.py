import torch
from torch import Tensor, nn

from dab.ranges import Count, ranged


class TopK(nn.Module):
    """The k largest values, largest first, of every row and of every column of a feature map.

    [B, C, H, W] → [B, C, H + W, k] and [B, H, W] → [B, H + W, k]: k values for each row, then for each column.
    A flat sample is one row: [B, N] → [B, k].
    """

    bits_per_unit: float | None = None
    keeps_input = True

    @ranged
    def __init__(self, k: Count) -> None:
        super().__init__()
        self.k = k

    def forward(self, z: Tensor) -> Tensor:
        self.out_shape(tuple(z.shape[1:]))  # refuses too large a k
        rows = z.topk(self.k, -1).values  # [..., H, k]
        if z.dim() == 2:
            return rows
        columns = z.topk(self.k, -2).values.transpose(-1, -2)  # [..., W, k]
        return torch.cat([rows, columns], -2)

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        if len(in_shape) not in (1, 2, 3):
            raise ValueError(f"TopK needs samples of shape [C, H, W], [H, W] or [N], given {list(in_shape)}")
        if self.k > min(in_shape[-2:]):
            raise ValueError(f"k = {self.k} is more than the shortest side of a sample {list(in_shape)}: lower k")
        if len(in_shape) == 1:
            return (self.k,)
        return *in_shape[:-2], in_shape[-2] + in_shape[-1], self.k

    def extra_repr(self) -> str:
        return f"k={self.k}"
