"""Which code, libraries and machine made a run's numbers: asked whenever it starts and when it ends."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from dab.engine.records import read_json, write_json

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(__file__).resolve().parents[1]
NAME = "provenance.json"
CODE = ("commit", "dirty", "sources", "python", "torch", "cuda")  # what must stay the same for a run to be of one piece


def provenance() -> dict[str, Any]:
    """As things stand now.

    dirty       tracked files differ from the commit, or there are others that git does not ignore
    sources     digest of the package's Python files: two states of a dirty checkout differ in it
    """
    changes = _git("status", "--porcelain")
    return {
        "time": time.time(),
        "commit": _git("rev-parse", "HEAD"),
        "dirty": None if changes is None else bool(changes),
        "sources": _sources(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "platform": platform.system() + "-" + platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }


def note_start(folder: Path) -> None:
    """Add this start of the run in `folder` to those before it."""
    write_json(folder / NAME, {"starts": [*starts(folder), provenance()]})


def starts(folder: Path) -> list[dict[str, Any]]:
    """The first start of a run and every time it was resumed."""
    return (read_json(folder / NAME) or {"starts": []})["starts"]


def whole(folder: Path) -> dict[str, Any]:
    """For the record of a run that ends now.

    changed     the code was not the same at the start, at every resumption and at the end
    """
    (first, *later), end = starts(folder), provenance()
    resumed = [{name: start[name] for name in ("time", *CODE)} for start in later]
    changed = any(one[name] != first[name] for one in (*later, end) for name in CODE)
    return {"start": first, "resumed": resumed, "end": end, "changed": changed}


def _sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(f"{path.relative_to(PACKAGE)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
