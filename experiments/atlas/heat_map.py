"""Numbers between 0 and 1 as a table of colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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

    @property
    def drawn_by(self) -> tuple[Path, ...]:
        return DRAWING

    def draw(self, path: Path) -> None:
        from experiments.drawing import draw_heat_map  # here: matplotlib is slow to load, and mostly nothing is drawn

        draw_heat_map(self, path)
