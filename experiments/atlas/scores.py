"""Records as numbers between 0 (the encoder never learned) and 1 (the teacher, or no hard function at all)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from experiments.atlas.plan import FREE, FROZEN, ROWS, Function
from experiments.results import Metric, Results
from experiments.statistics import Sample

SCORE, EQUAL_CALLS = Metric("test/score"), Metric("test/score_at_equal_calls")
ACCURACY = Metric("test/accuracy")
LEAST_GAIN = 0.02  # of accuracy between the two ends of `use`: below it there is nothing to score


@dataclass(frozen=True)
class Scored:
    """A row on a function."""

    row: str
    sample: Sample
    calls: float

    @property
    def error(self) -> float:
        """Standard error of the mean; of one seed none."""
        return self.sample.std / math.sqrt(self.sample.n) if self.sample.n > 1 else 0.0


def recovered(results: Results, function: Function, metric: Metric = SCORE) -> dict[str, Scored]:
    """By row, of those that have records."""
    places = {row: results.at(row, function.name, "recover") for row in ROWS}
    return {row: Scored(row, p.sample(metric), calls(p.records.values())) for row, p in places.items() if p}


def used(results: Results, function: Function) -> dict[str, Scored]:
    """How far accuracy is on its way from a frozen encoder to no hard function at all, seed by seed."""
    low, high = (results.at(row, function.name, "use").values(ACCURACY) for row in (FROZEN, FREE))
    found = {}
    for row in ROWS:
        place = results.at(row, function.name, "use")
        scores = {
            seed: (value - low[seed]) / max(high[seed] - low[seed], LEAST_GAIN)
            for seed, value in place.values(ACCURACY).items()
            if seed in low and seed in high
        }
        if scores:
            found[row] = Scored(row, Sample.of(scores), calls(place.records.values()))
    return found


def calls(records: Iterable[dict]) -> float:
    """Of the function, for every sample and step."""
    return fmean(record["calls"] for record in records)


def order(scored: Iterable[Scored]) -> list[Scored]:
    return sorted(scored, key=lambda one: -one.sample.mean)


def is_level(one: Scored, first: Scored) -> bool:
    """Within two standard errors of the first."""
    return first.sample.mean - one.sample.mean <= 2 * math.hypot(first.error, one.error)


def together(of_functions: Sequence[dict[str, Scored]]) -> dict[str, Scored]:
    """Rows that every function has: the mean over the functions, for each seed that all of them have."""
    if not of_functions:
        return {}
    shared = set.intersection(*(set(scored) for scored in of_functions))
    found = {}
    for row in (row for row in ROWS if row in shared):
        by_seed = [scored[row].sample.by_seed for scored in of_functions]
        seeds = [seed for seed in by_seed[0] if all(seed in one for one in by_seed)]
        if seeds:
            means = {seed: fmean(one[seed] for one in by_seed) for seed in seeds}
            found[row] = Scored(row, Sample.of(means), fmean(scored[row].calls for scored in of_functions))
    return found
