"""A run that dies between any two of its file operations, or finds its files altered: nothing is lost in silence."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dab.engine import checkpoint
from dab.engine.launch import FAILED, launch
from dab.engine.records import Metrics, read_metrics
from dab.engine.run import Run

# Four evaluations of which the second is the best (the learning rate sees to that): the last weights are not the best.
SHORT = ["trainer.steps=8", "trainer.eval_every=2", "trainer.save_every=3", "trainer.log_every=1"]
SMALL = ["data.length=3", "data.valid_size=300", "data.test_size=300", "model.widths=[16]", "trainer.batch_size=16"]
OVERSHOOT = ["optimizer.lr=0.1", "schedule=constant", "seed=1"]
OPERATIONS = ("replace", "link", "unlink")
pytestmark = pytest.mark.usefixtures("no_curves")

TIMES = ("seconds", "train_seconds", "cpu_seconds", "train/samples_per_second")


class Killed(BaseException):
    """What no handler expects."""


@pytest.fixture
def job(config, tmp_path) -> Callable[[str], dict]:
    made = config(*SHORT, *SMALL, *OVERSHOOT)
    return lambda name: {**made, "paths": {**made["paths"], "runs": str(tmp_path / name)}}


def outcome(made: dict) -> tuple:
    """All that must not depend on what a run went through."""
    run = Run(made)
    rows = [{k: v for k, v in row.items() if k not in TIMES} for row in read_metrics(run.dir / "metrics.jsonl")]
    weights = {name: value.tolist() for name, value in load_file(run.dir / "model.safetensors").items()}
    curve = {k: v for k, v in run.result["curve"].items() if k not in TIMES}
    return run.result["metrics"], run.result["best"], curve, rows, weights, run.status["state"]


def counted(monkeypatch, die_before: int | None = None) -> list[str]:
    """Count the operations that put files in place or remove them, and die instead of one of them."""
    seen: list[str] = []

    def watch(name: str, real: Callable) -> Callable:
        def operation(*arguments, **options):
            if len(seen) == die_before:
                raise Killed
            seen.append(f"{name} {Path(arguments[-1]).name}")
            return real(*arguments, **options)

        return operation

    for name in OPERATIONS:
        monkeypatch.setattr(os, name, watch(name, getattr(os, name)))
    return seen


def test_killed_between_any_two_file_operations_then_continued_equals_never_killed(job, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        seen = counted(patch)
        assert launch(job("whole")) == 0
    wanted = outcome(job("whole"))
    metrics, best, *_ = wanted
    assert best["step"] < 8, "the last weights are the best: the test would not notice if they were taken for them"
    assert metrics["valid/all_or_none"] == best["value"]  # what is reported is what was selected
    assert {"replace checkpoint.pt", "replace model.safetensors", "replace result.json"} <= set(seen)
    for first in range(len(seen)):
        made, second = job(f"killed{first}"), first % 7
        for number in (first, second):  # and once more soon after it has gone on
            with monkeypatch.context() as patch, contextlib.suppress(Killed):
                counted(patch, die_before=number)
                assert launch(made) == 0 and first == len(seen) - 1  # where all but the status is done
        assert launch(made) == 0
        assert outcome(made) == wanted, f"killed before {seen[first]}, then before operation {second}"


def test_killed_while_a_resumed_run_takes_over_its_rows(tmp_path, monkeypatch) -> None:
    path = tmp_path / "metrics.jsonl"
    text = "".join(f'{{"step": {step}, "train/loss": 1.0}}\n' for step in range(5))
    dumps = json.dumps

    def dies_at_the_last(row):
        if row["step"] == 4:
            raise Killed
        return dumps(row)

    path.write_text(text)
    monkeypatch.setattr("dab.engine.records.json.dumps", dies_at_the_last)
    with pytest.raises(Killed):
        Metrics(path, resume_step=5, keep_evaluation=True)
    assert path.read_text() == text


def unfinished(made: dict) -> Path:
    """A run whose training is complete and whose record is gone."""
    assert launch(made) == 0
    folder = Run(made).dir
    (folder / "result.json").unlink()
    return folder


def test_a_lost_record_is_made_again_with_the_best_weights(job) -> None:
    made = job("lost")
    unfinished(made)
    again = job("whole")
    assert launch(made) == launch(again) == 0
    assert outcome(made) == outcome(again)


def alter(path: Path, change: Callable[[dict], object]) -> None:
    state = torch.load(path, weights_only=True)
    change(state)
    torch.save(state, path)


def one_weight(state: dict) -> None:
    next(v for v in state["best"]["weights"].values() if v.dim() == 2)[0, 0] += 1e-3


@pytest.mark.parametrize("change", [one_weight, lambda state: state["best"].pop("weights")], ids=["altered", "missing"])
def test_best_weights_that_are_not_the_measured_ones_are_never_reported(change, job, capsys) -> None:
    made = job("altered")
    folder = unfinished(made)
    alter(folder / checkpoint.NAME, change)
    assert launch(made) == 0  # from the checkpoint before it, which is whole
    assert "the best weights, of step" in (said := capsys.readouterr().out) and "trying the one before it" in said
    assert launch(job("whole")) == 0 and outcome(made) == outcome(job("whole"))
    folder = unfinished({**made, "force": True})
    for name in (checkpoint.NAME, checkpoint.PREVIOUS):
        alter(folder / name, change)
    assert launch(made) == FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("run failed: no checkpoint in") and "`force=true` starts the run over" in line
    assert Run(made).result is None


def test_rows_in_the_middle_that_cannot_be_read_are_told_and_cost_no_others(tmp_path, capsys) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = [{"step": step, "train/loss": 1.0} for step in range(1, 7)]
    lines = [json.dumps(row).encode() for row in rows]
    path.write_bytes(b"\n".join([*lines[:2], b"\xff\x00garbage", b"[3]", *lines[3:], b'{"step": 7, "tr']))
    Metrics(path, resume_step=6, keep_evaluation=True).close()
    assert f"{path} is damaged: 2 of 8 lines cannot be read and are left out (3, 4)" in capsys.readouterr().out
    assert [row["step"] for row in read_metrics(path)] == [1, 2, 4, 5, 6]
    assert capsys.readouterr().out == ""


def test_a_crash_after_the_record_leaves_a_finished_run(job, monkeypatch) -> None:
    made = job("status")
    with monkeypatch.context() as patch:
        patch.setattr(
            Run, "set_status", lambda self, state, **_: (_ for _ in ()).throw(Killed) if state == "finished" else None
        )
        with pytest.raises(Killed):
            launch(made)
    assert Run(made).result is not None and Run(made).status["state"] != "finished"
    assert launch(made) == 0 and Run(made).status["state"] == "finished"
