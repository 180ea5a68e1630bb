"""What came out of a sweep: one line for each of its choices, over the seeds.

Its jobs may run anywhere, so each leaves what came of it as a file in the sweep's folder, <paths.runs>/.sweep/<time>/.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dab.engine.exits import BUSY, CHANGED, INTERRUPTED
from dab.engine.records import read_json, write_json
from dab.engine.run import Run

REASONS = {
    BUSY: "another process is training it",
    CHANGED: "it was trained with other code or options (force=true or resume=anyway)",
}


@dataclass(frozen=True)
class Outcome:
    """Of one job: what it was asked for, its record, or why there is none."""

    overrides: Sequence[str]
    result: dict[str, Any] | None
    reason: str = ""
    traceback: str = ""


def reason_of(run: Run, code: int) -> str:
    """Why a run has no record, by the exit code of its command."""
    if code > INTERRUPTED:
        return "interrupted and saved; the same command goes on"
    unsaid = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
    return REASONS.get(code) or (run.status.get("message") if run.status["state"] == "failed" else None) or unsaid


def new_folder(runs: Path) -> Path:
    return runs / ".sweep" / f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{os.getpid()}"


def note(folder: Path, number: int, outcome: Outcome) -> None:
    """What came of the sweep's job of this number."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{number}.json", asdict(outcome))


def noted(folder: Path) -> list[Outcome]:
    numbers = sorted(int(path.stem) for path in folder.glob("*.json") if path.stem.isdecimal())
    return [Outcome(**(read_json(folder / f"{number}.json") or {})) for number in numbers]


def summarise(folder: Path, outcomes: Sequence[Outcome]) -> Path:
    """Into summary.json: which jobs have a record, which failed, of what, and where."""
    failed = [{k: v for k, v in asdict(one).items() if k != "result"} for one in outcomes if one.reason]
    write_json(path := folder / "summary.json", {"jobs": len(outcomes), "failed": failed, "time": time.time()})
    return path


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
