"""Training steps to be timed, side by side: the engine's, and the same model and optimizer in a bare loop."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from dab.engine.build import Job, build
from dab.engine.compose import resolve
from dab.engine.distributed import Workers
from dab.engine.loggers import NoLogger
from dab.engine.loop import Loop, Stop
from dab.engine.progress import Silent
from dab.engine.run import Run

ROOT = Path(__file__).resolve().parents[1]
CHUNK = 20  # steps between two changes of sides
Timed = Callable[[], None]


def configuration(*overrides: str) -> dict[str, Any]:
    return resolve(ROOT / "conf", ["trainer.batch_size=1024", "logger=none", *overrides])


def our_loop(config: dict[str, Any], data: Any = None) -> Timed:
    """A step of the engine, with everything it does between two log lines."""
    job = build(config, Workers(), data)
    loop = Loop(job, Run(config), Workers(), Stop(), NoLogger(), Silent(config["trainer"]["steps"]))

    def step() -> None:
        loop._train_step(job.task)
        if loop.step % config["trainer"]["log_every"] == 0:
            loop.meter.read(loop.workers)

    return step


def bare_step(job: Job, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    loss, logs = job.task(batch)
    job.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    job.optimizer.step()
    return loss, logs


def bare_loop(config: dict[str, Any], data: Any = None) -> Timed:
    """The same model and optimizer over batches made beforehand: nothing but forward, backward and update."""
    job = build(config, Workers(), data)
    batches = [job.data.batch(step) for step in range(CHUNK)]
    count = iter(range(10**9))
    return lambda: bare_step(job, batches[next(count) % CHUNK]) and None


def interleaved(sides: dict[str, Timed], rounds: int, chunk: int = CHUNK) -> dict[str, list[float]]:
    """Seconds per step of each side, one value per round of `chunk` steps."""
    for step in sides.values():
        for _ in range(min(5, chunk)):
            step()
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, step in sides.items():
            start = time.perf_counter()
            for _ in range(chunk):
                step()
            times[name].append((time.perf_counter() - start) / chunk)
    return times


def ratio(times: dict[str, list[float]], of: str, to: str) -> float:
    """How fast `of` is in terms of `to`: above 1 is faster."""
    return statistics.median(t / o for o, t in zip(times[of], times[to]))
