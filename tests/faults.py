"""Faults on purpose: instead of any one of a run's file operations or steps its process dies, or its disk gives way."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from conftest import composed

from dab.engine.checkpoint import NAME, digest
from dab.engine.loop import Loop
from dab.engine.records import read_metrics
from dab.engine.run import Run

TIMES = ("seconds", "train_seconds", "cpu_seconds", "train/samples_per_second")

# Saves, evaluations and log lines that do not line up, all within the first epoch.
PACE = ["trainer.steps=6", "trainer.save_every=2", "trainer.eval_every=3", "trainer.log_every=1"]
TOO_FAR = "optimizer.lr=0.3 schedule=constant"  # so that the last weights are not the best
JOBS = {
    "sorting": f"data.length=3 data.valid_size=300 data.test_size=300 model.widths=[16] seed=1 {TOO_FAR}",
    "density": "experiment=binarized/relax data.dynamic=true model.latents=8 model.encoder=[8] model.decoder=[8] "
    "task.iwae_samples=[2] task.variance_draws=2",
    "representation": "experiment=representation/fashion_mnist hard=bernoulli estimator=reinmax model.bpp=0.5 "
    "task.probes=false",
    "classification": "experiment=classification/dense data.cutout=2 data.mixup=0.4 model.widths=[16]",
}
OPERATIONS = ("replace", "link", "unlink", "fsync")


class Killed(BaseException):
    """What no handler expects: it stands for SIGKILL."""


Fault = Callable[[str, tuple[Any, ...]], None]


def die(_operation: str, _arguments: tuple[Any, ...]) -> None:
    raise Killed


def tear(operation: str, arguments: tuple[Any, ...]) -> None:
    """Die with half of the file written, where one is being written."""
    if operation == "fsync" and os.readlink(path := f"/proc/self/fd/{arguments[0]}").endswith(".tmp"):
        os.truncate(path, os.path.getsize(path) // 2)
        raise Killed


def fill(operation: str, _arguments: tuple[Any, ...]) -> None:
    """The disk is full; what is removed can still be removed."""
    if operation != "unlink":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextlib.contextmanager
def injected(below: Path, at: int | None = None, fault: Fault = die, lasting: bool = False) -> Iterator[list[str]]:
    """All operations that put files in place `below`, in order; the fault comes before number `at`, or from then on."""
    seen: list[str] = []

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any, **options: Any) -> Any:
            path = os.readlink(f"/proc/self/fd/{arguments[0]}") if name == "fsync" else str(arguments[-1])
            number = len(seen)
            if path.startswith(str(below)):
                seen.append(f"{name} {os.path.basename(path)}")
                if at is not None and (number == at or (lasting and number > at)):
                    fault(name, arguments)
            return real(*arguments, **options)

        return operation

    before = {name: getattr(os, name) for name in OPERATIONS}
    for name, real in before.items():
        setattr(os, name, watched(name, real))
    try:
        yield seen
    finally:
        for name, real in before.items():
            setattr(os, name, real)


@contextlib.contextmanager
def killed_at_step(step: int) -> Iterator[None]:
    """The process dies between this step and the next, whatever it has to log, measure and save done."""
    real = Loop._train_step

    def until(self: Loop, forward: torch.nn.Module) -> None:
        if self.step == step:
            raise Killed
        real(self, forward)

    Loop._train_step = until  # type: ignore[method-assign]
    try:
        yield
    finally:
        Loop._train_step = real  # type: ignore[method-assign]


def job(task: str, folder: Path, *pace: str) -> dict[str, Any]:
    return composed(folder, *JOBS[task].split(), "trainer.batch_size=16", *(pace or PACE))


def placed(made: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same run somewhere else."""
    return {**made, "paths": {**made["paths"], "runs": str(folder)}}


def outcome(made: dict[str, Any]) -> dict[str, str]:
    """All that must not depend on what a run went through: sha256 by name."""
    run = Run(made)
    result, state = run.result, torch.load(run.dir / NAME, weights_only=True)
    assert result is not None and run.status["state"] == "finished"
    assert not list(run.dir.rglob("*.tmp"))
    rows = [_timeless(row) for row in read_metrics(run.dir / "metrics.jsonl")]
    told = {"metrics": result["metrics"], "best": result["best"], "curve": _timeless(result["curve"]), "rows": rows}
    return {
        "model": hashlib.sha256((run.dir / "model.safetensors").read_bytes()).hexdigest(),
        "weights": digest(state["task"]),
        "best": digest(state["best"]["weights"]),
        "optimizer": digest(_flat(state["optimizer"])),
        **{name: hashlib.sha256(json.dumps(part).encode()).hexdigest() for name, part in told.items()},
    }


def _timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in TIMES}


def _flat(part: Any, name: str = "") -> dict[str, Any]:
    """Every tensor of nested dictionaries and lists, by its place."""
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else None
    if items is None:
        return {name: torch.as_tensor(part)} if isinstance(part, int | float | torch.Tensor) else {}
    return {place: value for key, inner in items for place, value in _flat(inner, f"{name}.{key}").items()}
