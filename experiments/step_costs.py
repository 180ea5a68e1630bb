"""What a training step costs, row against row: measured side by side, since records come from different machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from experiments.blocks import Heading, Part, Table, Text, part
from experiments.classification import FLAT, NO_HARD
from experiments.results import Place
from experiments.study import ROOT, Cell
from experiments.tables import Column

RECORD = ROOT / "results" / "classification" / "steps.json"  # by scripts/step_costs.py
SLOWNESS = ("images/s", "ms of", "peak MB")  # of one machine
PLAIN = {"Resnet18": FLAT, "dense net": NO_HARD}


def nets(cells: Iterable[Cell]) -> dict[str, dict[str, Cell]]:
    """One cell of every row, by the net it trains. Recipes differ in nothing that a step's time would show."""
    found: dict[str, dict[str, Cell]] = {net: {} for net in PLAIN}
    for cell in cells:
        found["dense net" if cell.row.startswith("Dense net") else "Resnet18"].setdefault(cell.row, cell)
    return found


@cache
def record() -> Mapping[str, dict[str, Any]]:
    return json.loads(RECORD.read_text()) if RECORD.exists() else {"costs": {}, "speed": {}}


@cache
def measured() -> dict[str, float]:
    """Of every row, in steps of the same net without a hard function."""
    return {row: cost for of_net in record()["costs"].values() for row, cost in of_net.items()}


def speed() -> Part:
    """What the engine, the hard functions and the memory of a bridge cost, as ratios of one process."""
    text = (
        "One thread (`make step-costs`). The engine's loop, in images a second against a bare one (more is better), "
        "and the functions, in calls of torch.sort (less is better), are interleaved, medians; these are called on 128 "
        "maps of 512 channels and 4x4 places without a gradient. K-means, one pass each, makes ten centroids of the 16 "
        "places of each map, against scikit-learn's, one map after the other with as many iterations. *Inertia*: what "
        "the centroids leave of the squared distance. *Memory*: the peak of a process that trains."
    )
    ratios = [[name, f"{value:.3g}"] for name, value in record()["speed"].items() if not name.startswith(SLOWNESS)]
    return part(Heading("What it costs"), Text(text), Table(("ratio", "is"), ratios)) if ratios else []


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
