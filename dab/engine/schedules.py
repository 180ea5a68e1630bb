"""Learning-rate schedules: functions of progress alone, so that there is no scheduler state to save or lose."""

from __future__ import annotations

import math

from dab.ranges import Share, ShareAbove0, ShareBelow1, ranged


class Schedule:
    """`schedule(done)` is the factor on the learning rate after the share `done` in [0, 1) of the steps.

    `warmup` is the share of the steps spent rising linearly from (almost) zero.
    """

    @ranged
    def __init__(self, warmup: ShareBelow1 = 0.0):
        self.warmup = warmup

    def after_warmup(self, done: float) -> float:
        raise NotImplementedError

    def __call__(self, done: float) -> float:
        if done < self.warmup:
            return (done + 1e-3) / (self.warmup + 1e-3)
        return self.after_warmup((done - self.warmup) / (1 - self.warmup))


class Constant(Schedule):
    def after_warmup(self, done: float) -> float:
        return 1.0


class Cosine(Schedule):
    """Half a cosine from 1 down to `floor`."""

    @ranged
    def __init__(self, warmup: ShareBelow1 = 0.0, floor: Share = 0.0):
        super().__init__(warmup)
        self.floor = floor

    def after_warmup(self, done: float) -> float:
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * done))


class Linear(Schedule):
    """A constant rate that falls linearly to zero over the last share `decay` of the steps."""

    @ranged
    def __init__(self, warmup: ShareBelow1 = 0.0, decay: ShareAbove0 = 1.0):
        super().__init__(warmup)
        self.decay = decay

    def after_warmup(self, done: float) -> float:
        return min(1.0, (1 - done) / self.decay)
