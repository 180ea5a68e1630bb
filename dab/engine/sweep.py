"""What came out of a sweep: one line for each of its choices, over the seeds."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """Of one job: what it was asked for, its record, or why there is none."""

    overrides: Sequence[str]
    result: dict[str, Any] | None
    reason: str = ""


def closing_table(outcomes: Sequence[Outcome]) -> str:
    """Mean ± standard deviation over seeds (how many); nothing where nothing was trained."""
    done = [one.result for one in outcomes if one.result is not None]
    if len(outcomes) < 2 or not done:
        return ""
    failed = sum(bool(one.reason) for one in outcomes)
    head = f"{len(outcomes)} runs, {len(done)} finished, {failed} failed; mean ± standard deviation (seeds)"
    return "\n".join(["", head, *(line for metric in _metrics(done) for line in _lines(outcomes, metric))])


def _metrics(results: Iterable[dict[str, Any]]) -> list[str]:
    """What selected the weights, "all_or_none": of a sweep over experiments there may be several."""
    return list(dict.fromkeys(result["best"]["metric"].removeprefix("valid/") for result in results))


def _lines(outcomes: Sequence[Outcome], metric: str) -> list[str]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        if one.result is None or one.result["best"]["metric"] == f"valid/{metric}":
            groups[_choice(one, outcomes)].append(one)
    rows = [("", f"best valid/{metric}", f"test/{metric}", "seconds", "")]
    for choice, members in groups.items():
        results = [one.result for one in members if one.result is not None]
        failed = f"{count} failed" if (count := sum(bool(one.reason) for one in members)) else ""
        if not results:
            rows.append((choice, failed, "", "", ""))
            continue
        best = [r["best"]["value"] for r in results]
        test = [r["metrics"].get(f"test/{metric}") for r in results]
        seconds = statistics.fmean(r["seconds"] for r in results)
        rows.append((choice, _spread(best), _spread(test), f"{seconds:.0f}", failed))
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(f"{text:{width}}" for text, width in zip(row, widths)).rstrip() for row in rows]


def _choice(one: Outcome, outcomes: Sequence[Outcome]) -> str:
    """What tells it from the others, but for the seed."""
    alike = set.intersection(*(set(other.overrides) for other in outcomes))
    words = [word for word in one.overrides if word not in alike and not word.startswith("seed=")]
    return " ".join(words) or (one.result["name"] if one.result else "this sweep")


def _spread(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    spread = f" ± {statistics.stdev(known):.2g}" if len(known) > 1 else ""
    return f"{statistics.fmean(known):.4g}{spread} ({len(known)})"
