"""What a study is made of. Nothing here knows a particular study."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.blocks import Part, Table
    from experiments.results import Results

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "runs"
SCALES = ("smoke", "cpu", "paper")

Record = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One run of a study: where it stands in the table, and the command line that makes it.

    `variant` is another training of the same place, e.g. "long". A cell that is no run of train.py brings its own
    `identity`: a hash of what defines its numbers.
    """

    row: str
    column: str
    seed: int
    overrides: tuple[str, ...]
    variant: str = ""
    identity: str = ""

    @property
    def id(self) -> str:
        """The name of its record's file."""
        words = re.sub(r"[^a-z0-9]+", "-", self.row.lower()).strip("-")
        return f"{words}.{self.column}{self.variant and '-' + self.variant}.seed{self.seed}"

    @property
    def command(self) -> list[str]:
        return [*self.overrides, f"seed={self.seed}"]


def grid(rows: Mapping[str, str], columns: Mapping[str, str], seeds: Sequence[int], variant: str = "") -> list[Cell]:
    """All seeds of all rows in all columns; rows and columns give their words of the command line."""
    return [
        Cell(row, column, seed, (*of_row.split(), *of_column.split()), variant)
        for seed in seeds
        for column, of_column in columns.items()
        for row, of_row in rows.items()
    ]


def pick(words: Mapping[str, str], *names: str, more: str = "") -> dict[str, str]:
    """Some of the rows or columns, with more words of the command line."""
    return {name: f"{words[name]} {more}" for name in names}


def once(*parts: Sequence[Cell]) -> list[Cell]:
    """Each cell once, at its first place: parts may overlap."""
    return list({cell.id: cell for part in parts for cell in part}.values())


@dataclass(frozen=True)
class Study:
    """A name, the cells of a scale, and what is said of their results.

    `render(results)` is the study's section of the results page; `headline(results)` its table in the README.
    `work(cell, scale)` makes a cell's record in seconds, where no run of train.py does.
    """

    name: str
    cells: Callable[[str], Sequence[Cell]]
    render: Callable[[Results], list[Part]]
    headline: Callable[[Results], Table]
    work: Callable[[Cell, str], Record] | None = None


class Records:
    """The finished runs of one study and scale: one file for each cell, in `folder` or else in those of `besides`."""

    def __init__(self, folder: Path, besides: Records | None = None):
        self.folder, self.besides = folder, besides

    def path(self, cell: Cell) -> Path:
        """Where its record is kept."""
        return self.folder / f"{cell.id}.json"

    def file(self, cell: Cell) -> Path | None:
        """Where its record is, if it has one."""
        path = self.path(cell)
        if path.exists():
            return path
        return None if self.besides is None else self.besides.file(cell)

    def of(self, cell: Cell) -> Record | None:
        path = self.file(cell)
        return None if path is None else json.loads(path.read_text())

    def keep(self, cell: Cell, record: Record) -> None:
        from dab.engine.records import write_json  # which imports torch: who only lists cells does without

        path = self.path(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, record)


@dataclass(frozen=True)
class Store:
    """Where a campaign trains, keeps its records and writes its page.

    committed   results/ and docs/: what the repository says. Only who asks for it writes there
    own         runs/, and what is committed counts as done: nothing that git tracks is touched
    fresh       runs/fresh/, from nothing: every cell is trained again
    """

    name: str

    @property
    def runs(self) -> Path:
        return RUNS / "fresh" if self.name == "fresh" else RUNS

    def records(self, study: Study, scale: str) -> Records:
        """Smoke runs are not worth committing."""
        below = Path(study.name) / scale
        if scale == "smoke":
            return Records(self.runs / "smoke-results" / below)
        committed = Records(ROOT / "results" / below)
        if self.name == "committed":
            return committed
        return Records(self.runs / "results" / below, committed if self.name == "own" else None)

    def page(self, scale: str) -> Path:
        is_committed = self.name == "committed" and scale == "cpu"
        return ROOT / "docs/RESULTS.md" if is_committed else self.runs / f"report-{scale}" / "RESULTS.md"


COMMITTED, OWN, FRESH = Store("committed"), Store("own"), Store("fresh")
