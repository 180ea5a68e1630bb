"""Lines with their spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from experiments.statistics import Sample
from experiments.tables import human

Band = Sequence[tuple[float, Sample]]  # (x, values over seeds)


def draw_band(axis: Axes, points: Band, label: str, style: str = "-") -> None:
    """Mean as a line, plus and minus one standard deviation as a band."""
    xs, means = [x for x, _ in points], [sample.mean for _, sample in points]
    spreads = [sample.std if sample.n > 1 else 0.0 for _, sample in points]
    (line,) = axis.plot(xs, means, marker=".", lw=1.3, ls=style, label=label)
    low, high = ([m + sign * s for m, s in zip(means, spreads)] for sign in (-1, 1))
    axis.fill_between(xs, low, high, color=line.get_color(), alpha=0.2, lw=0)


def band(curves: Sequence[Sequence[tuple[float, float]]]) -> Band:
    """The curves of several seeds as one: at every evaluation the mean x and all the values."""
    return [(fmean(x for x, _ in at), Sample(tuple(y for _, y in at))) for at in zip(*curves)]


def lines_figure(
    path: Path,
    series: Mapping[str, Band],
    xlabel: str,
    ylabel: str,
    title: str,
    levels: Mapping[str, float] = {},
    **axis: Any,
) -> bool:
    """Every series that has points, and horizontal lines at `levels`; False and no file when there is none."""
    drawn = {label: points for label, points in series.items() if points}
    if not drawn:
        return False
    figure, axes = plt.subplots(figsize=(8.5, 4.5), layout="constrained")
    for number, (label, points) in enumerate(drawn.items()):
        draw_band(axes, points, label, style=("-", "--", ":")[number // 10 % 3])  # the colours repeat after ten
    for number, (label, level) in enumerate(levels.items()):
        axes.axhline(level, color="0.4", ls=("--", ":", "-.")[number % 3], lw=1, label=label)
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title, **axis)
    if axes.get_xscale() == "log":
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(lambda x, _: human(x))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, path)
    return True


def save(figure: plt.Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
