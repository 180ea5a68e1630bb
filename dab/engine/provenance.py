"""Which code, libraries and machine made a run's numbers: asked whenever it starts and when it ends."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from dab.engine.records import damaged, read_json, write_json
from dab.engine.run import resolved
from dab.engine.sources import in_use

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(__file__).resolve().parents[1]
NAME = "provenance.json"
MADE_OF = ("code", "options")
AROUND = ("dirty", "python", "torch", "cuda")


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


def note_start(folder: Path, config: dict[str, Any]) -> None:
    """Add this start of the run in `folder` to those before it, and remember what it is made of."""
    made_of = ingredients(config)
    start = {**provenance(), **{name: _digest(parts) for name, parts in made_of.items()}}
    write_json(folder / NAME, {"starts": [*starts(folder), start], **made_of})


def starts(folder: Path) -> list[dict[str, Any]]:
    """The first start of a run and every time it was resumed."""
    return _noted(folder)["starts"]


def ingredients(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What a run's numbers are made of.

    code        digests of the modules in use
    options     every option with its value, given or by default
    """
    return {"code": in_use(config), "options": resolved(config)}


def differences(folder: Path, config: dict[str, Any]) -> list[str]:
    """How the last start of the run in `folder` and one of now would differ. What nobody noted then is not known."""
    noted = _noted(folder)
    if "code" not in noted:
        return []
    now = ingredients(config)
    then_torch, now_torch = noted["starts"][-1]["torch"], torch.__version__
    both = noted["options"].keys() & now["options"].keys()  # an option that is new leaves things as they were
    moved = {name: (noted["options"][name], now["options"][name]) for name in sorted(both)}
    edited = sorted(name for name, _ in noted["code"].items() ^ now["code"].items())
    return [
        *(f"{name} was {then!r}, is {value!r}" for name, (then, value) in moved.items() if then != value),
        *([f"torch was {then_torch}, is {now_torch}"] if then_torch != now_torch else []),
        *dict.fromkeys(edited),
    ]


def whole(folder: Path) -> dict[str, Any]:
    """For the record of a run that ends now.

    changed     the code was not the same at the start, at every resumption and at the end
    """
    every, end = starts(folder), provenance()
    first, *later = every
    kept = ("time", "commit", "sources", *AROUND, *MADE_OF)
    resumed = [{name: start[name] for name in kept if name in start} for start in later]
    changed = any(differ(first, start) for start in later) or differ(every[-1], end)
    return {"start": first, "resumed": resumed, "end": end, "changed": changed}


def differ(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether a run with these two stamps is not of one piece. A commit that leaves its code as it was is no change.

    By what the run is made of where both stamps tell (not those at its end, nor of older versions), else by all of the
    package.
    """
    told = all(name in stamp for stamp in (one, other) for name in MADE_OF)
    return any(one.get(name) != other.get(name) for name in (*AROUND, *(MADE_OF if told else ("sources",))))


def _noted(folder: Path) -> dict[str, Any]:
    noted = read_json(path := folder / NAME) or {"starts": []}
    if not isinstance(noted.get("starts"), list):
        raise damaged(path, "it names no starts")
    return noted


def _digest(parts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(f"{path.relative_to(PACKAGE)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _git(*arguments: str) -> str | None:
    if not (ROOT / ".git").exists():  # an installed package may lie in somebody else's repository
        return None
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
