import math
from collections.abc import Callable

from torch import Tensor, nn

from dab.activations import Activation
from dab.hard import out_shape as shape_after
from dab.nets import mlp
from dab.ranges import Count, ranged


class Dense(nn.Module):
    """Linear layers over the flattened sample.  [B, *in_shape] → [B, *out_shape]

    last_at_zero    the last layer, and so the output, starts at zero
    skip            a linear map beside them, which starts at zero: what is nearly linear need not pass the layers
    """

    def __init__(
        self,
        in_shape: tuple[int, ...],
        out_shape: tuple[int, ...],
        hidden: tuple[int, ...] = (128, 128),
        activation: str = "tanh",
        last_at_zero: bool = False,
        skip: bool = False,
    ) -> None:
        super().__init__()
        self.in_shape = tuple(in_shape)
        self.out_shape = tuple(out_shape)
        self.in_units = math.prod(in_shape)
        units = math.prod(out_shape)
        self.net = mlp((self.in_units, *hidden, units), activation, last_at_zero=last_at_zero)
        self.skip = mlp((self.in_units, units), activation, last_at_zero=True) if skip else None

    def forward(self, z: Tensor) -> Tensor:
        if math.prod(z.shape[1:]) != self.in_units:
            raise ValueError(
                f"this dense approximator was built for samples {list(self.in_shape)}, given {list(z.shape[1:])}: "
                "its size is fixed; build another for them, or use elementwise or conv where the hard function allows"
            )
        flat = z.reshape(z.shape[0], self.in_units)
        s = self.net(flat) if self.skip is None else self.net(flat) + self.skip(flat)
        return s.reshape(z.shape[0], *self.out_shape)


@ranged
def dense(
    hard: Callable[[Tensor], Tensor],
    in_shape: tuple[int, ...],
    hidden: tuple[Count, ...] = (128, 128),
    activation: Activation = "tanh",
    frozen: bool = False,
    skip: bool = False,
) -> Dense:
    """The paper's approximator, for any hard function: 256 → 128 → 128 → 256 for a code of 256 units.

    frozen      leave it at its random start: the control that asks whether the *learned* gradient helps
    skip        a linear map beside it, which starts at zero: for functions that are nearly linear in many units
    """
    return Dense(in_shape, shape_after(hard, in_shape), hidden, activation, skip=skip).requires_grad_(not frozen)
