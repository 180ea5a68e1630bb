"""Mean, spread, the rule of the verdicts and the two ways to compare."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

RULE = (
    "Verdicts: *agrees* when our mean is within two standard errors of the paper's (both spreads counted), otherwise "
    "*better* or *worse*; *not comparable: budget* when ours is lower after less than a tenth of the paper's samples; "
    "*one run* or *no spread* when there is too little to judge."
)
PAIRED_RULE = (
    "Seed against seed: both rows start from the same seeds, so a row's lead is the mean of its leads at each of them, "
    "with a 95 % interval (Student's t) and the number of the seeds that both have; where one has more, the lead is "
    "not the difference of the two means. *Level* when the interval holds zero; then the number of seeds that would "
    "tell the two apart, in four cases of five, if lead and spread are what they seem: a rough figure, as a few seeds "
    "hardly know their own spread, and none is given for two. Every interval stands for itself: of twenty pairs that "
    "do not differ one leaves zero out by chance."
)

Curve = Sequence[tuple[float, float]]  # (x, y), x rising


@dataclass(frozen=True)
class Sample:
    """Values of one place of a table, and the seeds they belong to where that is known."""

    values: tuple[float, ...]
    seeds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.seeds and len(self.seeds) != len(self.values):
            raise ValueError(f"{len(self.values)} values for the seeds {self.seeds}: one for each")

    @classmethod
    def of(cls, by_seed: Mapping[int, float]) -> Sample:
        return cls(tuple(by_seed.values()), tuple(by_seed))

    @property
    def by_seed(self) -> dict[int, float]:
        return dict(zip(self.seeds, self.values))

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def std(self) -> float:
        return statistics.stdev(self.values) if self.n > 1 else math.nan

    def spread(self, digits: int = 2) -> str:
        """Mean ± standard deviation."""
        return f"{self.mean:.{digits}f}" + (f" ± {self.std:.{digits}f}" if self.n > 1 else "")

    def text(self, digits: int = 2, unit: str = "") -> str:
        return f"{self.spread(digits)}{unit} ({self.n})"


@dataclass(frozen=True)
class Printed:
    """A number as a paper prints it; `runs` is how many it averages, `std` None where it gives none."""

    mean: float
    std: float | None = None
    runs: int = 5
    samples: float | None = None  # what its training saw, where that is known
    unlike: str = ""  # what makes it another quantity than ours, e.g. "data"

    def text(self) -> str:
        return f"{self.mean:g}" + (f" ± {self.std:g}" if self.std is not None else "")


PaperNumbers = Mapping[tuple[str, str], Printed]  # by (row, column)


def printed(
    columns: Iterable[str],
    rows: Mapping[str, Sequence[float | tuple[float, float] | None]],
    samples: float | None = None,
) -> dict[tuple[str, str], Printed]:
    """A paper's table: for each row its numbers along `columns`, as mean, (mean, std), or None where it has none."""
    return {
        (row, column): Printed(*(number if isinstance(number, tuple) else (number, None)), samples=samples)
        for row, numbers in rows.items()
        for column, number in zip(columns, numbers)
        if number is not None
    }


def verdict(ours: Sample, printed: Printed | None, samples: float) -> str:
    """By RULE."""
    if printed is None:
        return "–"
    if printed.unlike:
        return f"not comparable: {printed.unlike}"
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


def compare(one: Sample, two: Sample, digits: int = 2) -> str:
    """ "ahead by 1.20 ± 0.30", "behind by ..." or "level": by two standard errors, as if the seeds were strangers."""
    difference = one.mean - two.mean
    if min(one.n, two.n) < 2:
        return f"{difference:+.{digits}f} (too few runs to judge)"
    error = math.hypot(one.std / math.sqrt(one.n), two.std / math.sqrt(two.n))
    if abs(difference) <= 2 * error:
        return f"level ({difference:+.{digits}f} ± {error:.{digits}f})"
    return f"{'ahead' if difference > 0 else 'behind'} by {abs(difference):.{digits}f} ± {error:.{digits}f}"


def _judged(word: str, ours: Sample) -> str:
    return word if ours.n > 1 else f"{word} (one run)"


@dataclass(frozen=True)
class Paired:
    """One row's lead over another at each of the seeds that both have."""

    leads: Sample

    @property
    def interval(self) -> tuple[float, float]:
        """95 % for the mean, by Student's t."""
        half = _t(0.975, self.leads.n - 1) * self.leads.std / math.sqrt(self.leads.n)
        return self.leads.mean - half, self.leads.mean + half

    @property
    def is_level(self) -> bool:
        low, high = self.interval
        return low <= 0 <= high

    def seeds_to_tell(self, at_most: int = 1000) -> int | None:
        """How many would tell a lead of this size from none, with a power of 80 %; None beyond `at_most`."""
        for n in range(2, at_most + 1):
            if (_t(0.975, n - 1) + _t(0.8, n - 1)) * self.leads.std <= abs(self.leads.mean) * math.sqrt(n):
                return n if self.leads.mean else None  # two rows that do the same are told apart by nothing
        return None

    def text(self, digits: int = 2) -> str:
        mean, n, (low, high) = self.leads.mean, self.leads.n, self.interval
        if not self.is_level:
            word, (near, far) = "ahead" if mean > 0 else "behind", sorted((abs(low), abs(high)))
            return f"{word} by {abs(mean):.{digits}f} ({near:.{digits}f} to {far:.{digits}f}; {n} seeds)"
        return f"level ({mean:+.{digits}f}, {low:+.{digits}f} to {high:+.{digits}f}; {n} seeds{self._tell()})"

    def _tell(self) -> str:
        if self.leads.n < 3:
            return ""
        needed = self.seeds_to_tell()
        return f", {needed} would tell" if needed else ", not to be told apart"


def paired(one: Sample, two: Sample) -> Paired:
    """The leads of `one` over `two`, at the seeds they share."""
    ours, theirs = one.by_seed, two.by_seed
    return Paired(Sample.of({seed: ours[seed] - theirs[seed] for seed in ours if seed in theirs}))


def compare_paired(one: Sample, two: Sample, digits: int = 2) -> str:
    """By PAIRED_RULE."""
    pair = paired(one, two)
    if pair.leads.n < 2:
        return f"{one.mean - two.mean:+.{digits}f} (too few shared seeds to judge)"
    return pair.text(digits)


def _t(probability: float, freedom: int) -> float:
    from scipy.special import stdtrit  # here, because it takes a third of a second and most pages do without

    return float(stdtrit(freedom, probability))


def at_least(curve: Curve, value: float) -> float | None:
    """The first x of a curve [(x, y)] at which y reaches `value`."""
    return next((x for x, y in curve if y >= value), None)


def best_until(curve: Curve, x: float) -> float | None:
    """The largest y of a curve [(x, y)] with rising x, up to `x`, by straight lines between its points."""
    best = None
    for (x0, y0), (x1, y1) in pairwise([*curve, (math.inf, math.nan)]):
        if x < x0:
            break
        reached = y1 if x1 <= x else y0 + (x - x0) / (x1 - x0) * (y1 - y0) if math.isfinite(x1) else y0
        best = max(y0, reached, best if best is not None else y0)
    return best


Band = Sequence[tuple[float, Sample]]  # (x, the values at x over seeds)


def band(curves: Mapping[int, Curve]) -> Band:
    """The curves of several seeds as one: at every evaluation the mean x and all the values."""
    seeds = tuple(curves)
    return [
        (statistics.fmean(x for x, _ in points), Sample(tuple(y for _, y in points), seeds))
        for points in zip(*curves.values())
    ]
