"""The paper's dense sorter: T -> dense layers -> hard function -> T*T."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from dab.activations import Activation
from dab.models.code import shape_after
from dab.nets import mlp
from dab.ranges import Counts, Finite, Positive, ranged


class DenseSorter(nn.Module):
    """Dense layers, each with its activation (also the last, before the hard function), and one linear read-out.

    The inputs are shifted and scaled first: comparing close numbers takes steep units, and a large input scale
    makes them cheap to learn. The paper's demo feeds the numbers as they are (shift 0, scale 1).
    """

    @ranged
    def __init__(
        self,
        estimator: nn.Module,
        input_shape: tuple[int, ...],
        widths: Counts = (128, 128, 256),
        activation: Activation = "tanh",
        input_shift: Finite = 0.5,
        input_scale: Positive = 10.0,
    ):
        super().__init__()
        (length,) = input_shape
        self.length = length
        self.shift, self.scale = input_shift, input_scale
        self.encoder = mlp((length, *widths), activation, activate_last=True)
        self.estimator = estimator
        self.read_out = nn.Linear(math.prod(shape_after(estimator, (widths[-1],))), length * length)

    @staticmethod
    def code_shape(
        input_shape: tuple[int, ...], hard: nn.Module, widths: Sequence[int], **_: object
    ) -> tuple[int, ...]:
        return (widths[-1],)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, T] -> logits [B, element, place], penalty [B]."""
        z = self.encoder((x - self.shift) * self.scale)
        y, penalty = self.estimator(z)
        return self.read_out(y.flatten(1)).view(-1, self.length, self.length), penalty
