"""Small functions whose smoothed gradient is known, in closed form or by quadrature; the z-test is of exactness.py.

One draw is one row, all rows alike, in float64. FALSE_ALARM (1e-6) is shared by the coordinates of this suite too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import torch
from exactness import Target, Verdict, tested
from torch import Tensor, nn
from torch.func import grad, vmap

Hard = Callable[[Tensor], Tensor]


def normal(x: Tensor) -> Tensor:
    return torch.special.ndtr(x)


@dataclass(frozen=True)
class Smooth:
    """A hard function at a point, with the gradient `weights` that arrives at its output."""

    hard: Hard
    z: tuple[float, ...]
    weights: tuple[float, ...]
    mean: Callable[[Tensor, float], Tensor]  # (z [d], sigma) → the smoothed function, differentiable

    def exact(self, sigma: float) -> Tensor:
        """The gradient of <weights, mean>.  [d]"""
        z = torch.tensor(self.z, dtype=torch.double, requires_grad=True)
        return torch.autograd.grad((self.mean(z, sigma) * self.arrives()).sum(), z)[0]

    def arrives(self) -> Tensor:
        return torch.tensor(self.weights, dtype=torch.double)

    def rows(self, n: int) -> Tensor:
        return torch.tensor(self.z, dtype=torch.double).expand(n, -1).contiguous().requires_grad_()

    def draw(self, layer: nn.Module, n: int) -> Tensor:
        """n gradients.  [n, d]"""
        z = self.rows(n)
        return torch.autograd.grad((layer(z)[0] * self.arrives()).sum(), z)[0]


class Batch(Smooth):
    """The d numbers are d rows of one batch: for functions whose rows see each other."""

    def draw(self, layer: nn.Module, n: int) -> Tensor:
        one = grad(lambda z: (layer(z[:, None])[0][:, 0] * self.arrives()).sum())
        return vmap(one, randomness="different")(self.rows(n).detach())


class SmoothTarget(Target):
    """What the mean of a layer's gradients must be."""

    def __init__(self, problem: Smooth, exact: Tensor) -> None:
        self.problem = problem  # type: ignore[assignment]
        self.groups = (exact,)  # type: ignore[assignment]
        self.norms = exact.norm()[None]
        self.exact = torch.cat([exact, self.norms])
        self.yardstick = self.norms.expand_as(self.exact)


def verdict(problem: Smooth, layer: nn.Module, exact: Tensor) -> Verdict:
    torch.manual_seed(0)
    return tested(SmoothTarget(problem, exact), layer)


# The functions


def heaviside(z: Tensor) -> Tensor:
    return (z > 0).to(z.dtype)


def parity(z: Tensor) -> Tensor:
    """sign(z_1 z_2): two units become one."""
    return z.prod(1, keepdim=True).sign()


def stairs(z: Tensor) -> Tensor:
    """Heights 0, 2, 1 with edges at -0.5 and 0.4: up, then down."""
    return 2 * (z > -0.5).to(z.dtype) - (z > 0.4).to(z.dtype)


def one_hot(z: Tensor) -> Tensor:
    return (z == z.amax(-1, keepdim=True)).to(z.dtype)


def above_mean(z: Tensor) -> Tensor:
    """1 where a row is above the mean of its batch."""
    return (z > z.mean(0)).to(z.dtype)


above_mean.row_wise = False  # type: ignore[attr-defined]


def mean_parity(z: Tensor, sigma: float) -> Tensor:
    return (2 * normal(z / sigma) - 1).prod()[None]


def mean_stairs(z: Tensor, sigma: float) -> Tensor:
    return 2 * normal((z + 0.5) / sigma) - normal((z - 0.4) / sigma)


def mean_one_hot(z: Tensor, sigma: float) -> Tensor:
    """The chance to be the largest, by quadrature over the noise of the one that is."""
    t = torch.linspace(-9, 9, 1801, dtype=torch.double)
    density = (-t.square() / 2).exp() / math.sqrt(2 * math.pi) * (t[1] - t[0])
    below = normal((z[:, None, None] - z[None, :, None]) / sigma + t)  # [i, j, t]: j is below i
    others = torch.where(torch.eye(len(z), dtype=torch.bool)[..., None], 1.0, below)
    return (others.prod(1) * density).sum(-1)


def mean_above_mean(z: Tensor, sigma: float) -> Tensor:
    """Of two rows the larger is above the mean."""
    chance = normal((z[0] - z[1]) / (sigma * math.sqrt(2)))
    return torch.stack([chance, 1 - chance])


PROBLEMS = {
    "heaviside": Smooth(heaviside, (0.0,), (1.0,), lambda z, sigma: normal(z / sigma)),
    "parity": Smooth(parity, (0.3, -0.5), (1.5,), mean_parity),
    "stairs": Smooth(stairs, (-0.2, 0.9), (1.0, -2.0), mean_stairs),
    "one-hot": Smooth(one_hot, (0.2, -0.1, 0.5), (1.0, -1.0, 0.5), mean_one_hot),
    "above the mean": Batch(above_mean, (0.1, -0.2), (1.0, -0.5), mean_above_mean),
}


def by_signs(problem: Smooth, step: float) -> Tensor:
    """The mean of simultaneous perturbation: all directions of plus and minus ones, one by one.  [d]"""
    z, total = problem.rows(1).detach(), torch.zeros(len(problem.z), dtype=torch.double)
    for signs in product((1.0, -1.0), repeat=len(problem.z)):
        e = torch.tensor(signs, dtype=torch.double)
        difference = (problem.hard(z + step * e) - problem.hard(z - step * e)) @ problem.arrives()
        total += difference * e / (2 * step)
    return total / 2 ** len(problem.z)
