from collections.abc import Callable

import torch
from torch import Tensor, nn

from dab.activations import Activation
from dab.hard import Sort, TopK
from dab.nets import mlp
from dab.ranges import Count, ranged


class Lines(nn.Module):
    """One small net along every row and one along every column of a map; the same one where the map is square.

    row, column     what maps a row, and a column, to what comes of it
    upright         columns stay columns
    join            the dimension along which rows and columns follow one another
    """

    def __init__(self, row: nn.Module, column: nn.Module, upright: bool, join: int) -> None:
        super().__init__()
        self.row, self.column, self.upright, self.join = row, column, upright, join

    def forward(self, z: Tensor) -> Tensor:
        columns = self.column(z.mT)
        return torch.cat([self.row(z), columns.mT if self.upright else columns], self.join)


@ranged
def lines(
    hard: Callable[[Tensor], Tensor],
    in_shape: tuple[int, ...],
    hidden: tuple[Count, ...] = (32,),
    activation: Activation = "relu",
) -> Lines:
    """For Sort and TopK of maps: they treat every row alike and alone, and every column.

    hidden      sizes of the layers between
    """
    if len(in_shape) not in (2, 3) or not isinstance(hard, Sort | TopK):
        raise ValueError(
            f"lines is for Sort and TopK of maps [C, H, W], given {type(hard).__name__} of {list(in_shape)}: use dense"
        )
    hard.out_shape(in_shape)  # refuses too large a k
    height, width = in_shape[-2:]

    def net(length: int) -> nn.Module:
        return mlp((length, *hidden, length if isinstance(hard, Sort) else hard.k), activation)

    row = net(width)
    column = row if height == width else net(height)
    return Lines(row, column, upright=isinstance(hard, Sort), join=1 if isinstance(hard, Sort) else -2)
