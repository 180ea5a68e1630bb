"""Numbers between 0 and 1 as a table of colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.blocks import Figure

WORST, BEST = 0.0, 1.0


@dataclass(frozen=True)
class HeatMap(Figure):
    """`values[i][j]` is the mean (None: nothing) at down[i], across[j]; `spreads` its standard deviation."""

    title: str
    down: Sequence[str]
    across: Sequence[str]
    values: Sequence[Sequence[float | None]]
    spreads: Sequence[Sequence[float]]
    label: str  # of the colours

    @property
    def drawn_by(self) -> Path:
        return Path(__file__)

    def draw(self, path: Path) -> None:
        import matplotlib  # here: it is slow to load, and mostly nothing is drawn

        matplotlib.use("Agg")
        from matplotlib import pyplot as plt

        figure, axes = plt.subplots(
            figsize=(2.8 + 0.78 * len(self.across), 2.6 + 0.42 * len(self.down)), layout="constrained"
        )
        shades = [[math.nan if value is None else value for value in line] for line in self.values]
        colours = plt.get_cmap("RdYlGn").with_extremes(bad="0.92")
        image = axes.imshow(shades, cmap=colours, vmin=WORST, vmax=BEST, aspect="auto")
        for i, line in enumerate(self.values):
            best = max((value for value in line if value is not None), default=None)
            for j, value in enumerate(line):
                look = {"weight": "bold" if value == best else "normal", "color": _ink(value), "fontsize": 7}
                axes.text(j, i, _text(value, self.spreads[i][j]), ha="center", va="center", linespacing=0.9, **look)
        axes.set_xticks(range(len(self.across)), self.across, rotation=40, ha="left", fontsize=8)
        axes.set_yticks(range(len(self.down)), self.down, fontsize=8)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(self.title, fontsize=10)
        figure.colorbar(image, ax=axes, shrink=0.8, pad=0.01, label=self.label, extend="min")
        figure.savefig(path, dpi=110)
        plt.close(figure)


def _ink(value: float | None) -> str:
    """What can be read on the colour."""
    return "white" if value is not None and not 0.12 < value < 0.93 else "black"


def _text(value: float | None, spread: float) -> str:
    if value is None:
        return "–"
    if value <= -1:
        return "failed"
    return f"{value:.2f}" + (f"\n±{spread:.2f}" if math.isfinite(spread) else "")
