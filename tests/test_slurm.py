"""Sweeps and studies on a real Slurm: what clusters do to jobs, and what is left of it. scripts/slurm.sh starts one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import processes
import pytest
from conftest import QUIET

from dab.engine.exits import FAILED
from dab.engine.records import read_metrics
from dab.engine.run import Run
from experiments.campaign import Campaign, missing
from experiments.executors import Command, open_executor
from experiments.runs import run_of
from experiments.study import Cell, Records
from experiments.trainings import HERE, Trainings

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(1800)]

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "slurm.sh"
OPTIONS = {"engine": "slurm", "at_once": 8, "minutes": 10, "warning": 30, "cpus": 1, "gpus": 0}
OPTIONS |= dict.fromkeys(("partition", "account", "qos", "memory"))
SEEDS = (0, 1, 2)
LONG = ("scale=smoke", *QUIET, "estimator=straight_through", "trainer.steps=4000", "trainer.log_every=20")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory) -> Iterator[None]:
    pytest.importorskip("submitit", reason="pip install -e '.[cluster]' -c constraints.txt")
    absent = [name for name in ("slurmctld", "slurmd", "munged") if shutil.which(name) is None]
    if absent or os.getuid():
        pytest.skip(f"needs root and Debian's slurm-wlm and munge; here: uid {os.getuid()}, no {', '.join(absent)}")
    folder = tmp_path_factory.mktemp("slurm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        subprocess.run([SCRIPT, "start", folder], check=True)
        yield
        subprocess.run([SCRIPT, "stop", folder], check=True)


def wait_for(what: Callable[[], object], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.2)


def jobs(state: str) -> list[str]:
    asked = ["squeue", "--noheader", "--partition=cpu", f"--states={state}", "--format=%A"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()


def test_a_sweep_survives_preemption_and_signals_bit_for_bit(slurm, tmp_path: Path, config, record_property) -> None:
    """One job is pre-empted, one is sent SIGTERM, one what comes before a time limit; all queue again and go on."""
    runs = {seed: Run(config(*LONG, f"seed={seed}")) for seed in SEEDS}
    words = [*LONG, "seed=0,1,2", f"paths.runs={tmp_path}/runs", "cluster=slurm", "cluster.minutes=10"]
    sweep = processes.start(tmp_path / "printed", processes.command_line, ["-m", *words])
    wait_for(lambda: sum(bool(read_metrics(run.dir / "metrics.jsonl")) for run in runs.values()) == 2)
    subprocess.run(["sbatch", "--partition=urgent", "--output=/dev/null", "--wrap=sleep 1"], check=True)
    wait_for(lambda: len(jobs("RUNNING")) == 1)
    (left,) = jobs("RUNNING")
    subprocess.run(["scancel", "--signal=TERM", left], check=True)
    last = max(jobs("all"), key=int)
    wait_for(lambda: read_metrics(runs[SEEDS[-1]].dir / "metrics.jsonl"))
    subprocess.run(["scancel", "--signal=USR2", last], check=True)
    sweep.join(900)
    said = (tmp_path / "printed").read_text() + (tmp_path / "printed.err").read_text()
    assert sweep.exitcode == 0, said
    assert "3 runs, 3 finished, 0 failed; mean ± standard deviation (seeds)" in said
    logs = "".join(path.read_text() for path in sorted((tmp_path / "runs").rglob("*_log.out")))
    assert "asked to stop by SIGTERM; Slurm calls it RUNNING\n" in logs
    assert "asked to stop by SIGUSR2; Slurm calls it RUNNING\n" in logs
    assert "asked to stop by SIGTERM; Slurm calls it COMPLETING, and has queued it again\n" in logs
    assert "DUE TO PREEMPTION" in "".join(path.read_text() for path in (tmp_path / "runs").rglob("*_log.err"))
    assert [logs.count(f"start {n} of job") for n in (1, 2, 3)] == [6, 6, 0]  # each start is told and so is its end
    print(logs)  # for who runs this with -s: the requeue, as it happened
    record_property("faults", 3)

    processes.check_as_in_a_pool([*LONG, "seed=0,1,2"], runs.values(), tmp_path)
    assert sorted(len(run.result["resumed"]) for run in runs.values()) == [1, 1, 1]


def test_a_study_s_failures_are_told_and_the_others_finish(slurm, tmp_path: Path, capsys) -> None:
    tiny = ("data.valid_size=50", "data.test_size=50", "trainer.steps=20")
    good, bad = Cell("good", "T5", 0, tiny), Cell("bad", "T5", 0, (*tiny, "optimizer.lr=1e30"))
    kind, records = Trainings("smoke", tmp_path / "runs"), Records(tmp_path / "results")
    with open_executor(OPTIONS, HERE, "dab-test", tmp_path / "jobs") as executor:
        assert Campaign("tiny", missing([bad, good], kind, records), kind, records).run(executor) == 1
    told = capsys.readouterr().out
    assert "good.T5.seed0: test/all_or_none" in told
    assert "1 of 2 cells failed" in told and "  bad.T5.seed0: run failed: the loss stopped being finite" in told
    assert "Traceback" in run_of(bad, "smoke", tmp_path / "runs").status["traceback"]
    assert missing([bad, good], kind, records) == [bad]


def test_a_job_that_is_killed_is_lost_and_one_that_is_cancelled_stays_so(
    slurm, tmp_path: Path, record_property
) -> None:
    """Nothing waits for ever, and nothing queues again that somebody wanted to end."""
    sleep = ("-c", "import os, time; print(os.getppid(), flush=True); time.sleep(600)")
    logs = tmp_path / "killed", tmp_path / "cancelled"
    with open_executor(OPTIONS, HERE, "dab-test", tmp_path / "jobs") as executor:
        killed, cancelled = (executor.submit(Command(sleep, log)) for log in logs)
        wait_for(lambda: all(log.exists() and log.read_text().endswith("\n") for log in logs))
        os.kill(int(logs[0].read_text()), signal.SIGKILL)  # what runs the command, as running out of memory does
        cancelled.cancel()
        wait_for(lambda: killed.poll() is not None and cancelled.poll() is not None, 120)
        assert killed.poll() == FAILED and cancelled.poll() == -signal.SIGTERM
    assert "it is in Slurm's queue no more and left no result" in (tmp_path / "killed").read_text()
    assert not set(jobs("PENDING,RUNNING")) & {killed.job.job_id, cancelled.job.job_id}
    record_property("faults", 2)
