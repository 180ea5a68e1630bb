"""How long a campaign will take, by the records of such runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

from experiments.numbers import human_duration
from experiments.study import Cell, Records


def estimate(waiting: Sequence[Cell], jobs: int, known: Iterable[tuple[Cell, float]]) -> str:
    """known: cells and the seconds that they took; other seeds of a place tell its time too, else its row does"""
    of_place, of_row = defaultdict(list), defaultdict(list)
    for cell, seconds in known:
        of_place[_place(cell)].append(seconds)
        of_row[cell.row].append(seconds)
    found = [of_place.get(_place(cell)) or of_row.get(cell.row) for cell in waiting]
    times = [fmean(seconds) for seconds in found if seconds]
    unknown = len(waiting) - len(times)
    total = max(sum(times) / jobs, max(times, default=0.0))
    text = f"{len(waiting)} run{'s' * (len(waiting) > 1)} to do, {jobs} at a time"
    if times:
        text += f": about {human_duration(total)}, by the records of such runs"
    if unknown:
        text += f"; {unknown} without a record to go by" if times else ", with no record to tell how long they take"
    return text


def seconds_of(cells: Iterable[Cell], *stores: Records) -> list[tuple[Cell, float]]:
    """What is known, from the first of the stores that has a record of the cell."""
    found = ((cell, next((r for records in stores if (r := records.of(cell)) is not None), None)) for cell in cells)
    return [(cell, record["seconds"]) for cell, record in found if record is not None]


def _place(cell: Cell) -> tuple[str, str, str]:
    return cell.row, cell.column, cell.variant
