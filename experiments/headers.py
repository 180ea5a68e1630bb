"""The line in every experiment file that says what to expect, made from the records."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from experiments.statistics import Sample
from experiments.study import ROOT, Cell, Record, Records, training_time
from experiments.tables import duration

LINE = re.compile(r"^# Expect \(generated\): .*\n", flags=re.MULTILINE)


def expectations(cells: Iterable[Cell], records: Records) -> dict[Path, str]:
    """Experiment file → its line. A cell counts when its command is the file alone, but for the seed and the column."""
    found: dict[Path, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        experiment, *more = cell.overrides
        record = records.of(cell)
        if record is not None and len(more) <= 1:
            path = ROOT / "conf" / "experiment" / f"{experiment.removeprefix('experiment=')}.yaml"
            found[path][" ".join(more)].append(record)
    return {path: _line(by_column) for path, by_column in found.items()}


def _line(by_column: dict[str, list[Record]]) -> str:
    parts = []
    for column, records in by_column.items():
        metric = records[0]["best"]["metric"].replace("valid/", "test/")
        values = Sample(tuple(record["metrics"][metric] for record in records))
        seconds = sum(map(training_time, records)) / len(records)
        parts.append(f"{column or 'as it is'}: {metric} {values.text(4)} in {duration(seconds)}")
    return f"# Expect (generated): {'; '.join(parts)}.\n"


def with_expectation(text: str, line: str) -> str:
    """The file's text with its line made anew, after the comment that opens it."""
    lines = LINE.sub("", text).splitlines(keepends=True)
    end = next(i for i, one in enumerate(lines) if not one.startswith("#"))
    return "".join([*lines[:end], line, *lines[end:]])
