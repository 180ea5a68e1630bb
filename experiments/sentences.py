"""Places in words: who is where, who catches up, who starts when."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from experiments.numbers import duration, human
from experiments.results import Metric, Place, ranked
from experiments.tables import Name


def standing(ours: Place, places: Sequence[Place], metric: Metric, who: str, unit: str, name: Name = str) -> str:
    """Where `ours`, called `who`, stands among `places`, which had equal steps; nothing when it is alone."""
    if not ours or len(places) < 2:
        return ""
    order = ranked(places, metric)
    behind = order[0].sample(metric).mean - ours.sample(metric).mean
    return (
        f"At equal steps {who} is number {order.index(ours) + 1} of {len(order)} rows, {behind:.1f} {unit} behind the "
        f"best ({name(order[0].row)})."
    )


def catching_up(ours: Place, best: Place, metric: Metric, who: str, what: str, unit: str) -> str:
    """Whether longer training brings `ours` up to the best long run, and when that one was where `ours` ends.

    `metric` is the one that selects the weights, on validation.
    """
    if best is ours:
        return f"Of the long runs it has the best validation {what}."
    end, top = (place.selected(metric.factor).mean for place in (ours, best))
    passed = fmean(best.reached(end, "seconds", metric).values() or [math.nan])
    return (
        f"Of the long runs *{best.row}* has the best validation {what}, and {who} does not catch up: it ends "
        f"{top - end:.1f} {unit} lower after {duration(ours.seconds)}, a level that {best.row} passes "
        f"within {duration(passed)} of its own run."
    )


def starts(places: Mapping[str, Place], level: float, metric: Metric) -> str:
    """ "label 192 k, ...": the mean of the samples until validation passes `level`, where it does for every seed."""
    passed = {label: place.reached(level, "samples", metric) for label, place in places.items() if place}
    return ", ".join(
        f"{label} {human(fmean(at.values()))}" for label, at in passed.items() if len(at) == len(places[label].records)
    )
