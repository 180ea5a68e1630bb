"""Our layers for solvers beside PyEPO's own, and beside what PyEPO's notebook prints."""

from __future__ import annotations

import json

from experiments.blocks import Heading, Part, Table, Text
from experiments.statistics import Sample
from experiments.study import ROOT

RECORD = ROOT / "results" / "calibration" / "pyepo.json"  # by scripts/calibrate_pyepo.py
DIGITS = 1


def calibration() -> Part:
    """Regrets of both sides on the same data, solver, weights and batches."""
    if not RECORD.exists():
        return []
    found = json.loads(RECORD.read_text())
    ours, theirs = (
        {row: Sample.of(dict(enumerate(values))) for row, values in found["regret"][side].items()}
        for side in ("ours", "pyepo")
    )
    lines = [
        [row, sample.text(DIGITS), theirs[row].text(DIGITS), f"{found['printed'][row]:.1f} (1)"]
        for row, sample in ours.items()
    ]
    equal = [row for row, sample in ours.items() if sample == theirs[row]]
    version = found["provenance"]["pyepo"]
    text = (
        f"PyEPO's shortest path over 5 × 5 places (its notebook 03: costs of degree 4 with noise 0.5, a linear model, "
        f"{found['epochs']} epochs), regret in percent of the best paths' cost: our layers against those of PyEPO "
        f"{version}, trained on the same solver from the same weights, batches and seeds. "
    )
    if equal:
        text += f"The same to the last digit: {', '.join(equal)}; the others draw their own noise. "
    text += "What the notebook prints has another solver and one seed. `scripts/calibrate_pyepo.py` makes it again."
    columns = ("row", "ours", f"PyEPO {version}", "printed")
    return [Heading("Calibration of the layers for solvers"), Text(text), Table(columns, lines)]
