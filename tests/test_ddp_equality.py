"""Two workers with half of the batch each are one with all of it, for every task: scripts/ddp_equality.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from conftest import ROOT
from faults import JOBS
from processes import start

sys.path.insert(0, str(ROOT / "scripts"))

import ddp_equality

from dab.data.shared import Order
from dab.engine.build import build_data
from dab.engine.distributed import Workers, join_workers, leave_workers
from dab.engine.launch import launch
from dab.engine.norms import GlobalBatchNorm, synchronise
from dab.engine.records import read_metrics
from dab.engine.run import Run

QUICK = (  # accumulation and clipping; a gradient of gradients; fits and examine; layers that no gradient reaches
    "sorting, bridge, clipped, in two parts",
    "density, REBAR, two layers",
    "representation, fitted bridge",
    "classification, Resnet18, no gradient",
)


def follow(cases: list[str], folder: Path) -> None:
    both = [start(folder / f"printed{r}", ddp_equality.worker, r, cases, folder) for r in range(2)]
    ddp_equality.train(cases, folder, Workers())
    for rank, worker in enumerate(both):
        worker.join(500)
        assert worker.exitcode == 0, (folder / f"printed{rank}.err").read_text()
    for case in cases:
        found = ddp_equality.compare(case, folder)
        assert found["losses"] < 1e-5 and found["metrics"] < 1e-4, (case, found)
        one, two = (Run(ddp_equality.config(case, folder, world)).result for world in (1, 2))
        assert one["across_workers"] == [] and two["across_workers"][0].startswith("noise: every worker draws its own")
        normed = "batch norm: over the rows of all workers" in two["across_workers"]
        assert normed == case.startswith(("representation", "classification, Resnet18"))
        assert two["worlds"] == [[0, 2]]


def test_two_workers_follow_one(tmp_path) -> None:
    follow(list(QUICK), tmp_path)


@pytest.mark.slow
def test_two_workers_follow_one_in_everything_else(tmp_path) -> None:
    follow([case for case in ddp_equality.CASES if case not in QUICK], tmp_path)


@pytest.mark.parametrize("task", ["sorting", "classification"])
def test_a_batch_in_parts_is_the_batch(task, config, no_curves) -> None:
    """The task's loss and the bridge's penalty, clipped too: trainer.accumulate changes the memory alone."""
    few = [*JOBS[task].split(), "trainer.batch_size=24", "trainer.steps=6", "trainer.log_every=1"]
    curves = []
    for parts in (1, 2, 6):
        made = config(*few, "trainer.clip_norm=1", "optimizer.lr=1e-2", f"trainer.accumulate={parts}")
        assert launch(made) == 0
        rows = [row for row in read_metrics(Run(made).dir / "metrics.jsonl") if "train/loss" in row]
        curves.append([row[f"train/{name}"] for row in rows for name in ("loss", "task_loss", "penalty")])
    assert len(curves[0]) == 18 and min(curves[0]) > 0  # penalties too
    assert curves[1] == pytest.approx(curves[0], rel=1e-5) and curves[2] == pytest.approx(curves[0], rel=1e-5)


@pytest.mark.parametrize("task", JOBS)
def test_the_global_batch_does_not_depend_on_the_number_of_workers(task, config) -> None:
    """Augmented, mixed and sampled anew as it may be; of evaluation, rows that do not divide evenly."""
    made = config(*JOBS[task].split(), "trainer.batch_size=16", "trainer.eval_batch_size=70")
    whole, *shares = (build_data(made, Workers(rank, world)) for rank, world in ((0, 1), (0, 2), (1, 2)))
    for step in (0, 5, 90):
        for one, *parts in zip(whole.batch(step), *(share.batch(step) for share in shares)):
            assert torch.equal(torch.stack(parts, 1).flatten(0, 1), one)
    split = "valid" if task == "sorting" else "train"  # 1,297 images
    seen = [torch.cat([batch[0] for batch in data.batches(split)]) for data in (whole, *shares)]
    assert all(torch.equal(part, seen[0][rank::2]) for rank, part in enumerate(seen[1:]))
    assert sum(map(len, seen[1:])) == len(seen[0])


def test_every_sample_comes_once_an_epoch() -> None:
    order = Order(1297, 64, seed=3)
    for epoch in range(3):
        seen = torch.cat([order(epoch * 20 + step) for step in range(20)])
        assert len(seen.unique()) == len(seen) == 1280  # the other 17 wait for another epoch's order


def statistics(rank: int, folder: Path) -> None:
    join_workers("cpu", rank, 2, rank, f"file://{folder}/rendezvous")
    torch.manual_seed(0)
    found = {}
    for shape in ((6, 3), (6, 3, 4), (6, 3, 4, 5)):
        layer = [torch.nn.BatchNorm1d, torch.nn.BatchNorm1d, torch.nn.BatchNorm2d][len(shape) - 2]
        for options in ({}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}):
            whole = torch.randn(shape, dtype=torch.double, requires_grad=True)
            weight = torch.randn_like(whole)
            one, two = layer(3, **options).double(), torch.nn.Sequential(layer(3, **options).double())
            synchronise(two, torch.device("cpu"))
            assert isinstance(two[0], GlobalBatchNorm)
            for _ in range(2):
                expected, mine = one(whole), two(whole[rank::2])
            (gradient,) = torch.autograd.grad((expected * weight).sum(), whole)
            (of_mine,) = torch.autograd.grad((mine * weight[rank::2]).sum(), whole)
            found[f"{shape} {options}"] = [
                (mine, expected[rank::2]),
                (of_mine[rank::2], gradient[rank::2]),
                *zip(two[0].state_dict().values(), one.state_dict().values()),
                (two.eval()(whole), one.eval()(whole)),
            ]
    torch.save(found, folder / f"{rank}.pt")
    leave_workers(0)


def test_batch_norm_over_two_workers_is_that_of_one(tmp_path) -> None:
    """Its value, its gradient, its running statistics."""
    both = [start(tmp_path / f"printed{r}", statistics, r, tmp_path) for r in range(2)]
    for rank, worker in enumerate(both):
        worker.join(60)
        assert worker.exitcode == 0, (tmp_path / f"printed{rank}.err").read_text()
        for case, pairs in torch.load(tmp_path / f"{rank}.pt").items():
            for ours, theirs in pairs:
                torch.testing.assert_close(ours, theirs, msg=lambda told, case=case: f"{case}: {told}")
