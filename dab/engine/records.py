"""What a run leaves behind: metrics.jsonl while it runs, result.json when it is done."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import IO, Any

import torch

from dab.engine.checkpoint import replace


def read_json(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None


def write_json(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=2, allow_nan=True) + "\n"
    replace(path, lambda temporary: temporary.write_text(text))


class Metrics:
    """Append-only `metrics.jsonl`, one flushed line per row. A row is {"step": int, "train/loss": float, ...}."""

    def __init__(self, path: Path, resume_step: int, keep_evaluation: bool):
        self.path = path
        rows = [r for r in read_metrics(path) if _kept(r, resume_step, keep_evaluation)] if resume_step else []
        self._file: IO[str] = open(path, "w")  # noqa: SIM115  (lives as long as the run)
        for row in rows:
            self.append(row)

    def append(self, row: dict[str, Any]) -> None:
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _kept(row: dict[str, Any], step: int, keep_evaluation: bool) -> bool:
    """Rows a resumed run will not write again: those up to its checkpoint."""
    is_evaluation = any(name.startswith("valid/") for name in row)
    return row["step"] < step or (row["step"] == step and (keep_evaluation or not is_evaluation))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All whole rows; a last line torn by a crash is left out."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


@cache
def provenance() -> dict[str, Any]:
    """Which code, which libraries, which machine, which command."""
    root = Path(__file__).resolve().parents[2]
    return {
        "commit": _git(root, "rev-parse", "HEAD"),
        "dirty": bool(_git(root, "status", "--porcelain", "--untracked-files=no")),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "platform": platform.system() + "-" + platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def better(new: float, old: float | None, larger_is_better: bool) -> bool:
    if math.isnan(new):
        return False
    return old is None or (new > old if larger_is_better else new < old)
