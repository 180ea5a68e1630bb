"""Golden losses: the first steps of an experiment, kept. A change that moves them moves the science.

`python tests/test_golden.py` writes them anew; say in the commit why they moved.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from dab.engine.build import build
from dab.engine.compose import resolve
from dab.engine.distributed import Workers
from dab.engine.loggers import NoLogger
from dab.engine.loop import Loop, Stop
from dab.engine.progress import Silent
from dab.engine.run import Run

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests/golden/losses.json"
STEPS = 20
EXPERIMENTS = {
    "sorting/signum_dense": ["data.valid_size=64", "data.test_size=64"],
    "binarized/bridge_dense": ["data=digits"],
    "binarized/rebar": ["data=digits", "recipe=rebar"],
}


def first_losses(experiment: str, overrides: list[str]) -> list[float]:
    """The first per-step losses of the experiment as it stands at scale=cpu."""
    made = resolve(ROOT / "conf", [f"experiment={experiment}", "trainer.threads=1", *overrides])
    torch.set_num_threads(1)
    workers = Workers()
    job = build(made, workers)
    loop = Loop(job, Run(made), workers, Stop(), NoLogger(), Silent(STEPS))
    losses = []
    for _ in range(STEPS):
        loop._train_step(job.task)
        losses.append(loop.meter.read(workers)["loss"])
    return losses


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_first_losses_are_the_golden_ones(experiment: str) -> None:
    golden = json.loads(GOLDEN.read_text())[experiment]
    assert len(golden) == STEPS
    # Another processor sums in another order; a changed recipe moves far more than this.
    assert first_losses(experiment, EXPERIMENTS[experiment]) == pytest.approx(golden, rel=2e-3)


def write() -> None:
    losses = {name: first_losses(name, overrides) for name, overrides in EXPERIMENTS.items()}
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(json.dumps(losses, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(write())
