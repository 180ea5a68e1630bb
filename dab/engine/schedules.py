"""Learning-rate schedules: functions of progress alone, so that there is no scheduler state to save or lose."""

from __future__ import annotations

import math


class Schedule:
    """`schedule(done)` is the factor on the learning rate after the share `done` in [0, 1) of the steps.

    `warmup` is the share of the steps spent rising linearly from (almost) zero.
    """

    def __init__(self, warmup: float = 0.0):
        if not 0 <= warmup < 1:
            raise ValueError(f"schedule.warmup is a share of the steps in [0, 1), got {warmup}")
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

    def __init__(self, warmup: float = 0.0, floor: float = 0.0):
        super().__init__(warmup)
        self.floor = floor

    def after_warmup(self, done: float) -> float:
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * done))


class Linear(Schedule):
    """A constant rate that falls linearly to zero over the last share `decay` of the steps."""

    def __init__(self, warmup: float = 0.0, decay: float = 1.0):
        super().__init__(warmup)
        if not 0 < decay <= 1:
            raise ValueError(f"schedule.decay is a share of the steps in (0, 1], got {decay}")
        self.decay = decay

    def after_warmup(self, done: float) -> float:
        return min(1.0, (1 - done) / self.decay)
