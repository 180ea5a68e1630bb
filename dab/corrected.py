"""A fitted bridge that asks the hard function where its approximator is wrong.

Smoothing the hard function with noise gives it a gradient, which differences of its values at z + e and z - e estimate
for any function, with much noise. The approximator explains most of such a difference, and its own gradient is known:
only what it leaves unexplained need be estimated (a control variate; LAX, Grathwohl et al. 2018, carried to the
vector-Jacobian product of a layer).
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from dab.estimators.traits import Calls
from dab.fitted import FittedBridge
from dab.hard import acts_on_rows
from dab.pooled import pooled
from dab.ranges import Count, CountOr0, NotNegative, Positive, ShareAbove0, ranged
from dab.surrogate import hard_value


class CorrectedBridge(FittedBridge):
    """A fitted bridge, corrected by differences of the hard function around each sample.

    y, _ = bridge(z)            # z: [B, ...] → y: [B, ...]; 1 + 2 pairs calls of `hard` for each sample in training
    loss = task(y)

    Backward, with g the gradient that arrives, e = step · noise, step = sigma · std_z for each unit, noise normal and
    d(f) = [f(z + e) - f(z - e)] / 2, averaged over the pairs:

        form        into z
        here        J_s(z)'g        +  weight · <d(h) - d(s), g> noise / step
        lax         J_s(z ± e)'g    +  weight · <d(h) - d(s), g> noise / step
        linear      J_s(z)'g        +  weight · <d(h) - J_s(z)e, g> noise / step

    With weight 1 `lax` and `linear` are unbiased for the gradient of smoothed h, the mean of h(z + e), whatever s is;
    `here` is off by  J_s(z) - mean of J_s(z + e),  and yet trained better in first trials. A lower weight adds its
    share of the bias of s, in all three. With pairs = 0 they are the fitted bridge. y is `hard(z)` bit for bit, not
    smoothed.

    The pairs are kept as past pairs, for the fits of later steps: in this step's they would make s depend on the noise.
    They are one call of 2 pairs · B rows where a sample's output does not depend on the others of its batch (which is
    tried with the first ones), and 2 pairs calls of B rows otherwise.

    hard, approximator, in_shape, lr, fits, momentum    as for FittedBridge
    pairs       antithetic ones for each sample and step; 0: none
    sigma       of the noise, in standard deviations of each unit
    weight      of the correction: a number, or "earned": the running share of the pairs' differences d(h) that s leaves
                unexplained, at most 1. With 0 the pairs serve the fits alone
    form        here | lax | linear
    past        how many batches of pairs are kept; a step brings 1 + 2 pairs of them

    `unexplained` is that share, whichever the weight.
    """

    squares: Tensor  # running ones of d(h) - d(s) and of d(h), for each output  [2, ...]

    @ranged
    def __init__(
        self,
        hard: Callable[[Tensor], Tensor],
        approximator: nn.Module | None = None,
        pairs: CountOr0 = 2,
        sigma: Positive = 0.3,
        weight: NotNegative | Literal["earned"] = "earned",
        form: Literal["here", "lax", "linear"] = "here",
        lr: Positive = 3e-3,
        fits: Count = 8,
        past: Count = 40,
        momentum: ShareAbove0 = 0.01,
        in_shape: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(hard, approximator, lr, fits, past, momentum=momentum, in_shape=in_shape)
        if past < 1 + 2 * pairs:
            raise ValueError(f"past must be at least the 1 + 2 pairs = {1 + 2 * pairs} batches of a step, given {past}")
        self.pairs, self.sigma, self.weight, self.form = pairs, sigma, weight, form
        self._at_once: bool | None = None  # whether the pairs can be one call; None: not yet tried

    @property
    def calls(self) -> Calls:
        return Calls(1 + 2 * self.pairs)

    @property
    def unexplained(self) -> Tensor:
        """The share of d(h) that the approximator leaves unexplained, at most 1; before the first pairs 1.  []"""
        # In today's deviations: those of a function that was constant at first would have been next to nothing.
        left, whole = (self.squares / self._std("h").square()).flatten(1).mean(1)
        return torch.where(left < whole, left / whole, 1.0)

    def _stand_in(self, x: Tensor) -> Tensor:
        if not (self.pairs and torch.is_grad_enabled()):
            return super()._stand_in(x)
        noise = torch.randn(self.pairs, *x.shape, dtype=x.dtype, device=x.device)  # [K, B, ...]
        step = self._step()
        around = torch.cat([x + step * noise, x - step * noise])  # [2K, B, ...]
        h = self._hard_at(around.detach())
        imitation = self._imitation()
        s = imitation(around.flatten(0, 1)).view_as(h)  # [2K, B, ...]
        of_h, of_s = half_difference(h), half_difference(s.detach())  # [K, B, ...]
        self._keep(around.detach(), h, of_h, of_s)
        weight = self.unexplained if isinstance(self.weight, str) else self.weight
        slopes = weight * noise / step  # [K, B, ...]
        if self.form == "lax":
            return s.mean(0) + along(slopes, of_h - of_s, x)
        if self.form == "here":
            return imitation(x) + along(slopes, of_h - of_s, x)
        # The gradient that s passes back loses what the pairs measure: J_s(z)e is never computed.
        measured = along(slopes, step * noise, x)
        return imitation(x - (measured - measured.detach())) + along(slopes, of_h, x)

    def _step(self) -> Tensor:
        """Standard deviation of the noise, for each unit.  [...]"""
        return self.sigma * self._std("z")

    def _hard_at(self, around: Tensor) -> Tensor:
        """`hard` of several batches.  [N, B, ...] → [N, B, ...]"""
        if self._at_once is None:
            self._at_once = acts_on_rows(self.hard, around.flatten(0, 1))
        if self._at_once:
            h = hard_value(self.hard, around.flatten(0, 1)).unflatten(0, around.shape[:2])
        else:
            h = torch.stack([hard_value(self.hard, z) for z in around])
        return h.to(around.dtype)

    @torch.no_grad()
    def _keep(self, around: Tensor, h: Tensor, of_h: Tensor, of_s: Tensor) -> None:
        """The pairs, for later fits, and what s explains of them."""
        rate = self._rate(self.updates // self.fits - 1).to(h.dtype)
        squares = torch.stack([d.square().mean((0, 1)) for d in (of_h - of_s, of_h)])
        self.squares.lerp_(pooled(squares[None]).mean(0), rate)
        around, h = pooled(around.flatten(0, 1)), pooled(h.flatten(0, 1))
        self._track_one("h", h, rate)  # or what changes around a batch, but not within, were no number of deviations
        self._remember(around, h)

    def _start(self, z: Tensor, h: Tensor) -> None:
        super()._start(z, h)
        self.register_buffer("squares", h.new_zeros(2, *h.shape[1:]))

    def extra_repr(self) -> str:
        weight = self.weight if isinstance(self.weight, str) else f"{self.weight:g}"
        return f"pairs={self.pairs}, sigma={self.sigma:g}, weight={weight}, form={self.form}, {super().extra_repr()}"


def half_difference(values: Tensor) -> Tensor:
    """[2K, B, ...], first at z + e, then at z - e → [K, B, ...]"""
    after, before = values.chunk(2)
    return (after - before) / 2


def along(slopes: Tensor, differences: Tensor, x: Tensor) -> Tensor:
    """What is linear in x with the gradient  mean over pairs of slopes <differences, g>.

    slopes: [K, B, ...], as x; differences: [K, B, ...], as the result; x: [B, ...] → [B, ...]
    """
    moved = (slopes * x).flatten(2).sum(2) / len(slopes)  # [K, B]
    return (moved.reshape(*moved.shape, *[1] * (differences.dim() - 2)) * differences).sum(0)
