"""Figures drawn with matplotlib. A change here draws them all anew."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from experiments.numbers import human
from experiments.statistics import Band

if TYPE_CHECKING:
    from experiments.figures import Lines


def draw_lines(lines: Lines, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8.5, 4.5), layout="constrained")
    for number, (label, points) in enumerate(lines.series.items()):
        _draw_band(axes, points, label, style=("-", "--", ":")[number // 10 % 3])  # the colours repeat after ten
    for number, (label, level) in enumerate(lines.levels.items()):
        axes.axhline(level, color="0.4", ls=("--", ":", "-.")[number % 3], lw=1, label=label)
    axes.set(xlabel=lines.xlabel, ylabel=lines.ylabel, title=lines.title, **lines.axis)
    if axes.get_xscale() == "log":
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(lambda x, _: human(x))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    _save(figure, path)


def _draw_band(axis: Axes, points: Band, label: str, style: str) -> None:
    """Mean as a line, plus and minus one standard deviation as a band."""
    xs, means = [x for x, _ in points], [sample.mean for _, sample in points]
    spreads = [sample.std if sample.n > 1 else 0.0 for _, sample in points]
    (line,) = axis.plot(xs, means, marker=".", lw=1.3, ls=style, label=label)
    low, high = ([m + sign * s for m, s in zip(means, spreads)] for sign in (-1, 1))
    axis.fill_between(xs, low, high, color=line.get_color(), alpha=0.2, lw=0)


def _save(figure: plt.Figure, path: Path) -> None:
    figure.savefig(path, dpi=110)
    plt.close(figure)
