"""What a few hundred calls tell of a function."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dab.approximators import Dense
from dab.hard import acts_on_units, out_shape
from dab.keys import generator
from dab.surrogate import call_hard, hard_value

# Least, most, and for how many seconds it is worth asking a slow function.
POINTS = (16, 64, 0.05)
FIT_ROWS = (64, 1024, 1.0)
STEP = 2e-4  # of the inputs' size: a small move
LINE = 17  # points along a line
FAR = (10.0, 1000.0)  # times the inputs' size: does it still grow?
CONSTANT = LINEAR = 0.9  # share of the outputs that must not move, or move in proportion
FITS = 300


@dataclass(frozen=True)
class Traits:
    """What a function is like, seen from inputs of one size."""

    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    deterministic: bool
    flat: float  # share of the outputs that a small move of the input leaves where they are
    straight: float  # share of those that do move which move in proportion
    monotone: bool  # no output falls, or none rises, where all inputs rise
    bounded: bool
    gradient: str  # what autograd finds: none (it cannot look inside), zero, some
    alike: bool  # one function of every single unit
    size: float  # standard deviation of the outputs
    seconds: float  # a call for one sample, in a batch
    explained: float  # share of the outputs' variance that a dense net explains after a few hundred steps, 0 to 1

    @property
    def keeps_shape(self) -> bool:
        return self.in_shape == self.out_shape

    @property
    def pieces(self) -> str:
        """Of what it is made."""
        if self.flat >= CONSTANT:
            return "constant"
        return "linear" if self.straight >= LINEAR else "curved"

    @property
    def black_box(self) -> bool:
        """No gradient but an estimate."""
        return self.gradient != "some"


def traits_of(hard: nn.Module, in_shape: tuple[int, ...], scale: float = 1.0) -> Traits:
    """scale    how large the inputs are (standard deviation)"""
    seconds = seconds_of_a_call(hard, scale * torch.randn(POINTS[0], *in_shape, generator=generator("traits", "z")))
    points, fit_rows = (min(max(int(patience / seconds), least), most) for least, most, patience in (POINTS, FIT_ROWS))
    z = scale * torch.randn(points, *in_shape, generator=generator("traits", "z"))
    flat, straight = _moves(hard, z, scale)
    deterministic = torch.equal(hard_value(hard, z), hard_value(hard, z))
    h = _units(hard_value(hard, z))
    return Traits(
        in_shape=tuple(in_shape),
        out_shape=out_shape(hard, in_shape),
        deterministic=deterministic,
        flat=flat,
        straight=straight,
        monotone=deterministic and _is_monotone(hard, z, scale),
        bounded=_is_bounded(hard, z),
        gradient=_gradient(hard, z),
        alike=acts_on_units(hard, in_shape),
        size=float(h.std(0).square().mean().sqrt()),
        seconds=seconds,
        explained=_explained(hard, in_shape, scale, fit_rows),
    )


def _moves(hard: nn.Module, z: Tensor, scale: float) -> tuple[float, float]:
    """Along a random direction, two small steps: the share that stays, and of the rest the share that goes straight."""
    step = STEP * scale * torch.randn(z.shape, generator=generator("traits", "step"), dtype=z.dtype)
    here, near, far = (_units(hard_value(hard, z + k * step)) for k in (0, 1, 2))
    first, second = near - here, far - near
    rounding = 16 * torch.finfo(z.dtype).eps * here.abs().max().clamp(min=torch.finfo(z.dtype).tiny)
    stays = (first.abs() <= rounding) & (second.abs() <= rounding)
    if stays.all():
        return 1.0, 0.0
    bend = (second - first).abs() <= 4 * rounding + 0.01 * torch.maximum(first.abs(), second.abs())
    # A step of a staircase now and then is no line.
    return float(stays.float().mean()), float(bend[~stays].float().mean())


def _is_monotone(hard: nn.Module, z: Tensor, scale: float) -> bool:
    """Every output along lines on which no input falls."""
    rise = torch.rand(z.shape, generator=generator("traits", "rise"), dtype=z.dtype)
    along = torch.linspace(-3 * scale, 3 * scale, LINE).tolist()
    h = torch.stack([_units(hard_value(hard, z + t * rise)) for t in along])  # [LINE, B, units]
    tolerance = 1e-5 * (h.max() - h.min())
    steps = h.diff(dim=0)
    return bool((steps >= -tolerance).all() or (steps <= tolerance).all())


def _is_bounded(hard: nn.Module, z: Tensor) -> bool:
    near, far = (hard_value(hard, factor * z).abs().nan_to_num(math.inf, math.inf).max() for factor in FAR)
    return bool(far <= 2 * near)


def _gradient(hard: nn.Module, z: Tensor) -> str:
    x = z.clone().requires_grad_()
    try:
        y = call_hard(hard, x)
        if not y.requires_grad:
            return "none"
        (gradient,) = torch.autograd.grad(y.square().sum(), x, allow_unused=True)
    except Exception:  # whatever somebody's function does with a tensor that wants a gradient
        return "none"
    return "some" if gradient is not None and bool((gradient != 0).any()) else "zero"


def seconds_of_a_call(hard: nn.Module, z: Tensor) -> float:
    """For one sample of the batch z."""
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        hard_value(hard, z)
        best = min(best, time.perf_counter() - start)
    return best / len(z)


def _explained(hard: nn.Module, in_shape: tuple[int, ...], scale: float, rows: int) -> float:
    """How well a bridge could fit: a dense net on standardised outputs, on samples it has not seen."""
    z = torch.randn(2 * rows, *in_shape, generator=generator("traits", "fit"))
    h = _units(hard_value(hard, scale * z))
    h = (h - h.mean(0)) / h.std(0).clamp(min=1e-6 + 1e-6 * float(h.std(0).max()))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = Dense(in_shape, (h.shape[1],))
        optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
        for step in range(FITS):
            batch = torch.randint(rows, (128,), generator=generator("traits", step))
            loss = (net(z[batch]) - h[batch]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            left = (net(z[rows:]) - h[rows:]).square().mean() / h[rows:].var().clamp(min=1e-12)
    return min(max(1.0 - float(left), 0.0), 1.0)


def _units(h: Tensor) -> Tensor:
    return h.flatten(1) if h.dim() > 1 else h.unsqueeze(1)  # [B, ...] → [B, units]
