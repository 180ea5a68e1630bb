"""Figures drawn with matplotlib, all in one style. A change here draws them all anew.

A line has the colour of its method and its name at its end. More lines than can be told apart are drawn as small
panels, a family of methods each, over all the others in grey.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from experiments.methods import Look, by_family, looks
from experiments.numbers import human, spread_out
from experiments.statistics import Band

if TYPE_CHECKING:
    from experiments.atlas.heat_map import HeatMap
    from experiments.figures import Lines

TOGETHER = 9  # lines that one panel can hold
WIDTH = 8.5  # inches: what a README shows without shrinking it
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (2.5, 1)))
MARKERS = "osD^v"
INK, FAINT = "#333333", "#DDDDDD"
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#EBEBEB",
    "text.color": INK,
    "xtick.color": "#666666",
    "ytick.color": "#666666",
    "lines.linewidth": 1.6,
    "lines.markersize": 3.2,
    "savefig.dpi": 110,
}
plt.rcParams.update(STYLE)
# Scores from worse than nothing (orange) over nothing to all there is (blue); as on the page.
SCORES = LinearSegmentedColormap.from_list("scores", ["#E08A3C", "#F7F4EE", "#9CC4E4", "#0B4F8A"])


def draw_lines(lines: Lines, path: Path) -> None:
    groups = by_family(lines.series) if len(lines.series) > TOGETHER else {"": list(lines.series)}
    columns = min(len(groups), 2)
    rows = math.ceil(len(groups) / columns)
    size = (WIDTH, 4.3 if len(groups) == 1 else 0.5 + 2.5 * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, sharey=True, squeeze=False, layout="constrained")
    seen = looks(lines.series)
    for axes, (family, shown) in zip(grid.flat, groups.items()):
        _frame(axes, lines, family or lines.title)
        for row in (row for row in lines.series if row not in shown):
            axes.plot(*_means(lines.series[row]), color=FAINT, lw=1, zorder=1)
        for row in shown:
            _draw_band(axes, lines.series[row], seen[row])
        axes.margins(x=0.02)
    for axes in grid.flat[len(groups) :]:
        axes.remove()
    if len(groups) > 1:
        figure.suptitle(lines.title, x=0.01, ha="left", fontsize=11, weight="bold")
    figure.supxlabel(lines.xlabel, fontsize=9)
    figure.supylabel(lines.ylabel, fontsize=9)
    room = 30 if len(groups) == 1 else 19  # letters
    for axes, shown in zip(grid.flat, groups.values()):
        _name(axes, {row: lines.series[row] for row in shown}, seen, room)
    _save(figure, path)


def _frame(axes: Axes, lines: Lines, title: str) -> None:
    axes.set(title=title, **lines.axis)
    for number, (label, level) in enumerate(lines.levels.items()):
        axes.axhline(level, color="#999999", ls=("--", ":", "-.")[number % 3], lw=1)
        where = {"xy": (0.01, level), "xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        side = 3 if level == max(lines.levels.values()) else -10
        axes.annotate(label, **where, xytext=(0, side), fontsize=7.5, color="#666666")
    if axes.get_xscale() == "log":
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(lambda x, _: human(x))


def _means(points: Band) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [sample.mean for _, sample in points]


def _draw_band(axes: Axes, points: Band, look: Look) -> None:
    """Mean as a line, plus and minus one standard deviation as a band."""
    xs, means = _means(points)
    spreads = [sample.std if sample.n > 1 else 0.0 for _, sample in points]
    number, colour = look.number % len(DASHES), look.method.colour
    every = max(1, len(xs) // 10)
    axes.plot(xs, means, color=colour, ls=DASHES[number], marker=MARKERS[number], markevery=every, zorder=3)
    low, high = ([m + sign * s for m, s in zip(means, spreads)] for sign in (-1, 1))
    axes.fill_between(xs, low, high, color=colour, alpha=0.15, lw=0, zorder=2)


def _name(axes: Axes, series: Mapping[str, Band], seen: Mapping[str, Look], room: int) -> None:
    """Every line's name beside its end, moved up or down where names would overlap."""
    axes.figure.canvas.draw()  # only now the axes know their size
    height = axes.get_window_extent().height * 72 / axes.figure.dpi  # points
    size, (low, high) = 8 if room > 20 else 7.5, axes.get_ylim()
    names = {row: fill(row.replace("`", ""), room) for row in series}
    ends = {row: height * (points[-1][1].mean - low) / (high - low) for row, points in series.items()}
    order = sorted(series, key=ends.__getitem__)
    tall = [1.25 * size * (1 + names[row].count("\n")) for row in order]
    places = spread_out([min(max(ends[row], 0), height) for row in order], tall, height)
    for row, y in zip(order, places):
        at = {"xycoords": ("data", "axes points"), "textcoords": ("axes fraction", "axes points")}
        leader = {"arrowstyle": "-", "color": seen[row].method.colour, "lw": 0.7, "alpha": 0.6}
        leader |= {"shrinkA": 1, "shrinkB": 2, "relpos": (0, 0.5)}
        look = {"color": seen[row].method.colour, "fontsize": size, "va": "center", "linespacing": 1.1}
        x, end = series[row][-1][0], min(max(ends[row], 0), height)
        axes.annotate(names[row], (x, end), (1.03, y), **at, **look, arrowprops=leader)


def draw_heat_map(of: HeatMap, path: Path) -> None:
    """Numbers between 0 and 1 as a table of colours."""
    figure, axes = plt.subplots(figsize=(WIDTH, 2.6 + 0.36 * len(of.down)), layout="constrained")
    shades = [[math.nan if value is None else value for value in line] for line in of.values]
    image = axes.imshow(shades, cmap=SCORES.with_extremes(bad="0.93"), vmin=-0.5, vmax=1, aspect="auto")
    for i, line in enumerate(of.values):
        best = max((value for value in line if value is not None), default=None)
        for j, value in enumerate(line):
            look = {"weight": "bold" if value == best else "normal", "color": _ink(value), "ha": "center"}
            spread = of.spreads[i][j]
            has_spread = value is not None and math.isfinite(spread)
            axes.text(j, i - 0.14 * has_spread, of.text(value), va="center", fontsize=7.5, **look)
            if has_spread:
                axes.text(j, i + 0.26, f"±{spread:.2f}", va="center", fontsize=5.5, **look)
    axes.set_xticks(range(len(of.across)), of.across, rotation=90, fontsize=8)
    axes.set_yticks(range(len(of.down)), of.down, fontsize=8)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set_title(of.title)
    figure.colorbar(
        image, ax=axes, orientation="horizontal", shrink=0.5, aspect=40, pad=0.02, label=of.label, extend="min"
    )
    _save(figure, path)


def _ink(value: float | None) -> str:
    """What can be read on the colour."""
    return "white" if value is not None and value > 0.72 else INK


def _save(figure: plt.Figure, path: Path) -> None:
    figure.savefig(path)
    plt.close(figure)
