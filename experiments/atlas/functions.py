"""The functions. Those of `dab.hard` are taken from there; the others are what users bring."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dab import hard
from dab.advise.function import FromNumpy

Array = NDArray[np.float32]


class Medians(nn.Module):
    """The median of each of some groups of units (of an even number the lower one).  [B, units] → [B, groups]"""

    def __init__(self, groups: int = 4) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, z: Tensor) -> Tensor:
        return z.unflatten(1, (self.groups, -1)).median(-1).values


class Parity(nn.Module):
    """1 where two neighbours have the same sign, -1 where not.  [B, 2 pairs] → [B, pairs]"""

    def forward(self, z: Tensor) -> Tensor:
        return z.unflatten(1, (-1, 2)).sign().prod(-1)


class QuantisedBlock(nn.Module):
    """A block of pixels after JPEG's lossy step: cosine transform, rounding, and back.  [B, 8, 8] → [B, 8, 8]

    step    of the lowest frequency; each further place to the right or down adds a quarter of it
    """

    basis: Tensor
    steps: Tensor

    def __init__(self, step: float = 0.5, size: int = 8) -> None:
        super().__init__()
        place = torch.arange(size)
        basis = torch.cos(torch.pi / size * (place + 0.5) * place[:, None]) * (2 / size) ** 0.5
        basis[0] /= 2**0.5
        self.register_buffer("basis", basis)
        self.register_buffer("steps", step * (1 + 0.25 * (place + place[:, None])))

    def forward(self, z: Tensor) -> Tensor:
        frequencies = self.basis @ z @ self.basis.T
        return self.basis.T @ (self.steps * (frequencies / self.steps).round()) @ self.basis


def histogram(z: Array, bins: int = 8, reach: float = 2.0) -> Array:
    """How many units lie in each bin; what is beyond the ends counts in the last ones.  [B, N] → [B, bins]"""
    place = np.clip(np.floor((z + reach) * (bins / (2 * reach))), 0, bins - 1)
    return (place[:, :, None] == np.arange(bins)).sum(1).astype(z.dtype)


def actuator(u: Array) -> Array:
    """What a saturating actuator with a dead zone and quarter steps makes of a command."""
    v = np.clip(u, -3, 3)
    return np.round(np.sign(v) * np.maximum(np.abs(v) - 0.5, 0) * 4) / 4


def plant(commands: Array) -> Array:
    """A sluggish plant driven through that actuator, measured after every second command.  [B, T] → [B, T / 2]"""
    state = np.zeros_like(commands[:, 0])
    measured = []
    for time in range(commands.shape[1]):
        state = 0.7 * state + 0.6 * actuator(commands[:, time])
        if time % 2:
            measured.append(state)
    return np.stack(measured, 1)


@cache
def tree(inputs: int = 16, outputs: int = 4, depth: int = 6) -> Callable[[Array], Array]:
    """A regression tree of scikit-learn, grown on a few thousand samples of a smooth function."""
    from sklearn.tree import DecisionTreeRegressor

    draw = np.random.default_rng(0)
    x = draw.normal(size=(4096, inputs))
    few = np.zeros((inputs, outputs))  # each output looks at four inputs: depth enough for it
    for column in range(outputs):
        few[4 * column : 4 * column + 4, column] = draw.normal(size=4)
    grown = DecisionTreeRegressor(max_depth=depth, random_state=0).fit(x, np.tanh(x @ few))
    return lambda z: grown.predict(z).astype(z.dtype)


@cache
def neighbours(inputs: int = 16, outputs: int = 4, known: int = 256) -> Callable[[Array], Array]:
    """What the nearest of some known points has, by scikit-learn."""
    from sklearn.neighbors import KNeighborsRegressor

    draw = np.random.default_rng(1)
    x = draw.normal(size=(known, inputs))
    found = KNeighborsRegressor(1, algorithm="brute").fit(x, np.tanh(x[:, :outputs] + x[:, outputs : 2 * outputs]))
    return lambda z: found.predict(z).astype(z.dtype)


def longest_runs(z: Array) -> Array:
    """How many neighbours in a row are positive at most, and how many are not.  [B, N] → [B, 2]"""
    longest = []
    for wanted in (z > 0, z <= 0):
        run = np.zeros(len(z))
        best = run
        for unit in wanted.T:
            run = (run + 1) * unit
            best = np.maximum(best, run)
        longest.append(best)
    return np.stack(longest, 1).astype(z.dtype)


class Energies(nn.Module):
    """The sum of squares of each of some groups, rounded down.  [B, units] → [B, groups]"""

    def __init__(self, groups: int = 4) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, z: Tensor) -> Tensor:
        return z.unflatten(1, (self.groups, -1)).square().sum(-1).floor()


MAKE: dict[str, Callable[[], nn.Module]] = {
    "signum": hard.Signum,
    "rounding": hard.Round,
    "staircase": hard.Staircase,
    "argmax": lambda: hard.Argmax(4),
    "topk": lambda: hard.TopKMask(3),
    "sorted": hard.Sort1d,
    "ranks": hard.Ranks,
    "kmeans": lambda: hard.KMeans(3, iterations=5),
    "medians": Medians,
    "histogram": lambda: FromNumpy(histogram),
    "parity": Parity,
    "dct": QuantisedBlock,
    "tree": lambda: FromNumpy(tree()),
    "path": lambda: hard.ShortestPath(4, 4, costs="nodes"),
    "actuator": lambda: FromNumpy(plant),
    "neighbours": lambda: FromNumpy(neighbours()),
    "runs": lambda: FromNumpy(longest_runs),
    "energies": Energies,
    "yardstick": lambda: FromNumpy(actuator),
}
