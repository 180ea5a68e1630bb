"""The line in every experiment file that says what to expect, made from the records."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from experiments.numbers import duration
from experiments.results import Place
from experiments.study import ROOT

LINE = re.compile(r"^# Expect \(generated\): .*\n", flags=re.MULTILINE)


def expectations(places: Iterable[Place]) -> dict[Path, str]:
    """Experiment file → its line. A place counts when its command is the file alone, but for the column."""
    parts: dict[Path, list[str]] = defaultdict(list)
    for place in places:
        key, _, experiment = place.overrides[0].partition("=")
        more = place.overrides[1:]
        if place and key == "experiment" and len(more) <= 1:
            path = ROOT / "conf" / "experiment" / f"{experiment}.yaml"
            parts[path].append(f"{' '.join(more) or 'as it is'}: {_reached(place)}")
    return {path: f"# Expect (generated): {'; '.join(of_file)}.\n" for path, of_file in parts.items()}


def _reached(place: Place) -> str:
    metric = place.selects.on("test")
    return f"{metric.name} {place.sample(metric).text(4)} in {duration(place.seconds)}"


def with_expectation(text: str, line: str) -> str:
    """The file's text with its line made anew, after the comment that opens it."""
    lines = LINE.sub("", text).splitlines(keepends=True)
    end = next(i for i, one in enumerate(lines) if not one.startswith("#"))
    return "".join([*lines[:end], line, *lines[end:]])
