"""What a study is made of. Nothing here knows a particular study."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dab.engine.compose import resolve
from dab.engine.run import Run

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "runs"
SCALES = ("smoke", "cpu", "paper")

Record = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One run of a study: where it stands in the table, and the command line that makes it."""

    row: str
    column: str
    seed: int
    overrides: tuple[str, ...]

    @property
    def id(self) -> str:
        words = re.sub(r"[^a-z0-9]+", "-", self.row.lower()).strip("-")
        return f"{words}.{self.column}.seed{self.seed}"

    @property
    def command(self) -> list[str]:
        return [*self.overrides, f"seed={self.seed}"]


def grid(rows: Mapping[str, Sequence[str]], columns: Mapping[str, Sequence[str]], seeds: Sequence[int]) -> list[Cell]:
    """All seeds of all rows in all columns; rows and columns give their parts of the command line."""
    return [
        Cell(row, column, seed, (*of_row, *of_column))
        for seed in seeds
        for column, of_column in columns.items()
        for row, of_row in rows.items()
    ]


@dataclass(frozen=True)
class Study:
    """A name, the cells of a scale, and what is drawn from the records of a scale into a folder.

    `render(records, scale, folder)` writes figures into `folder` and returns the Markdown of the results section;
    `headline(records)` is what the README says of it, a Markdown table.
    """

    name: str
    cells: Callable[[str], Sequence[Cell]]
    render: Callable[[Records, str, Path], str]
    headline: Callable[[Records], str]


class Records:
    """The finished runs of one study and scale, by cell."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, cell: Cell) -> Path:
        return self.folder / f"{cell.id}.json"

    def of(self, cell: Cell) -> Record | None:
        path = self.path(cell)
        return json.loads(path.read_text()) if path.exists() else None

    def where(self, cells: Iterable[Cell], row: str, column: str) -> list[Record]:
        """All there is for one place of the table, over the seeds."""
        found = (self.of(cell) for cell in cells if (cell.row, cell.column) == (row, column))
        return [record for record in found if record is not None]


def clock(record: Record) -> str:
    """Which clock says what a run cost: the processor's where one thread did it all, else the one on the wall."""
    alone = record["device"] == "cpu" and record["threads"] == record["world"] == 1
    return "cpu_seconds" if alone and "cpu_seconds" in record else "train_seconds"


def training_time(record: Record) -> float:
    """Seconds of training alone."""
    return record[clock(record)]


def validation_curve(record: Record, x: str) -> list[tuple[float, float]]:
    """(step or seconds, the metric that selects the weights) at every evaluation."""
    column = clock(record) if x == "seconds" else x
    return list(zip(record["curve"].get(column, ()), record["curve"][record["best"]["metric"]]))


def records_of(study: Study, scale: str) -> Records:
    """Campaigns are kept in results/; smoke runs are not worth keeping."""
    return Records((RUNS / "smoke-results" if scale == "smoke" else ROOT / "results") / study.name / scale)


@cache
def run_of(cell: Cell, scale: str) -> Run:
    """The run that the cell's command makes."""
    config = copy.deepcopy(_composed(scale, cell.overrides))
    config["seed"] = cell.seed
    config["paths"]["runs"] = str(RUNS)
    return Run(config)


@cache
def _composed(scale: str, overrides: tuple[str, ...]) -> dict[str, Any]:
    """Composing takes a tenth of a second; the seeds of a cell share it."""
    return resolve(ROOT / "conf", [f"scale={scale}", *overrides])


def state(cell: Cell, scale: str, records: Records) -> str:
    """done | stale (its configuration has changed since) | running | interrupted | failed | missing"""
    record, run = records.of(cell), run_of(cell, scale)
    if record is not None:
        return "done" if record["hash"] == run.hash else "stale"
    return "interrupted" if run.status["state"] == "running" and not run.is_locked() else run.status["state"]
