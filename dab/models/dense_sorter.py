"""The paper's dense sorter: T -> dense layers -> hard function -> T*T."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from dab.models.code import shape_after
from dab.nets import mlp


class DenseSorter(nn.Module):
    """Dense layers, each with its activation (also the last, before the hard function), and one linear read-out.

    The inputs are shifted and scaled first: comparing close numbers takes steep units, and a large input scale
    makes them cheap to learn. The paper's demo feeds the numbers as they are (shift 0, scale 1).
    """

    def __init__(
        self,
        estimator: nn.Module,
        input_shape: tuple[int, ...],
        widths: Sequence[int] = (128, 128, 256),
        activation: str = "tanh",
        input_shift: float = 0.5,
        input_scale: float = 10.0,
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
        if not widths:
            raise ValueError("widths needs at least one layer, the code that the hard function sees; got none")
        return (widths[-1],)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, T] -> logits [B, element, place], penalty [B]."""
        z = self.encoder((x - self.shift) * self.scale)
        y, penalty = self.estimator(z)
        return self.read_out(y.flatten(1)).view(-1, self.length, self.length), penalty
