"""What the dense sorter can do: the same network with its weights set by hand, and the right answer itself."""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor, nn

from dab.models.dense_sorter import DenseSorter
from dab.ranges import Count, Positive, ranged
from dab.surrogate import zero_penalty


class ConstructedSorter(DenseSorter):
    """A dense sorter that compares every pair, counts, and reads the places out.

    layer 1   tanh(slope (x_i - x_j)), one unit for every pair
    layer 2   the same units, made steeper
    layer 3   is at least p elements below element i?  positive if so, one unit for every i and p
    hard      the signum makes yes and no of it
    read-out  element i belongs at place p if at least p elements are below it, and not p + 1

    Only pairs too close for `slope` can go wrong. It fits into the demo's widths up to T = 15.
    """

    STEEPER = 4.0  # slope of layers 2 and 3

    @ranged
    def __init__(
        self,
        estimator: nn.Module,
        input_shape: tuple[int, ...],
        widths: tuple[Count, ...] = (128, 128, 256),
        slope: Positive = 1000.0,
    ):
        super().__init__(estimator, input_shape, widths, activation="tanh", input_shift=0.0, input_scale=1.0)
        pairs = list(combinations(range(self.length), 2))
        needed = (len(pairs), len(pairs), self.length * (self.length - 1))
        if len(widths) != 3 or any(have < need for have, need in zip(widths, needed)):
            raise ValueError(f"sorting {self.length} numbers by hand takes widths of at least {needed}, given {widths}")
        for parameter in self.parameters():
            nn.init.zeros_(parameter)
        with torch.no_grad():
            self._compare(pairs, slope)
            self._count(pairs)
            self._place()

    def _layers(self) -> list[nn.Linear]:
        return [layer for layer in self.encoder if isinstance(layer, nn.Linear)]

    def _compare(self, pairs: list[tuple[int, int]], slope: float) -> None:
        first, second, _ = self._layers()
        for unit, (i, j) in enumerate(pairs):
            first.weight[unit, i], first.weight[unit, j] = slope, -slope
            second.weight[unit, unit] = self.STEEPER

    def _count(self, pairs: list[tuple[int, int]]) -> None:
        """Unit (i, p): tanh(STEEPER (rank_i - p + 1/2)), where rank_i = sum over j of (1 + sgn(x_i - x_j)) / 2."""
        *_, third = self._layers()
        for i in range(self.length):
            for p in range(1, self.length):
                unit = self._unit(i, p)
                third.bias[unit] = self.STEEPER * ((self.length - 1) / 2 - p + 0.5)
                for pair, (a, b) in enumerate(pairs):
                    third.weight[unit, pair] = self.STEEPER / 2 * ((a == i) - (b == i))

    def _place(self) -> None:
        """logit(i at p) = [rank_i >= p] - [rank_i >= p + 1], with the two ends always and never true."""
        for i in range(self.length):
            for p in range(self.length):
                row = i * self.length + p
                for threshold, sign in ((p, 1.0), (p + 1, -1.0)):
                    if 0 < threshold < self.length:
                        self.read_out.weight[row, self._unit(i, threshold)] = sign
                    else:
                        self.read_out.bias[row] += 1.0

    def _unit(self, i: int, p: int) -> int:
        return i * (self.length - 1) + p - 1


class OracleSorter(nn.Module):
    """`torch.argsort`: what every row is measured against. Its one parameter is there to be trained in vain."""

    def __init__(self, estimator: nn.Module, input_shape: tuple[int, ...]):
        super().__init__()
        (self.length,) = input_shape
        self.scale = nn.Parameter(torch.ones(()))

    @staticmethod
    def code_shape(input_shape: tuple[int, ...], hard: nn.Module) -> tuple[int, ...]:
        return input_shape

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        chosen = nn.functional.one_hot(x.argsort(dim=1), self.length).transpose(1, 2)  # [B, element, place]
        return self.scale * chosen, zero_penalty(x)
