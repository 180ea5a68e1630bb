from collections.abc import Callable

from torch import Tensor, nn

from dab.activations import Activation
from dab.hard import out_shape as shape_after
from dab.nets import mlp
from dab.ranges import Count, ranged


class Elementwise(nn.Module):
    """One small net from number to number, applied to every unit.  [B, ...] → [B, ...]"""

    def __init__(self, hidden: tuple[int, ...] = (16,), activation: str = "tanh") -> None:
        super().__init__()
        self.net = mlp((1, *hidden, 1), activation)

    def forward(self, z: Tensor) -> Tensor:
        return self.net(z.unsqueeze(-1)).squeeze(-1)


@ranged
def elementwise(
    hard: Callable[[Tensor], Tensor],
    in_shape: tuple[int, ...],
    hidden: tuple[Count, ...] = (16,),
    activation: Activation = "tanh",
) -> Elementwise:
    """For hard functions that treat every unit alike and alone."""
    after = shape_after(hard, in_shape)
    if after != tuple(in_shape):
        raise ValueError(
            f"elementwise needs a hard function that keeps the shape, but this one turns {list(in_shape)} into "
            f"{list(after)}: use dense"
        )
    return Elementwise(hidden, activation)
