"""Numbers between 0 and 1 as a table of colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.blocks import Figure
from experiments.figures import DRAWING


@dataclass(frozen=True)
class HeatMap(Figure):
    """`values[i][j]` is the mean (None: nothing) at down[i], across[j]; `spreads` its standard deviation."""

    title: str
    down: Sequence[str]
    across: Sequence[str]
    values: Sequence[Sequence[float | None]]
    spreads: Sequence[Sequence[float]]
    label: str  # of the colours
    empty: Sequence[Sequence[str]] = field(default=(), repr=False)  # why there is nothing, where that is so

    @staticmethod
    def text(value: float | None) -> str:
        if value is None:
            return "–"
        return "fails" if value <= -1 else f"{round(value, 2) + 0.0:.2f}"  # no -0.00

    @property
    def drawn_by(self) -> tuple[Path, ...]:
        return (*DRAWING, Path(__file__))

    def draw(self, path: Path) -> None:
        from experiments.drawing import draw_heat_map  # here: matplotlib is slow to load, and mostly nothing is drawn

        draw_heat_map(self, path)
