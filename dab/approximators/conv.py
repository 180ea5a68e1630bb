from collections.abc import Callable
from itertools import pairwise

from torch import Tensor, nn

from dab.activations import Activation
from dab.activations import activation as activation_named
from dab.hard import out_shape as shape_after
from dab.ranges import Count, ranged


class Conv(nn.Module):
    """Convolutions that keep height and width, the activation between them.  [B, C, H, W] → [B, C', H, W]"""

    def __init__(self, channels: tuple[int, ...], kernel: int = 3, activation: str = "relu") -> None:
        super().__init__()
        if kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, so that height and width are kept, given {kernel}")
        layers: list[nn.Module] = []
        for before, after in pairwise(channels):
            layers += [nn.Conv2d(before, after, kernel, padding=kernel // 2), activation_named(activation)]
        self.net = nn.Sequential(*layers[:-1])

    def forward(self, z: Tensor) -> Tensor:
        return self.net(z)


@ranged
def conv(
    hard: Callable[[Tensor], Tensor],
    in_shape: tuple[int, ...],
    channels: tuple[Count, ...] = (64, 64),
    kernel: Count = 3,
    activation: Activation = "relu",
) -> Conv:
    """For hard functions on feature maps that keep height and width.

    channels    of the layers between; the first and last sizes come from the hard function
    """
    after = shape_after(hard, in_shape)
    if len(in_shape) != 3 or len(after) != 3 or tuple(after[1:]) != tuple(in_shape[1:]):
        raise ValueError(
            f"conv needs a hard function that maps [C, H, W] to [C', H, W], but this one turns {list(in_shape)} into "
            f"{list(after)}: use dense"
        )
    return Conv((in_shape[0], *channels, after[0]), kernel, activation)
