"""Mean, spread and the rule of the verdicts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

RULE = (
    "Verdicts: *agrees* when our mean is within two standard errors of the paper's (both spreads counted), otherwise "
    "*better* or *worse*; *not comparable: budget* when ours is lower after less than a tenth of the paper's samples; "
    "*one run* or *no spread* when there is too little to judge."
)


@dataclass(frozen=True)
class Sample:
    """Values of one place of a table over seeds."""

    values: tuple[float, ...]

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def std(self) -> float:
        return statistics.stdev(self.values) if self.n > 1 else math.nan

    def text(self, digits: int = 2) -> str:
        spread = f" ± {self.std:.{digits}f}" if self.n > 1 else ""
        return f"{self.mean:.{digits}f}{spread} ({self.n})"


@dataclass(frozen=True)
class Printed:
    """A number as the paper prints it; `runs` is how many it averages, `std` None where it gives none."""

    mean: float
    std: float | None = None
    runs: int = 5
    samples: float | None = None  # what its training saw, where that is known

    def text(self, digits: int = 2) -> str:
        return f"{self.mean:g}" + (f" ± {self.std:g}" if self.std is not None else "")


def verdict(ours: Sample, printed: Printed | None, samples: float) -> str:
    """By RULE."""
    if printed is None:
        return "–"
    short = printed.samples is not None and samples < printed.samples / 10
    if ours.n > 1:
        spread = math.hypot(ours.std / math.sqrt(ours.n), (printed.std or 0.0) / math.sqrt(printed.runs))
        if abs(ours.mean - printed.mean) <= 2 * spread:
            return "agrees"
    if round(ours.mean, 2) == printed.mean:
        return _judged("agrees", ours)
    if ours.mean < printed.mean:
        return "not comparable: budget" if short else _judged("worse", ours)
    return _judged("better", ours)


def compare(one: Sample, two: Sample) -> str:
    """ "ahead by 1.20 ± 0.30", "behind by ..." or "level": by two standard errors of the difference."""
    difference = one.mean - two.mean
    if min(one.n, two.n) < 2:
        return f"{difference:+.2f} (too few runs to judge)"
    error = math.hypot(one.std / math.sqrt(one.n), two.std / math.sqrt(two.n))
    if abs(difference) <= 2 * error:
        return f"level ({difference:+.2f} ± {error:.2f})"
    return f"{'ahead' if difference > 0 else 'behind'} by {abs(difference):.2f} ± {error:.2f}"


def _judged(word: str, ours: Sample) -> str:
    return word if ours.n > 1 else f"{word} (one run)"


def at_least(curve: Sequence[tuple[float, float]], value: float) -> float | None:
    """The first x of a curve [(x, y)] at which y reaches `value`."""
    return next((x for x, y in curve if y >= value), None)


def best_until(curve: Sequence[tuple[float, float]], x: float) -> float | None:
    """The largest y of a curve [(x, y)] with rising x, up to `x`, by straight lines between its points."""
    best = None
    for (x0, y0), (x1, y1) in pairwise([*curve, (math.inf, math.nan)]):
        if x < x0:
            break
        reached = y1 if x1 <= x else y0 + (x - x0) / (x1 - x0) * (y1 - y0) if math.isfinite(x1) else y0
        best = max(y0, reached, best if best is not None else y0)
    return best
