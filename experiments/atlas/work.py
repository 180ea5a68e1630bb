"""From a cell to its record, in this process. Needs torch; planning and rendering do not."""

from __future__ import annotations

import time

import torch

from dab.engine.provenance import differ, provenance
from experiments.atlas.plan import BUDGETS, FUNCTIONS, YARDSTICK
from experiments.atlas.tasks import TASKS
from experiments.study import Cell, Record


def record(cell: Cell, scale: str) -> Record:
    torch.set_num_threads(1)
    start, before = provenance(), time.monotonic()
    function = YARDSTICK if cell.column == YARDSTICK.name else FUNCTIONS[cell.column]
    made = TASKS[cell.variant](cell.row, function, cell.seed, dict(BUDGETS[scale]))
    end = provenance()
    return {
        "id": cell.id,
        "hash": cell.identity,
        "scale": scale,
        "seed": cell.seed,
        **made,
        "seconds": time.monotonic() - before,
        "threads": torch.get_num_threads(),
        "provenance": {"start": start, "end": end, "changed": differ(start, end)},
    }
