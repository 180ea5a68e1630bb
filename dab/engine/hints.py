"""Commands to go on with, as they can be pasted where this one was typed."""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from dab.engine.run import Run
from dab.engine.targets import locate
from dab.engine.trust import trusted

ROOT = Path(__file__).resolve().parents[2]


def hints(run: Run, result: dict[str, Any]) -> list[str]:
    folder = shlex.quote(str(run.dir))
    own = "".join(f" --trust {package}" for package in trusted())
    example = locate("task", run.config["task"]).example(tuple(result["input_shape"]))
    predict = [f"{module('dab.predict')}{own} {folder} {example}"] if example else []
    train = _train()
    words, sweeps = _words(), {"-m", "--multirun"}.intersection(sys.argv)
    again = [] if sweeps else [f"{train} {shlex.join(['-m', 'seed=0,1,2', *words])}"]
    listed = shlex.join(["--list", *(word for word in words if word.startswith("paths.runs="))])
    return [*predict, f"{module('dab.measure')}{own} {folder}", *again, f"{train} {listed}", *sync(run)]


def sync(run: Run) -> list[str]:
    """How to send what W&B wrote into files and nobody has sent yet."""
    folders = sorted(path for path in run.dir.glob("wandb/offline-run-*") if not list(path.glob("*.synced")))
    return [f"{python()} -m wandb sync {shlex.join(map(str, folders))}"] if folders else []


def python() -> str:
    """This interpreter: by its name where a shell finds it by that, else by its path."""
    for name in ("python", "python3"):
        if shutil.which(name) == sys.executable:
            return name
    return shlex.quote(_near(Path(sys.executable)))


def module(name: str) -> str:
    """`python -m name`, of a package that may be neither installed nor here."""
    return f"{'' if _is_found() else f'PYTHONPATH={shlex.quote(str(ROOT))} '}{python()} -m {name}"


def _is_found() -> bool:
    try:
        return Path.cwd() == ROOT or bool(importlib.metadata.version("dab-torch"))
    except importlib.metadata.PackageNotFoundError:
        return False


def _train() -> str:
    """A clone has its script; what was installed has its command, which a shell may not find by its name."""
    if (script := ROOT / "train.py").exists():
        return f"{python()} {shlex.quote(_near(script))}"
    return "dab-train" if shutil.which("dab-train") else f"{python()} -m dab.train"


def _near(path: Path) -> str:
    return min(os.path.relpath(path), str(path), key=len)


def _words() -> list[str]:
    """What this run was asked for, but for its seed."""
    words = sys.argv[1:] if Path(sys.argv[0]).name in ("train.py", "dab-train") else []
    return [word for word in words if not word.startswith(("-", "seed=", "force="))]
