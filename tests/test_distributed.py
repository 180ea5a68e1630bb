"""Two workers are one run: same data, same directory, same answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import ROOT, command
from test_engine import LONG, assert_same_run, only_run, start_and_signal, weights

from dab.data.sorting import Sorting
from dab.engine.records import read_metrics

FEW = ["trainer.log_every=1", "data.valid_size=1001", "data.test_size=1001"]


def losses(run_dir: Path) -> list[float]:
    return [row["train/loss"] for row in read_metrics(run_dir / "metrics.jsonl") if "train/loss" in row]


def test_two_spawned_workers_follow_one(tmp_path, train) -> None:
    assert train(*FEW).returncode == 0
    one = only_run(tmp_path)
    alone, result = losses(one), json.loads((one / "result.json").read_text())
    done = train(*FEW, "trainer.devices=2", "force=true")
    assert done.returncode == 0, done.stderr
    assert only_run(tmp_path) == one  # the number of workers does not make it another run
    assert losses(one) == pytest.approx(alone, rel=1e-4)
    both = json.loads((one / "result.json").read_text())
    assert both["world"] == 2 and both["samples"] == result["samples"]
    assert both["metrics"] == pytest.approx(result["metrics"], rel=0.02, abs=0.003)


def test_two_workers_train_control_variates_of_two_layers(tmp_path, train) -> None:
    """A gradient of gradients inside the forward pass, in an estimator inside another one's objective."""
    done = train("experiment=binarized/rebar", "model.layers=2", "trainer.steps=15", "trainer.devices=2")
    assert done.returncode == 0, done.stderr
    last = [row for row in read_metrics(only_run(tmp_path) / "metrics.jsonl") if "train/eta" in row][-1]
    assert [last["train/eta"], last["train/temperature"]] != pytest.approx([1.0, 0.5], rel=1e-3)  # both have learned


def test_two_workers_stop_together_and_go_on(tmp_path, train, tmp_path_factory) -> None:
    assert start_and_signal(tmp_path, signal.SIGTERM, 80, "trainer.devices=2") == 143
    run_dir = only_run(tmp_path)
    assert json.loads((run_dir / "status.json").read_text())["state"] == "interrupted"
    assert train(*LONG, "trainer.devices=2").returncode == 0
    whole = tmp_path_factory.mktemp("whole")
    subprocess.run(command(whole, *LONG, "trainer.devices=2"), check=True, capture_output=True)
    assert_same_run(run_dir, only_run(whole))


def torchrun(folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    script = command(folder, *FEW, *overrides)[1:]
    runner = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run([*runner, *script], capture_output=True, text=True, timeout=300, cwd=ROOT)


def test_torchrun_trains_one_run(tmp_path) -> None:
    done = torchrun(tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((only_run(tmp_path) / "result.json").read_text())["world"] == 2


def test_two_nodes_of_one_worker_each(tmp_path) -> None:
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1"}
    nodes = []
    for rank in range(2):
        runner = ["-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(rank), "--nproc-per-node", "1"]
        where = ["--master-addr", "127.0.0.1", "--master-port", str(20000 + os.getpid() % 20000)]
        arguments = [sys.executable, *runner, *where, *command(tmp_path, *FEW)[1:]]
        nodes.append(
            subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
        )
    assert [node.wait(timeout=300) for node in nodes] == [0, 0]
    assert json.loads((only_run(tmp_path) / "result.json").read_text())["world"] == 2


def test_multirun_under_torchrun_is_refused_in_a_sentence(tmp_path) -> None:
    done = torchrun(tmp_path, "-m", "seed=0,1")
    assert done.returncode != 0
    assert "-m under torchrun is refused" in done.stderr


def test_multirun_leaves_finished_runs_and_no_stray_files(tmp_path, train) -> None:
    done = train("-m", "seed=0,1", "trainer.devices=2", timeout=400)
    assert done.returncode == 0, done.stderr
    found = [json.loads(path.read_text()) for path in tmp_path.glob("runs/*/*/*/result.json")]
    assert sorted(result["seed"] for result in found) == [0, 1]


def test_a_failed_job_does_not_stop_the_sweep(tmp_path, train) -> None:
    done = train("-m", "optimizer.lr=1e30,1e-3")
    assert done.returncode != 0
    states = {json.loads(path.read_text())["state"] for path in tmp_path.glob("runs/*/*/*/status.json")}
    assert states == {"failed", "finished"}


def test_the_global_batch_does_not_depend_on_the_number_of_workers() -> None:
    common = {"length": 4, "seed": 3, "batch_size": 8, "eval_batch_size": 5, "valid_size": 9, "test_size": 3}
    for train_size in (None, 32):
        whole = Sorting(**common, train_size=train_size)
        shares = [Sorting(**common, train_size=train_size, rank=r, world=2) for r in range(2)]
        for step in (0, 5):
            together = torch.stack([share.batch(step)[0] for share in shares], dim=1).flatten(0, 1)
            assert torch.equal(together, whole.batch(step)[0])
        rows = [x for share in shares for x, _ in share.batches("valid")]
        assert sum(len(x) for x in rows) == 9


def test_weights_do_not_depend_on_threads_of_the_parent(tmp_path, train) -> None:
    assert train("trainer.devices=2").returncode == 0
    first = weights(only_run(tmp_path))
    assert train("trainer.devices=2", "force=true").returncode == 0
    again = weights(only_run(tmp_path))
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_a_worker_leaves_without_finalizing_python(tmp_path) -> None:
    """Whatever still lives when Python finalizes (gloo's threads under DDP) must not turn the exit code."""
    script = "import atexit, os; from dab.engine.distributed import leave_workers as leave\n"
    script += "atexit.register(os._exit, 6); print('said'); leave(int(os.environ['CODE']))"
    for code in (0, 3):
        environment = {**os.environ, "CODE": str(code)}
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, env=environment)
        assert (done.returncode, done.stdout) == (code, "said\n"), done.stderr
