"""Lines with their spread."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from experiments.statistics import Sample

Band = Sequence[tuple[float, Sample]]  # (x, values over seeds)


def draw_band(axis: Axes, points: Band, label: str) -> None:
    """Mean as a line, plus and minus one standard deviation as a band."""
    xs, means = [x for x, _ in points], [sample.mean for _, sample in points]
    spreads = [sample.std if sample.n > 1 else 0.0 for _, sample in points]
    (line,) = axis.plot(xs, means, marker=".", lw=1.3, label=label)
    low, high = ([m + sign * s for m, s in zip(means, spreads)] for sign in (-1, 1))
    axis.fill_between(xs, low, high, color=line.get_color(), alpha=0.2, lw=0)


def save(figure: plt.Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
