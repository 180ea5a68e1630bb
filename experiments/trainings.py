"""Cells that are runs of train.py: their commands, their runs, their records."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.checkout import Checkout
from experiments.provenance import is_clean
from experiments.runs import run_of
from experiments.study import ROOT, RUNS, Cell, Record, Records

DATA = ROOT / "data"
HERE = Checkout(ROOT)


@dataclass(frozen=True)
class Trainings:
    """Runs of one scale below `runs`, by the code of a checkout. only_dirty: start over what is not clean"""

    scale: str
    runs: Path = RUNS
    code: Checkout = HERE
    only_dirty: bool = False

    def words(self, cell: Cell) -> list[str]:
        start = "force=true" if self._must_start_over(cell) else "resume=anyway"
        script = str(self.code.root / "train.py")
        return [script, f"scale={self.scale}", *cell.command, *_where(self.runs), "logger.mode=disabled", start]

    def _must_start_over(self, cell: Cell) -> bool:
        """A finished run would only say that it is; an interrupted one goes on, and a clean one is what is wanted.

        It goes on with another commit too (resume=anyway): its record then says `changed`, and is not clean.
        """
        result = run_of(cell, self.scale, self.runs).result if self.only_dirty else None
        return result is not None and not is_clean(result)

    def is_taken(self, cell: Cell) -> bool:
        """By another process: another campaign's, or one that a killed one left."""
        return run_of(cell, self.scale, self.runs).is_locked()

    def keep(self, cell: Cell, records: Records) -> Record | None:
        """Copy the run's result.json to where tables are made from, without the paths of this machine."""
        result = run_of(cell, self.scale, self.runs).result
        if result is None:
            return None
        record = anywhere(result, self.runs)
        records.keep(cell, record)
        return record

    def failure(self, cell: Cell) -> dict[str, str]:
        """What the run itself has said of it: `message` and `traceback`, if it could."""
        status = run_of(cell, self.scale, self.runs).status
        return {name: status[name] for name in ("message", "traceback") if name in status}


def _where(runs: Path) -> list[str]:
    return [f"paths.runs={runs}", f"paths.data={DATA}"]


def anywhere(value: Any, runs: Path) -> Any:
    """The same on any machine: places inside this folder become relative, and the command does without them."""
    if isinstance(value, dict):
        return {key: anywhere(inner, runs) for key, inner in value.items()}
    if isinstance(value, list):
        return [anywhere(inner, runs) for inner in value]
    if isinstance(value, str):
        for override in _where(runs):
            value = value.replace(f" {override}", "")
        for path, name in ((runs, "runs"), (DATA, "data"), (ROOT, ".")):
            value = re.sub(rf"{re.escape(str(path))}(?=/|\s|$)", name, value)
    return value
