"""Commands as jobs of Slurm, through submitit. One that is asked to stop saves itself, queues again and goes on."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import submitit

from dab.engine.config import ConfigError
from dab.engine.exits import FAILED, INTERRUPTED
from dab.engine.stop import SIGNALS
from experiments.checkout import Checkout
from experiments.executors import Command

LOOK_SECONDS = 5.0  # between two questions to Slurm
MISSED = 2  # looks that do not find a job before it is taken for lost: a file may be late on a shared file system
RESTARTS = 100  # a run that never gets further than its start must not queue for ever


class Slurm:
    """At most `at_once` jobs in the queue."""

    def __init__(self, options: Mapping[str, Any], code: Checkout, name: str, folder: Path):
        self.at_once, self.code = options["at_once"], code
        self._executor = submitit.SlurmExecutor(folder=folder.resolve() / "%j")
        self._executor.update_parameters(**parameters(options, name))
        self._looked, self._queue = -LOOK_SECONDS, set[str]()

    def submit(self, command: Command) -> Queued:
        try:
            return Queued(self, self._executor.submit(run, command, self.code), command.log)
        except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError, OSError) as error:
            raise ConfigError(f"Slurm refuses the job: {' '.join(str(error).split())}") from error

    def queue(self) -> tuple[float, set[str]]:
        """When it was last looked at, and the jobs that wait or run in it."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            asked = subprocess.run(["squeue", "--me", "--noheader", "--format=%A"], capture_output=True, text=True)
            if asked.returncode == 0:  # else Slurm is busy or down: that is no news of the jobs
                self._queue, self._looked = set(asked.stdout.split()), time.monotonic()
        return self._looked, self._queue

    def __enter__(self) -> Slurm:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to do: whoever leaves has waited for the jobs, or has cancelled them."""


def parameters(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    """sbatch's, from those of conf/cluster/slurm.yaml."""
    given = {
        "job_name": re.sub(r"[^\w.-]+", "-", name),
        "time": options["minutes"],
        "signal_delay_s": options["warning"],
        "cpus_per_task": options["cpus"],
        "srun_args": [f"--cpus-per-task={options['cpus']}"],  # it does not ask sbatch for them
        "ntasks_per_node": 1,
        "partition": options["partition"],
        "account": options["account"],
        "qos": options["qos"],
        "gpus_per_node": options["gpus"] or None,
        "mem": None if options["memory"] is None else f"{int(1024 * options['memory'])}M",
        "additional_parameters": {"requeue": True},
    }
    return {key: value for key, value in given.items() if value is not None}


class Queued:
    """A job of Slurm."""

    def __init__(self, slurm: Slurm, job: submitit.Job[int], log: Path):
        self.slurm, self.job, self.log = slurm, job, log
        self._seen, self._missed = time.monotonic(), 0

    def poll(self) -> int | None:
        """By the result that it leaves; a job that Slurm has forgotten and that left none is lost."""
        if self.job.paths.result_pickle.exists():
            try:
                return self.job.results()[0]
            except Exception as error:  # of the job: it came with its traceback
                return self._lost(str(error))
        looked, queue = self.slurm.queue()
        if looked > self._seen:
            self._seen, self._missed = looked, 0 if self.job.job_id in queue else self._missed + 1
        return self._lost("it is in Slurm's queue no more and left no result") if self._missed >= MISSED else None

    def _lost(self, reason: str) -> int:
        with open(self.log, "a") as log:
            print(f"job {self.job.job_id} of Slurm: {reason}; see {self.job.paths.stderr}", file=log)
        return FAILED

    def cancel(self) -> None:
        self.job.cancel(check=False)


@dataclass
class _Asked:
    """Passes on what Slurm sends, so that the command saves itself."""

    process: subprocess.Popen[bytes]
    number: int = 0

    def __call__(self, number: int, _frame: object) -> None:
        self.number = number
        self.process.send_signal(signal.SIGTERM)


def run(command: Command, code: Checkout) -> int:
    """In a job of Slurm: the command's exit code. Interrupted, it queues again instead, unless it was cancelled."""
    if code.commit is not None:
        lock = open(code.root.with_name(f"{code.commit}.lock"))  # noqa: SIM115  (as long as this process)
        fcntl.flock(lock, fcntl.LOCK_SH)
    restarts = int(os.environ.get("SLURM_RESTART_COUNT", 0))
    print(f"start {restarts + 1} of job {_me()}: {' '.join(command.words)}", flush=True)
    process = command.start(code)
    asked = _Asked(process)
    for number in SIGNALS:
        signal.signal(number, asked)
    exit_code = process.wait()
    print(f"start {restarts + 1} of job {_me()} ends with {exit_code}", flush=True)
    if not (exit_code > INTERRUPTED or (exit_code < 0 and asked.number)) or restarts >= RESTARTS:
        return exit_code
    state, queued = _shown("JobState"), int(_shown("Restarts") or 0) > restarts
    why = signal.Signals(asked.number or signal.SIGTERM).name
    print(f"asked to stop by {why}; Slurm calls it {state}{', and has queued it again' * queued}", flush=True)
    if not queued and state != "RUNNING":  # somebody wants it to end, or its time is up without a warning
        return exit_code
    if not queued:
        subprocess.run(["scontrol", "requeue", _me()], check=True)
    sys.exit(exit_code)  # without a result: the job is not over


def _me() -> str:
    return os.environ["SLURM_JOB_ID"]


def _shown(name: str) -> str:
    """What Slurm knows of this job."""
    shown = subprocess.run(["scontrol", "show", "job", _me()], capture_output=True, text=True).stdout
    found = re.search(rf"\b{name}=(\S+)", shown)
    return found[1] if found else ""
