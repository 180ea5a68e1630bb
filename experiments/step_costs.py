"""What a training step costs, row against row: measured side by side, since records come from different machines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache

from experiments.classification import FLAT, NO_HARD
from experiments.results import Place
from experiments.study import ROOT, Cell
from experiments.tables import Column

RECORD = ROOT / "results" / "classification" / "steps.json"  # by scripts/step_costs.py
PLAIN = {"Resnet18": FLAT, "dense net": NO_HARD}


def nets(cells: Iterable[Cell]) -> dict[str, dict[str, Cell]]:
    """One cell of every row, by the net it trains. Recipes differ in nothing that a step's time would show."""
    found: dict[str, dict[str, Cell]] = {net: {} for net in PLAIN}
    for cell in cells:
        found["dense net" if cell.row.startswith("Dense net") else "Resnet18"].setdefault(cell.row, cell)
    return found


@cache
def measured() -> dict[str, float]:
    """Of every row, in steps of the same net without a hard function."""
    if not RECORD.exists():
        return {}
    return {row: cost for of_net in json.loads(RECORD.read_text())["costs"].values() for row, cost in of_net.items()}


def cost(place: Place) -> float:
    """By these; away from the scale that was measured the time of its own records."""
    return (measured().get(place.row) if place.scale == "cpu" else None) or place.step_seconds


def told(place: Place) -> str:
    known = place.scale == "cpu" and place.row in measured()
    return f"{cost(place):.2f}" if known else f"{1000 * place.step_seconds:.0f} ms"


COST = Column("step / plain", told)
EXPLAINED = (
    "*Step / plain*: the time of a training step, in steps of the same net without a hard function, measured in turn "
    "in one process (`scripts/step_costs.py`); *time* is that of the runs, which were made on more than one machine. "
    "Away from scale=cpu, which was not measured so, the milliseconds of a run's own step."
)
