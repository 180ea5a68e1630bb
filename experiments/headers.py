"""The line in every experiment file that says what to expect, made from the records."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from experiments.numbers import duration
from experiments.results import Place
from experiments.study import ROOT

LINE = re.compile(r"^# Expect \(generated\): .*\n", flags=re.MULTILINE)


def expectations(places: Iterable[Place]) -> dict[Path, str]:
    """Experiment file → its line. A place counts when its command is the file alone, but for the column.

    Of places with one and the same command, the one with more seeds.
    """
    parts: dict[Path, dict[str, Place]] = defaultdict(dict)
    for place in places:
        key, _, experiment = place.overrides[0].partition("=")
        words = " ".join(place.overrides[1:])
        if place and key == "experiment" and len(place.overrides) <= 2:
            of_file = parts[ROOT / "conf" / "experiment" / f"{experiment}.yaml"]
            of_file[words] = max(of_file.get(words, place), place, key=lambda one: len(one.records))
    return {path: _line(of_file) for path, of_file in parts.items()}


def _line(by_words: Mapping[str, Place]) -> str:
    reached = [f"{words or 'as it is'}: {_reached(place)}" for words, place in by_words.items()]
    return f"# Expect (generated): {'; '.join(reached)}.\n"


def _reached(place: Place) -> str:
    metric = place.selects.on("test")
    return f"{metric.name} {place.sample(metric).text(4)} in {duration(place.seconds)}"


def with_expectation(text: str, line: str) -> str:
    """The file's text with its line made anew, after the comment that opens it."""
    lines = LINE.sub("", text).splitlines(keepends=True)
    end = next(i for i, one in enumerate(lines) if not one.startswith("#"))
    return "".join([*lines[:end], line, *lines[end:]])
