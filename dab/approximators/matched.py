"""Approximators with the form of the hard function, its edges softened: one slope instead of a network.

Fitted freely the slope runs to infinity and the gradient dies, so it is capped; the cap trades bias for variance.
Where a temperature is usual, as for soft sorting, the slope is one over it: a cap of 4 is a floor of 0.25.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from dab.activations import Activation
from dab.approximators.dense import Dense
from dab.approximators.soft_assignment import soft_kmeans
from dab.approximators.soft_choice import soft_argmax, soft_mask, soft_ranks
from dab.approximators.soft_sort import soft_map, soft_topk, soft_units
from dab.hard import (
    Argmax,
    Bernoulli,
    Binary,
    KMeans,
    Levels,
    Ranks,
    Signum,
    Sort,
    Sort1d,
    Threshold,
    TopK,
    TopKMask,
)
from dab.hard import out_shape as shape_after
from dab.hard.binary import mean_of
from dab.ranges import Count, Positive, When, ranged

OF_UNITS = (Signum, Binary, Bernoulli, Threshold, Levels)  # a unit of the output for each of the input
OF_SAMPLES = (Sort, Sort1d, TopK, TopKMask, Ranks, Argmax, KMeans)
KNOWN = OF_UNITS + OF_SAMPLES


class _AtMost(torch.autograd.Function):
    """min(slope, cap), with the gradient of a projection: above the cap, a pull down passes and a push up does not.

    A plain minimum drops both: a slope that the optimizer's momentum once carried over the cap could never return.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(slope: Tensor, cap: Tensor) -> Tensor:
        return torch.minimum(slope, cap)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        slope, cap = inputs
        ctx.save_for_backward(slope <= cap)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (below,) = ctx.saved_tensors
        return torch.where(below | (grad > 0), grad, 0.0), None


class Matched(nn.Module):
    """form(z, slope), with 0 < slope <= cap; `residual`, if any, is added.

    form        (z, slope) → soft output
    cap         at the end of training; from `cap_start` (None: constant) it moves there linearly with `set_progress`
    slope       at the start
    unit_shape  () for one slope, the shape of a sample for one a unit
    """

    cap: Tensor

    @ranged
    def __init__(
        self,
        form: Callable[[Tensor, Tensor], Tensor],
        cap: Positive,
        cap_start: Positive | None,
        slope: Positive,
        unit_shape: tuple[int, ...] = (),
        residual: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.form = form
        self.cap_end = cap
        self.cap_start = cap if cap_start is None else cap_start
        self.log_slope = nn.Parameter(torch.full(unit_shape, math.log(slope)))  # the logarithm keeps it positive
        self.register_buffer("cap", torch.tensor(float(self.cap_start)))
        self.residual = residual

    @property
    def slope(self) -> Tensor:
        """The slope in use, after the cap.  [] or [*unit_shape]"""
        return _AtMost.apply(self.log_slope.exp(), self.cap)

    def forward(self, z: Tensor) -> Tensor:
        s = self.form(z, self.slope)
        return s if self.residual is None else s + self.residual(z)

    def set_progress(self, fraction: float) -> None:
        """Move the cap to its place at this fraction (0..1) of training, without waiting for the device."""
        fraction = min(max(fraction, 0.0), 1.0)
        self.cap.fill_(self.cap_start + (self.cap_end - self.cap_start) * fraction)

    def extra_repr(self) -> str:
        return f"cap={self.cap_start:g}" + (f"..{self.cap_end:g}" if self.cap_end != self.cap_start else "")


@ranged
def matched(
    hard: nn.Module,
    in_shape: tuple[int, ...],
    cap: Positive = 4.0,
    cap_start: Positive | None = None,
    slope: Positive | None = None,
    per_unit: bool = False,
    residual: tuple[Count, ...] | None = None,
    activation: Annotated[Activation, When("residual")] = "tanh",
) -> Matched:
    """The matched approximator of a hard function whose form is known (KNOWN).

    slope       at the start; None: 1, or the cap if that is lower
    per_unit    a slope for every unit instead of one; not for those that compare units (OF_SAMPLES)
    residual    hidden sizes of a dense net added to the form, zero at the start; None: no net
    activation  of the residual
    """
    form = soft_form(hard)
    if per_unit and isinstance(hard, OF_SAMPLES):
        raise ValueError(f"{type(hard).__name__} compares units, so that none has a slope of its own: per_unit=false")
    lowest = cap if cap_start is None else min(cap, cap_start)
    start = min(1.0, lowest) if slope is None else slope
    net = None
    if residual is not None:
        net = Dense(in_shape, shape_after(hard, in_shape), residual, activation, last_at_zero=True)
    return Matched(form, cap, cap_start, start, tuple(in_shape) if per_unit else (), net)


def soft_form(hard: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """(z, slope) → the hard function with soft edges."""
    match hard:
        case Signum():
            return partial(_signum, eps=hard.eps)
        case Binary():
            return partial(_binary, reference=hard.reference)
        case Bernoulli():
            return _logistic
        case Threshold():
            return partial(_logistic, centre=hard.tau)
        case Levels():
            return partial(_levels, edges=hard.edges)
        case Sort():
            return partial(soft_map, descending=hard.descending)
        case Sort1d():
            return partial(soft_units, descending=hard.descending)
        case TopK():
            return partial(soft_topk, k=hard.k)
        case TopKMask():
            return partial(soft_mask, k=hard.k)
        case Ranks():
            return soft_ranks
        case Argmax():
            return soft_argmax
        case KMeans():
            return partial(soft_kmeans, hard=hard)
    known = ", ".join(kind.__name__ for kind in KNOWN)
    raise ValueError(f"matched knows the form of {known}, given {type(hard).__name__}: use dense")


def _signum(z: Tensor, slope: Tensor, eps: float) -> Tensor:
    return (torch.tanh(slope * (z - eps)) + torch.tanh(slope * (z + eps))) / 2


def _binary(z: Tensor, slope: Tensor, reference: str) -> Tensor:
    return torch.sigmoid(slope * (z - mean_of(z, reference)))


def _logistic(z: Tensor, slope: Tensor, centre: float = 0.0) -> Tensor:
    return torch.sigmoid(slope * (z - centre))


def _levels(z: Tensor, slope: Tensor, edges: list[float]) -> Tensor:
    return torch.stack([torch.tanh(slope * (z - edge)) for edge in edges]).mean(0)
