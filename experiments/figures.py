"""What is in a figure, and which figures have to be drawn anew."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from experiments.blocks import Figure
from experiments.results import Axis, Metric, Place
from experiments.statistics import Band

DRAWING = tuple(Path(__file__).with_name(name) for name in ("drawing.py", "methods.py"))


@dataclass(frozen=True)
class Lines(Figure):
    """Every series as its mean and a band of one standard deviation, and horizontal lines at `levels`."""

    title: str
    xlabel: str
    ylabel: str
    series: Mapping[str, Band]
    levels: Mapping[str, float] = field(default_factory=dict)
    axis: Mapping[str, Any] = field(default_factory=dict)  # xlim, ylim, xscale, ...

    @property
    def drawn_by(self) -> tuple[Path, ...]:
        return DRAWING

    def draw(self, path: Path) -> None:
        from experiments.drawing import draw_lines  # here: matplotlib is slow to load, and mostly nothing is drawn

        draw_lines(self, path)


@dataclass(frozen=True)
class Kept(Figure):
    """A picture that a script has drawn from trained weights, which are too large to be kept with the records."""

    @property
    def drawn_by(self) -> tuple[Path, ...]:
        return (Path(__file__),)

    def draw(self, path: Path) -> None:
        """It is there, or the page does not show it."""


def kept(folder: Path, name: str, alt: str) -> list[Figure]:
    """The picture, where it is."""
    figure = Kept(name, alt)
    return [figure] if (folder / figure.file).exists() else []


def shown(figure: Lines) -> list[Figure]:
    """The figure without its empty series; nothing where all of them are."""
    series = {label: points for label, points in figure.series.items() if points}
    return [replace(figure, series=series)] if series else []


def training_curves(
    name: str,
    alt: str,
    title: str,
    places: Iterable[Place],
    x: tuple[Axis, str],
    y: tuple[Metric | None, str],
    label: Callable[[Place], str] = lambda place: place.name,
    frame: str = "",
    levels: Mapping[str, float] = {},
    **axis: Any,
) -> list[Figure]:
    """Validation while the places train; `x` and `y` are what is shown and what it is called.

    Without a metric it is the one that selects the weights; `frame` is the label that `framed` must not lose.
    """
    places = list(places)
    series = {label(place): place.band(x[0], y[0]) for place in places}
    if frame:
        series, axis["ylim"] = framed(series, frame)
    return shown(Lines(name, alt, title, x[1], y[1], series, levels, axis, evidence=places))


def across(places: Mapping[float, Place], metric: Metric) -> Band:
    """A metric along what the places differ in, e.g. ponder steps or bits per pixel; one point is no line."""
    points = [(x, place.sample(metric)) for x, place in places.items() if place]
    return points if len(points) > 1 else []


def framed(series: Mapping[str, Band], always: str) -> tuple[dict[str, Band], tuple[float, float]]:
    """A y-range around the better half and as much again below, three times, and one row in any case.

    Who never enters the frame says so in its label.
    """
    best = {row: max(sample.mean for _, sample in points) for row, points in series.items() if points}
    high, middle = max(best.values(), default=0.0), median(best.values()) if best else 0.0
    low = min(high - 4 * (high - middle), best.get(always, high) - 4) - 1
    labelled = {row + ("" if best[row] > low else " (below the frame)"): series[row] for row in best}
    return labelled, (low, high + 1)


def fingerprint(figure: Figure) -> str:
    """Of all that the picture shows and of the code that draws it."""
    code = b"".join(path.read_bytes() for path in figure.drawn_by)
    return hashlib.sha256(repr(figure).encode() + code).hexdigest()[:16]


def draw_changed(figures: Iterable[Figure], folder: Path) -> None:
    """Draw what is not there or was drawn from something else; `figures/drawn.json` remembers from what."""
    figures, memory = list(figures), folder / "figures" / "drawn.json"
    before = json.loads(memory.read_text()) if memory.exists() else {}
    now = {figure.file: fingerprint(figure) for figure in figures}
    for figure in figures:
        path = folder / figure.file
        if not path.exists() or before.get(figure.file) != now[figure.file]:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.draw(path)
    for file in set(before) - set(now):  # what no page shows any more
        (folder / file).unlink(missing_ok=True)
    if now != before:
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
