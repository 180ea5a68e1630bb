"""Cells that take seconds and are no runs of train.py. One that is interrupted is lost.

`python -m experiments.works STUDY SCALE CELL FILE` makes the record of one.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from dab.engine.records import read_json, write_json
from experiments.study import RUNS, Cell, Record, Records
from experiments.trainings import anywhere


@dataclass(frozen=True)
class Works:
    """The cells of a study that has `work`."""

    study: str
    scale: str
    runs: Path = RUNS

    def words(self, cell: Cell) -> list[str]:
        self._made(cell).unlink(missing_ok=True)
        return ["-m", "experiments.works", self.study, self.scale, cell.id, str(self._made(cell))]

    def _made(self, cell: Cell) -> Path:
        """Where its record is until it is known to be the one that was asked for."""
        return self.runs / "campaign-logs" / f"{self.scale}.{cell.id}.json"

    def is_taken(self, cell: Cell) -> bool:
        return False

    def keep(self, cell: Cell, records: Records) -> Record | None:
        made = read_json(self._made(cell))
        if made is None or "hash" not in made or made["hash"] != cell.identity:
            return None
        record = anywhere(made, self.runs)
        records.keep(cell, record)
        self._made(cell).unlink()
        return record

    def failure(self, cell: Cell) -> dict[str, str]:
        return read_json(self._made(cell)) or {}


def work(study: str, scale: str, name: str, file: Path) -> int:
    from experiments.report import STUDIES

    make = STUDIES[study].work
    assert make is not None, f"{study} is made of runs of train.py"
    cells = {cell.id: cell for cell in STUDIES[study].cells(scale)}
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        write_json(file, make(cells[name], scale))
    except Exception as error:
        traceback.print_exc()
        write_json(file, {"message": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()})
        return 1
    return 0


if __name__ == "__main__":
    *names, file = sys.argv[1:]
    sys.exit(work(*names, Path(file)))  # type: ignore[call-arg]
