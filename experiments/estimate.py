"""How long a campaign will take, by the records of such runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

from experiments.numbers import human_duration
from experiments.study import Cell, Records

Known = Sequence[tuple[Cell, float]]  # cells and the seconds that they took


def estimate(waiting: Sequence[Cell], at_once: int, known: Known) -> str:
    """How long they will take, so many at a time."""
    times = [seconds for seconds in expected(waiting, known) if seconds is not None]
    unknown = len(waiting) - len(times)
    total = max(sum(times) / at_once, max(times, default=0.0))
    text = f"{len(waiting)} run{'s' * (len(waiting) > 1)} to do, {at_once} at a time"
    if times:
        text += f": about {human_duration(total)}, by the records of such runs"
    if unknown:
        text += f"; {unknown} without a record to go by" if times else ", with no record to tell how long they take"
    return text


def listed(waiting: Sequence[Cell], known: Known) -> str:
    """Every cell with what it will take and the words that train it; the sum of it, on one core or GPU, at the end."""
    times = expected(waiting, known)
    lines = [
        f"{'?' if seconds is None else human_duration(seconds):>12}  {cell.id}  {' '.join(cell.command)}".rstrip()
        for cell, seconds in zip(waiting, times)
    ]
    total = sum(seconds for seconds in times if seconds is not None)
    return "\n".join([*lines, f"{human_duration(total):>12}  one after another"])


def expected(cells: Sequence[Cell], known: Known) -> list[float | None]:
    """Seconds of each; other seeds of a place tell its time too, else its row does."""
    of_place, of_row = defaultdict(list), defaultdict(list)
    for cell, seconds in known:
        of_place[_place(cell)].append(seconds)
        of_row[cell.row].append(seconds)
    found = [of_place.get(_place(cell)) or of_row.get(cell.row) for cell in cells]
    return [fmean(seconds) if seconds else None for seconds in found]


def seconds_of(cells: Iterable[Cell], *stores: Records) -> list[tuple[Cell, float]]:
    """What is known, from the first of the stores that has a record of the cell."""
    found = ((cell, next((r for records in stores if (r := records.of(cell)) is not None), None)) for cell in cells)
    return [(cell, record["seconds"]) for cell, record in found if record is not None]


def _place(cell: Cell) -> tuple[str, str, str]:
    return cell.row, cell.column, cell.variant
