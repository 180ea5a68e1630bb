"""From a cell to the run its command makes. Only this and the campaign need the engine; rendering does not."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

from dab.engine.compose import resolve
from dab.engine.run import Run
from experiments.study import ROOT, RUNS, Cell, Records


@cache
def run_of(cell: Cell, scale: str, runs: Path | None = None) -> Run:
    """The run that the cell's command makes; below `runs` if that is another folder than usual."""
    config = copy.deepcopy(_composed(scale, cell.overrides))
    config["seed"] = cell.seed
    config["paths"]["runs"] = str(runs or RUNS)
    return Run(config)


@cache
def _composed(scale: str, overrides: tuple[str, ...]) -> dict[str, Any]:
    """Composing takes a tenth of a second; the seeds of a cell share it."""
    return resolve(ROOT / "conf", [f"scale={scale}", *overrides])


def state(cell: Cell, scale: str, records: Records, runs: Path | None = None) -> str:
    """done | stale (its configuration has changed since) | running | interrupted | failed | missing"""
    if cell.identity:
        known = records.of(cell)
        return "missing" if known is None else "done" if known["hash"] == cell.identity else "stale"
    record, run = records.of(cell), run_of(cell, scale, runs)
    if record is not None:
        return "done" if record["hash"] == run.hash else "stale"
    return "interrupted" if run.status["state"] == "running" and not run.is_locked() else run.status["state"]


def progress(cell: Cell, scale: str, runs: Path | None, state: str) -> str:
    """How far a run is that has begun, and what it failed of."""
    if cell.identity or state not in ("running", "interrupted", "failed"):
        return ""
    told = run_of(cell, scale, runs).status
    reached = f" at step {told['step']:,} of {told['steps']:,}" if "step" in told else ""
    return f"{reached}: {told['message']}" if state == "failed" and "message" in told else reached
