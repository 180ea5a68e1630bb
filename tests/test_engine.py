"""Runs that stop, resume, fail and repeat: what a user of the engine relies on."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from functools import partial
from pathlib import Path

import processes
import pytest
import torch
from conftest import command, composed
from safetensors.torch import load_file

from dab.engine import checkpoint
from dab.engine.launch import BAD_CONFIG, BUSY, FAILED, launch
from dab.engine.lock import RunBusy
from dab.engine.records import Metrics, read_metrics
from dab.engine.run import Run
from dab.engine.schedules import Constant, Cosine, Linear

# Long enough to be hit in the middle, with evaluations and checkpoints that do not line up with the log.
LONG = [
    "trainer.steps=400",
    "trainer.eval_every=90",
    "trainer.save_every=70",
    "trainer.log_every=40",
    "data.valid_size=2000",
    "data.test_size=2000",
]
FEW = ["data.valid_size=200", "data.test_size=200"]
TIMES = ("seconds", "train_seconds", "cpu_seconds", "train/samples_per_second")


def weights(run_dir: Path) -> dict[str, torch.Tensor]:
    return load_file(run_dir / "model.safetensors")


def only_run(folder: Path) -> Path:
    (path,) = folder.glob("runs/*/*/*/config.yaml")
    return path.parent


def timeless(run_dir: Path) -> list[dict]:
    return [{k: v for k, v in row.items() if k not in TIMES} for row in read_metrics(run_dir / "metrics.jsonl")]


def assert_same_run(one: Path, two: Path) -> None:
    a, b = weights(one), weights(two)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert timeless(one) == timeless(two)
    states = [torch.load(path / "checkpoint.pt", weights_only=True) for path in (one, two)]
    flat = [torch.cat([v["exp_avg"].flatten() for v in state["optimizer"]["state"].values()]) for state in states]
    assert torch.equal(*flat)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    assert launch(composed(folder, *LONG)) == 0
    return only_run(folder)


def start_and_signal(folder: Path, number: int, after_step: int, *overrides: str) -> int:
    """Start training, send the signal once that step has been logged, return the exit code."""
    process = processes.start(folder / "printed", processes.command_line, command(folder, *LONG, *overrides)[2:])
    wait_for_step(folder, after_step)
    os.kill(process.pid, number)
    process.join(60)
    return process.exitcode


def wait_for_step(folder: Path, step: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = list(folder.glob("runs/*/*/*/metrics.jsonl"))
        rows = read_metrics(found[0]) if found else []
        if rows and rows[-1]["step"] >= step:
            break
        time.sleep(0.005)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_asked_to_stop_then_continued_equals_never_stopped(number, code, tmp_path, uninterrupted, train) -> None:
    assert start_and_signal(tmp_path, number, 80) == code
    run_dir = only_run(tmp_path)
    assert json.loads((run_dir / "status.json").read_text())["state"] == "interrupted"
    assert torch.load(run_dir / "checkpoint.pt", weights_only=True)["step"] < 400
    assert train(*LONG).returncode == 0
    assert_same_run(run_dir, uninterrupted)


def test_killed_three_times_then_continued_equals_never_stopped(tmp_path, uninterrupted, train) -> None:
    for step in (80, 160, 240):
        assert start_and_signal(tmp_path, signal.SIGKILL, step) == -signal.SIGKILL
    assert train(*LONG).returncode == 0
    assert_same_run(only_run(tmp_path), uninterrupted)


def test_a_torn_checkpoint_falls_back_to_the_one_before(tmp_path, uninterrupted, train) -> None:
    start_and_signal(tmp_path, signal.SIGKILL, 240)
    newest = only_run(tmp_path) / checkpoint.NAME
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 0xFF  # one flipped byte in the middle of the weights
    newest.write_bytes(content)
    done = train(*LONG)
    assert "trying the one before" in done.stdout
    assert_same_run(only_run(tmp_path), uninterrupted)


def test_stopped_inside_an_evaluation_then_continued_equals_never_stopped(
    config, tmp_path, uninterrupted, monkeypatch
) -> None:
    from dab.tasks.sorting import SortingTask

    made, measure, calls = config(*LONG), SortingTask.measure, []

    def stop_here(self, batch):
        calls.append(1)
        if len(calls) == 2:  # the second evaluation, at step 180
            os.kill(os.getpid(), signal.SIGTERM)
        return measure(self, batch)

    monkeypatch.setattr(SortingTask, "measure", stop_here)
    made["trainer"]["eval_batch_size"] = 4096
    assert launch(made) == 143
    assert torch.load(Run(made).dir / "checkpoint.pt", weights_only=True)["pending_evaluation"]
    monkeypatch.setattr(SortingTask, "measure", measure)
    assert launch(made) == 0
    assert_same_run(Run(made).dir, uninterrupted)


def test_finished_run_says_so_and_force_starts_over(config, capsys) -> None:
    run = Run(config())
    assert launch(config()) == 0
    assert "test/all_or_none" in capsys.readouterr().out
    finished = run.result["finished"]
    assert launch(config()) == 0
    assert "finished already" in (said := capsys.readouterr().out) and "test/all_or_none" in said
    assert run.result["finished"] == finished
    assert launch(config("force=true")) == 0
    assert run.result["finished"] > finished


def test_two_processes_cannot_share_a_run(config, capsys) -> None:
    made = config()
    owner = Run(made)
    owner.acquire()
    with pytest.raises(RunBusy, match=f"process {os.getpid()}"):
        Run(made).acquire()
    assert launch(made) == BUSY
    assert "is being trained by process" in capsys.readouterr().err
    owner.release()
    assert launch(made) == 0


def test_a_loss_that_is_not_finite_stops_the_run(config, capsys) -> None:
    made = config("optimizer.lr=1e30", "trainer.log_every=5")
    assert launch(made) == FAILED
    assert "stopped being finite" in capsys.readouterr().err
    assert Run(made).status["state"] == "failed"
    assert Run(made).result is None


def test_parts_that_do_not_fit_are_a_config_error(config, capsys) -> None:
    assert launch(config("hard=topk", "hard.k=1000")) == BAD_CONFIG
    assert "config error: approximator: k = 1000 is more than" in capsys.readouterr().err
    assert launch(config("data.low=1")) == BAD_CONFIG
    assert "config error: data: sorting needs low < high" in capsys.readouterr().err


def test_result_record_is_complete(config) -> None:
    made = config()
    assert launch(made) == 0
    result = Run(made).result
    assert result["samples"] == 20 * 64
    assert result["parameters"] == {"training": 139_161, "inference": 56_729}
    assert result["config"]["seed"] == 0 and result["hash"] == Run(made).hash
    assert result["provenance"]["start"]["torch"] == torch.__version__
    assert {"test/all_or_none", "test/per_element", "valid/all_or_none"} <= set(result["metrics"])
    assert (Run(made).dir / "figures/curves.png").stat().st_size > 5000


def test_seeds_matter_and_repeat(config, no_curves) -> None:
    for seed in (0, 1):
        assert launch(config(*FEW, f"seed={seed}")) == 0
    zero, one = (weights(Run(config(*FEW, f"seed={seed}")).dir) for seed in (0, 1))
    assert not torch.equal(zero["read_out.weight"], one["read_out.weight"])
    assert launch(config(*FEW, "force=true")) == 0
    again = weights(Run(config(*FEW)).dir)
    assert all(torch.equal(zero[name], again[name]) for name in zero)


def test_switches_change_the_training(config, no_curves) -> None:
    switches = ["trainer.clip_norm=0.1", "trainer.clip_value=0.001", "schedule=warmup_cosine", "trainer.amp=true"]
    made = [config(*FEW), *(config(*FEW, switch) for switch in switches)]
    assert [launch(one) for one in made] == [0] * len(made)
    before, *after = (weights(Run(one).dir)["read_out.weight"] for one in made)
    for switch, changed in zip(switches, after):
        assert torch.isfinite(changed).all() and not torch.equal(before, changed), switch


def test_compiled_training_follows_the_eager_one(config, no_curves) -> None:
    options = ["trainer.log_every=1", "trainer.steps=5", *FEW]
    assert launch(config(*options)) == 0
    assert launch(config(*options, "trainer.compile=true")) == 0
    eager, compiled = (
        [
            row["train/loss"]
            for row in read_metrics(Run(config(*options, *o)).dir / "metrics.jsonl")
            if "train/loss" in row
        ]
        for o in ([], ["trainer.compile=true"])
    )
    assert compiled == pytest.approx(eager, rel=1e-3)


def test_metrics_rows_past_the_checkpoint_are_dropped_and_a_torn_line_ignored(tmp_path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(
        '{"step": 1, "train/loss": 3}\n{"step": 2, "valid/loss": 2}\n{"step": 3, "train/loss": 1}\n{"step": 4, "tra'
    )
    Metrics(path, resume_step=2, keep_evaluation=True).close()
    assert [row["step"] for row in read_metrics(path)] == [1, 2]
    Metrics(path, resume_step=2, keep_evaluation=False).close()
    assert [row["step"] for row in read_metrics(path)] == [1]


def test_checkpoint_leftovers_of_a_crash_do_no_harm(tmp_path) -> None:
    checkpoint.save(tmp_path, {"step": 1})
    (tmp_path / "checkpoint.pt.tmp").write_bytes(b"half")
    (tmp_path / "checkpoint.previous.pt.tmp").write_bytes(b"half")
    checkpoint.save(tmp_path, {"step": 2})
    load = partial(checkpoint.load, tmp_path, torch.device("cpu"), lambda state: None)
    assert load() == {"step": 2}
    (tmp_path / checkpoint.NAME).unlink()
    assert load() == {"step": 1}
    (tmp_path / checkpoint.PREVIOUS).write_bytes(b"")
    with pytest.raises(checkpoint.Unusable, match="force=true"):
        load()


def test_schedules() -> None:
    assert Constant()(0.7) == 1
    cosine = Cosine(warmup=0.1, floor=0.1)
    assert cosine(0.0) < 0.02 and cosine(0.1) == pytest.approx(1) and cosine(1.0) == pytest.approx(0.1)
    assert Cosine()(0.25) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
    assert Linear(decay=0.5)(0.4) == 1 and Linear(decay=0.5)(0.75) == pytest.approx(0.5)
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        Cosine(warmup=1.0)
