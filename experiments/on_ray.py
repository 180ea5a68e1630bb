"""Commands as tasks of Ray. One whose worker or node dies is started again by Ray, and goes on from its checkpoint."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray

from dab.engine.config import ConfigError
from dab.engine.exits import BUSY, FAILED
from experiments.checkout import Checkout
from experiments.executors import Command

LOCK_SECONDS = 60.0  # what the command of a dead worker may take to save itself and to let go of its run


class Ray:
    """At most `at_once` tasks; Ray runs those that fit."""

    def __init__(self, options: Mapping[str, Any], code: Checkout, name: str):
        self.at_once, self.code = options["at_once"], code
        address = options["address"]
        try:
            ray.init(address=address, log_to_driver=False, include_dashboard=False if address == "local" else None)
        except ConnectionError as error:
            raise ConfigError(
                f"cluster.address={address}: no Ray cluster answers ({error}); `ray start --head` starts one, "
                "cluster.address=local uses this machine alone"
            ) from error
        needs = {"num_cpus": options["cpus"], "num_gpus": options["gpus"], "max_retries": options["restarts"]}
        self._run = ray.remote(run).options(name=name, **needs)

    def submit(self, command: Command) -> Task:
        return Task(self._run.remote(command, self.code), command.log)

    def __enter__(self) -> Ray:
        return self

    def __exit__(self, *_: object) -> None:
        ray.shutdown()


class Task:
    """A task of Ray."""

    def __init__(self, reference: ray.ObjectRef[int], log: Path):
        self.reference, self.log = reference, log

    def poll(self) -> int | None:
        ready, _ = ray.wait([self.reference], timeout=0)
        if not ready:
            return None
        try:
            return ray.get(self.reference)
        except ray.exceptions.TaskCancelledError:
            return 128 + signal.SIGTERM
        except ray.exceptions.RayError as error:  # its worker died once too often, or its node is gone
            with open(self.log, "a") as log:
                print(f"Ray: {' '.join(str(error).split())}", file=log)
            return FAILED

    def cancel(self) -> None:
        ray.cancel(self.reference, force=False)


def run(command: Command, code: Checkout) -> int:
    """In a worker of Ray: the command's exit code. Cancelled (KeyboardInterrupt), the command is asked to save itself.

    The command of a worker that died is asked to stop too, and its run is its own until it has: then BUSY is no answer.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        exit_code = _wait(command.start(code))
        if exit_code != BUSY or time.monotonic() > deadline:
            return exit_code
        time.sleep(1.0)


def _wait(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGTERM)
        return process.wait()
