import math
from collections.abc import Callable
from itertools import pairwise

from torch import Tensor, nn

from dab.activations import activation as activation_named
from dab.hard import out_shape as shape_after


def stack(sizes: tuple[int, ...], activation: str) -> nn.Sequential:
    """Linear layers from sizes[0] to sizes[-1], the activation between them and none at the end."""
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), activation_named(activation)]
    return nn.Sequential(*layers[:-1])


class Dense(nn.Module):
    """Linear layers over the flattened sample.  [B, *in_shape] → [B, *out_shape]"""

    def __init__(
        self,
        in_shape: tuple[int, ...],
        out_shape: tuple[int, ...],
        hidden: tuple[int, ...] = (128, 128),
        activation: str = "tanh",
    ) -> None:
        super().__init__()
        self.in_units = math.prod(in_shape)
        self.out_shape = tuple(out_shape)
        self.net = stack((self.in_units, *hidden, math.prod(out_shape)), activation)

    def forward(self, z: Tensor) -> Tensor:
        return self.net(z.reshape(z.shape[0], self.in_units)).reshape(z.shape[0], *self.out_shape)


def dense(
    hard: Callable[[Tensor], Tensor],
    in_shape: tuple[int, ...],
    hidden: tuple[int, ...] = (128, 128),
    activation: str = "tanh",
    frozen: bool = False,
) -> Dense:
    """The paper's approximator, for any hard function: 256 → 128 → 128 → 256 for a code of 256 units.

    frozen      leave it at its random start: the control that asks whether the *learned* gradient helps
    """
    return Dense(in_shape, shape_after(hard, in_shape), hidden, activation).requires_grad_(not frozen)
