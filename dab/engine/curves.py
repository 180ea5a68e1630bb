"""Loss and accuracy of one run as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw_curves(rows: list[dict[str, Any]], select: str, path: Path) -> Path:
    """Left: training losses. Right: the validation metric that selects the weights."""
    from matplotlib.figure import Figure  # half a second that only the end of a run needs

    path.parent.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name in ("train/loss", "train/task_loss"):
        points = [(r["step"], r[name]) for r in rows if name in r]
        left.plot(*zip(*points), label=name.removeprefix("train/").replace("_", " "), lw=1.2) if points else None
    left.set(xlabel="step", ylabel="training loss", yscale="log")
    left.legend(frameon=False)
    points = [(r["step"], r[f"valid/{select}"]) for r in rows if f"valid/{select}" in r]
    right.plot(*zip(*points), marker=".", lw=1.2, color="tab:green") if points else None
    right.set(xlabel="step", ylabel=f"validation {select.replace('_', ' ')}")
    for axis in (left, right):
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    return path
