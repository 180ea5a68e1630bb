"""What a study spends on a cell beyond its training: trivial cells, from the pool and as processes of their own.

python scripts/bench_orchestration.py [--cells 100]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import tempfile
import time
from pathlib import Path

from experiments.campaign import Campaign
from experiments.checkout import Checkout
from experiments.executors import Command, Executor
from experiments.pool import Pool
from experiments.study import Cell, Records
from experiments.trainings import HERE, Trainings

TRIVIAL = ("experiment=sorting/straight_through", "trainer.steps=3", "data.valid_size=50", "data.test_size=50")


class Cold:
    """Every command a Python of its own, one at a time: what the pool saves."""

    at_once = 1

    def submit(self, command: Command):  # type: ignore[no-untyped-def]
        return command.start(Checkout(HERE.root))

    def __enter__(self) -> Cold:
        return self

    def __exit__(self, *_: object) -> None: ...


def seconds_a_cell(executor: Executor, count: int) -> tuple[float, float]:
    """By the clock, beyond what the runs' own records call training; and of CPU in all, which no neighbour slows."""
    cells = [Cell("trivial", "T5", seed, TRIVIAL) for seed in range(count)]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        kind, records = Trainings("smoke", Path(folder) / "runs"), Records(Path(folder) / "results")
        start, cpu = time.perf_counter(), cpu_seconds()
        with executor as entered:
            assert Campaign("bench", cells, kind, records).run(entered) == 0
        wall, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        trained = sum((records.of(cell) or {})["seconds"] for cell in cells)
    return (wall - trained) / count, cpu / count


def cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def measure_orchestration(count: int = 100, cold: int = 3) -> dict[str, float]:
    table = {}
    for name, executor, cells in (("the pool", Pool(1, HERE), count), ("processes of their own", Cold(), cold)):
        wall, cpu = seconds_a_cell(executor, cells)
        table |= {f"seconds a cell beyond training, {cells} from {name}": wall, f"CPU seconds a cell, from {name}": cpu}
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=100)
    for name, value in measure_orchestration(parser.parse_args().cells).items():
        print(f"{name:60} {value:.3f}")
