"""Two workers are one run: same data, same directory, same answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
from conftest import ROOT, command, composed
from processes import command_line, run_workers, start
from test_engine import LONG, assert_same_run, only_run, start_and_signal, wait_for_step, weights

from dab.engine.config import ConfigError
from dab.engine.distributed import WorkerDied, Workers, _child, _raise_if_killed, join_workers, leave_workers
from dab.engine.evaluation import means
from dab.engine.exits import FAILED
from dab.engine.launch import _on_all_of_torchrun, launch, work
from dab.engine.records import read_json, read_metrics
from dab.engine.run import Run
from dab.engine.stop import Stop
from dab.tasks.task import Task

FEW = ["trainer.log_every=1", "data.valid_size=1001", "data.test_size=1001"]


def losses(run_dir: Path) -> list[float]:
    return [row["train/loss"] for row in read_metrics(run_dir / "metrics.jsonl") if "train/loss" in row]


def test_two_spawned_workers_follow_one(tmp_path, train, config, tmp_path_factory) -> None:
    """A sweep of runs on two workers each, from the command line; the first of them against a run on one."""
    done = train("-m", "seed=0,1", *FEW, "trainer.devices=2", timeout=400)
    assert done.returncode == 0, done.stderr
    both = {result["seed"]: result for result in map(read_json, tmp_path.glob("runs/*/*/*/result.json"))}
    assert sorted(both) == [0, 1]
    spawned = Run(config(*FEW, "trainer.devices=2")).dir
    assert (
        spawned.parent == Run(config(*FEW)).dir.parent and spawned != Run(config(*FEW)).dir
    )  # another model: other draws
    alone = composed(tmp_path_factory.mktemp("alone"), *FEW)
    assert launch(alone) == 0
    assert losses(spawned) == pytest.approx(losses(Run(alone).dir), rel=1e-4)
    one, two = Run(alone).result, both[0]
    assert (one["world"], two["world"]) == (1, 2) and two["samples"] == one["samples"]
    assert two["metrics"] == pytest.approx(one["metrics"], rel=0.02, abs=0.003)
    again = tmp_path_factory.mktemp("again")  # however its workers were started, a run on two repeats itself
    assert run_workers(composed(again, *FEW), again) == [0, 0]
    first, second = weights(spawned), weights(only_run(again))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_two_workers_stop_together_and_go_on(tmp_path, tmp_path_factory) -> None:
    assert start_and_signal(tmp_path, signal.SIGTERM, 80, "trainer.devices=2") == 143
    run_dir = only_run(tmp_path)
    assert read_json(run_dir / "status.json")["state"] == "interrupted"
    whole = tmp_path_factory.mktemp("whole")
    for folder in (tmp_path, whole):
        assert run_workers(composed(folder, *LONG), folder) == [0, 0]
    assert_same_run(run_dir, only_run(whole))


def two_of_a_run(folder: Path, made: dict) -> list[BaseProcess]:
    store = f"file://{folder}/first"
    return [start(folder / f"worker{r}", _child, r, work, made, 2, store) for r in range(2)]


def test_a_worker_that_is_killed_is_named_and_the_run_goes_on(tmp_path, config) -> None:
    made = config(*LONG, "trainer.devices=2", f"paths.runs={tmp_path}/runs")
    first, second = two_of_a_run(tmp_path, made)
    wait_for_step(tmp_path, 80)
    os.kill(second.pid, signal.SIGKILL)
    first.join(60)
    assert first.exitcode == FAILED
    (line,) = (tmp_path / "worker0.err").read_text().splitlines()
    assert line == "run failed: worker 2 of 2 does not answer any more; the same command goes on"
    assert Run(made).status["state"] == "failed"
    assert run_workers(made, tmp_path) == [0, 0] and "resuming at step 70 of 400" in (tmp_path / "worker0").read_text()
    assert Run(made).result["world"] == 2 and Run(made).result["resumed"] == [70]


@pytest.mark.parametrize("hanging", [0, 1])
def test_a_worker_that_hangs_ends_the_run_which_goes_on_with_one(hanging, tmp_path, config, capsys) -> None:
    made = config(*LONG, "trainer.devices=2", "trainer.timeout=3", f"paths.runs={tmp_path}/runs")
    both = two_of_a_run(tmp_path, made)
    wait_for_step(tmp_path, 80)
    os.kill(both[hanging].pid, signal.SIGSTOP)
    since, other = time.monotonic(), both[1 - hanging]
    other.join(60)
    assert other.exitcode == FAILED and time.monotonic() - since < 30
    (line,) = (tmp_path / f"worker{1 - hanging}.err").read_text().splitlines()
    assert line == f"run failed: worker {hanging + 1} of 2 does not answer any more; the same command goes on"
    assert Run(made).status["state"] == "failed"
    both[hanging].kill()
    both[hanging].join()
    assert work(Workers(), {**made, "resume": "anyway"}) == 0 and "resuming at step 70" in capsys.readouterr().out
    assert Run(made).result["worlds"] == [[0, 2], [70, 1]] and Run(made).result["across_workers"]


def test_the_parent_names_the_worker_that_was_killed() -> None:
    _raise_if_killed([0, None, 143])
    with pytest.raises(WorkerDied, match=r"worker 2 of 2 was killed by SIGKILL \(out of memory\?\); the same command"):
        _raise_if_killed([1, -signal.SIGKILL])


def test_torchrun_says_how_many_workers_a_run_has(config, monkeypatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    settled = _on_all_of_torchrun(config())
    assert Run(settled).hash == Run(config("trainer.devices=2")).hash != Run(config()).hash
    with pytest.raises(ConfigError, match=r"torchrun started 2 workers: leave trainer\.devices out"):
        _on_all_of_torchrun(config("trainer.devices=4"))
    other = config("trainer.devices=4", "resume=anyway")
    assert Run(_on_all_of_torchrun(other)).hash == Run(other).hash  # the run of four goes on with two
    with pytest.raises(ConfigError, match=r"cannot be split over trainer\.devices=2, in 32 parts each"):
        _on_all_of_torchrun({**config(), "trainer": {**config()["trainer"], "accumulate": 32, "batch_size": 32}})


def rows_and_statistics(rank: int, store: str, output: Path) -> None:
    workers = join_workers("cpu", rank, 2, rank, store)
    found = {}
    for length in (0, 1, 2, 7, 8):
        whole = torch.arange(3 * length).view(length, 3)
        for kind in (torch.float32, torch.int64, torch.uint8, torch.bool, torch.bfloat16):
            mine = whole.to(kind)[rank::2]
            batches = [(x, x[:, 0]) for x in mine.split(3)] if len(mine) or not length else []  # of one row none here
            found[f"{length} {kind}"] = workers.concatenate(batches)[0], whole.to(kind)
    only_one = [torch.tensor([[1.0, 3.0]])][rank:]  # a sample, and none for the second
    measured = means(
        Task(torch.nn.Identity()), lambda x: {"first": x[:, 0], "second": x[:, 1]}, only_one, workers, Stop()
    )
    found["of one sample"] = torch.tensor(list(measured.values())), torch.tensor([1.0, 3.0])
    try:
        workers.concatenate([(torch.zeros(3 * rank),)])
    except ValueError as error:
        found["no shares"] = str(error)
    module = torch.nn.BatchNorm1d(4)
    module(torch.full((3, 4), rank + 1.0))
    workers.align(module.buffers())
    found["statistics"] = module.state_dict()
    torch.save(found, output / f"{rank}.pt")
    leave_workers(0)


def test_two_workers_put_their_shares_together_and_measure_with_the_same_statistics(tmp_path) -> None:
    store = f"file://{tmp_path}/rendezvous"
    both = [start(tmp_path / f"printed{r}", rows_and_statistics, r, store, tmp_path) for r in range(2)]
    for worker in both:
        worker.join(60)
    one, two = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    for found in (one, two):
        assert found.pop("no shares").startswith("[0, 3] rows are no shares of a whole of 3")
        statistics = found.pop("statistics")
        assert torch.allclose(statistics["running_mean"], torch.full((4,), 0.1))  # the first one's
        assert len(found) == 26 and all(torch.equal(*pair) for pair in found.values())


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
    assert read_json(only_run(tmp_path) / "result.json")["world"] == 2


def test_multirun_under_torchrun_is_refused_in_a_sentence(monkeypatch, capsys) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr("sys.argv", sys.argv)  # put back afterwards
        command_line(["-m", "seed=0,1"])
    assert "-m under torchrun is refused" in capsys.readouterr().err


def test_a_worker_leaves_without_finalizing_python() -> None:
    """Whatever still lives when Python finalizes (gloo's threads under DDP) must not turn the exit code."""
    script = "import atexit, os; from dab.engine.distributed import leave_workers as leave\n"
    script += "atexit.register(os._exit, 6); print('said'); leave(3)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (3, "said\n"), done.stderr
