import math

import torch.nn.functional as F
from torch import Tensor, nn

from dab.hard.bits import or_nan
from dab.ranges import Several, ranged


class Argmax(nn.Module):
    """1 for the largest of the last dimension (the first of equals), 0 for the others.  [B, ..., classes]

    A unit is one choice: `classes` numbers that hold log2(classes) bits together. Categorical draws it instead.
    """

    keeps_input = True

    @ranged
    def __init__(self, classes: Several = 8) -> None:
        super().__init__()
        self.classes = classes
        self.bits_per_unit: float | None = math.log2(classes)
        self.unit_shape = (classes,)

    def forward(self, z: Tensor) -> Tensor:
        self.out_shape(tuple(z.shape[1:]))
        one_hot = F.one_hot(z.detach().argmax(-1), self.classes)
        return or_nan(one_hot, z, z.detach().amax(-1, keepdim=True))

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        if len(in_shape) < 1 or in_shape[-1] != self.classes:
            raise ValueError(
                f"Argmax with {self.classes} classes needs samples of shape [..., {self.classes}], given "
                f"{list(in_shape)}: reshape them, or change classes"
            )
        return tuple(in_shape)

    def extra_repr(self) -> str:
        return f"classes={self.classes}"
