"""The candidates that fit a function, on the recover task, within a time; and which of them to take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

import torch
from torch import nn

from dab.advise.candidates import CANDIDATES, Candidate
from dab.advise.recover import Recover
from dab.advise.traits import Traits

POOL, LEAST_POOL = 2048, 256  # samples: each is a call of somebody's function, ...
SHARE = 0.03  # ... which may be slow: so much of the time for those of a seed
SEEDS = 3
MOST_STEPS, LEAST_STEPS = 1000, 60
WARM = 4  # steps that tell how long one takes
RESERVE = 0.85  # of the time that is planned: steps later take longer than the first

EQUAL = 0.01  # a lead that nobody pays for
FEW_STEPS = 150
A_GUESS = " (So few steps make this a guess: give more --seconds.)"

Tell = Callable[[str], None]


@dataclass
class Tried:
    """A candidate on the task; a score for every seed."""

    candidate: Candidate
    step_seconds: float
    calls: float = math.nan  # of the function, for every sample and step
    seconds: float = 0.0  # of one training
    scores: dict[int, float] = field(default_factory=dict)  # by seed

    @property
    def score(self) -> float:
        return fmean(self.scores.values())

    @property
    def spread(self) -> float:
        return stdev(self.scores.values()) if len(self.scores) > 1 else math.nan

    def is_level_with(self, first: Tried) -> bool:
        """Not behind by more than a standard error of the lead, seed against seed: both had the same teachers."""
        leads = [first.scores[seed] - score for seed, score in self.scores.items() if seed in first.scores]
        error = stdev(leads) / math.sqrt(len(leads)) if len(leads) > 1 else 0.0
        return bool(leads) and fmean(leads) <= max(error, EQUAL)


@dataclass(frozen=True)
class Advice:
    traits: Traits
    steps: int
    tried: Sequence[Tried]  # the best first
    unfit: dict[str, str]  # candidate → why it does not fit
    left_out: Sequence[str]  # for want of time

    @property
    def first(self) -> Tried:
        return self.tried[0]

    @property
    def taken(self) -> Tried:
        """The cheapest, in calls and then in time, of those that are level with the first."""
        level = [one for one in self.tried if one.is_level_with(self.first)]
        return min(level, key=lambda one: (round(one.calls), one.seconds))

    def sentences(self) -> str:
        """Two: what to take, and why."""
        taken, times = self.taken, _calls(self.taken)
        if taken.score <= 0.05:
            return (
                f"None of the {len(self.tried)} estimators learned anything in {self.steps} steps. "
                "Give more --seconds, the size of the inputs with --scale, or fewer units before the function."
            )
        what = (
            f"Take {taken.candidate.name}: in {self.steps} steps it came {100 * taken.score:.0f} % of the way from "
            f"an encoder that never learned to the teacher, with {times} of the function for a sample and step."
        )
        return f"{what} {self._reason()}" + (A_GUESS if self.steps < FEW_STEPS else "")

    def _reason(self) -> str:
        traits, taken = self.traits, self.taken
        if traits.gradient == "some":
            why = "autograd finds a gradient here"
        else:
            found = "a gradient of zero" if traits.gradient == "zero" else "nothing"
            shape = "keeps the shape" if traits.keeps_shape else "changes the shape"
            why = f"the function {shape} and autograd finds {found}"
        others = [one for one in self.tried if one is not taken]
        if not others:
            return f"The reason: {why}, and nothing else fits."
        rival = others[0]
        if rival is self.first:
            cost = f"{_calls(rival)} and {rival.seconds:.1f} s against {_calls(taken)} and {taken.seconds:.1f} s"
            than = f"{rival.candidate.name}, which is level with {rival.score:.2f}, takes {cost}"
        else:
            than = f"the next best, {rival.candidate.name}, reached {rival.score:.2f}"
        return f"The reason: {why}, and {than}."

    def as_dict(self) -> dict[str, Any]:
        return {
            "traits": {**vars(self.traits), "pieces": self.traits.pieces, "keeps_shape": self.traits.keeps_shape},
            "steps": self.steps,
            "tried": [
                {
                    "estimator": one.candidate.name,
                    "score": one.score,
                    "spread": one.spread if len(one.scores) > 1 else None,
                    "seeds": len(one.scores),
                    "calls": one.calls,
                    "seconds": one.seconds,
                }
                for one in self.tried
            ],
            "does_not_fit": self.unfit,
            "left_out": list(self.left_out),
            "take": self.taken.candidate.name,
            "advice": self.sentences(),
        }


def _calls(one: Tried) -> str:
    return f"{one.calls:.0f} call" + "s" * (round(one.calls) != 1)


def advise(
    hard: nn.Module, traits: Traits, seconds: float, scale: float = 1.0, tell: Tell = lambda text: None
) -> Advice:
    """Every candidate that fits, with the same steps and seeds: as many as there is time for.

    tell    called after every training with what was done
    """
    deadline = time.monotonic() + seconds
    unfit = {c.name: why for c in CANDIDATES if (why := c.why_not(hard, traits))}
    pool = min(max(int(SHARE * seconds / traits.seconds), LEAST_POOL), POOL)
    tasks = {0: Recover(hard, traits.in_shape, 0, scale, pool, pool // 4)}
    tried = [_timed(tasks[0], c) for c in CANDIDATES if c.name not in unfit]
    seeds, steps, left_out = _plan(tried, RESERVE * (deadline - time.monotonic()))
    for seed in range(seeds):
        if seed not in tasks:
            tasks[seed] = Recover(hard, traits.in_shape, seed, scale, pool, pool // 4)
        for one in (one for one in tried if one not in left_out):
            try:
                _train(one, tasks[seed], steps, deadline if one.scores else math.inf)
            except TimeoutError:
                tell("")
                continue
            tell(f"{one.candidate.name}: {one.scores[seed]:.2f}")
    done = sorted((one for one in tried if one.scores), key=lambda one: -one.score)
    return Advice(traits, steps, done, unfit, [one.candidate.name for one in left_out])


def trainings(hard: nn.Module, traits: Traits) -> int:
    """At most, for a progress bar."""
    return SEEDS * sum(not c.why_not(hard, traits) for c in CANDIDATES)


def _layer(candidate: Candidate, task: Recover) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(task.seed)
        return candidate.layer(task.hard, task.in_shape, candidate.settings[0])


def _timed(task: Recover, candidate: Candidate) -> Tried:
    layer = _layer(candidate, task)
    task.train(layer, candidate.settings[0].rate, 1)  # the first step builds things
    start = time.monotonic()
    task.train(layer, candidate.settings[0].rate, WARM)
    return Tried(candidate, (time.monotonic() - start) / WARM)


def _plan(tried: Sequence[Tried], seconds: float) -> tuple[int, int, list[Tried]]:
    """Seeds, steps, and who is left out: seeds go first, then the slowest candidates; two always stay."""
    left_out: list[Tried] = []
    while True:
        stay = [one for one in tried if one not in left_out]
        one_step = sum(one.step_seconds for one in stay)
        for seeds in range(SEEDS, 0, -1):
            steps = int(seconds / (seeds * one_step))
            if steps >= LEAST_STEPS:
                return seeds, min(steps, MOST_STEPS), left_out
        if len(stay) <= 2:
            return 1, LEAST_STEPS, left_out
        left_out.append(max(stay, key=lambda one: one.step_seconds))


def _train(one: Tried, task: Recover, steps: int, deadline: float) -> None:
    start = time.monotonic()
    trained = task.train(_layer(one.candidate, task), one.candidate.settings[0].rate, steps, deadline)
    one.scores[task.seed] = task.score(trained.encoder, "test")
    one.calls, one.seconds = trained.calls, time.monotonic() - start
