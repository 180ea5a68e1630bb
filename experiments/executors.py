"""Where commands run: in processes of this machine, on Slurm or on Ray, behind one submit, poll and cancel."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from experiments.checkout import Checkout

PR_SET_PDEATHSIG = 1  # from Linux's prctl.h
EXTRAS = {"slurm": "cluster", "ray": "ray"}  # of pyproject.toml


@dataclass(frozen=True)
class Command:
    """`python WORDS...` in a folder; what it prints is added to `log`."""

    words: tuple[str, ...]
    log: Path
    folder: Path = field(default_factory=Path.cwd)

    def start(self, code: Checkout) -> subprocess.Popen[bytes]:
        """As a process of its own, which is asked to stop when this one ends."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as log:
            return subprocess.Popen(
                [sys.executable, *self.words],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=environment(code),
                start_new_session=True,
                preexec_fn=stop_with_parent,
            )


class Job(Protocol):
    def poll(self) -> int | None:
        """Its exit code; None while it waits or runs."""

    def cancel(self) -> None:
        """Ask it to save itself and to end."""


class Executor(Protocol):
    """A context: left, nothing of it is there any more. at_once: how many jobs it should be given at a time"""

    at_once: int

    def submit(self, command: Command) -> Job: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None: ...


def open_executor(options: Mapping[str, Any], code: Checkout, name: str, folder: Path) -> Executor:
    """What a file of conf/cluster says.

    name    of the jobs, where others see them
    folder  where they may leave what is needed between two looks at them
    """
    engine = options["engine"]
    try:
        if engine == "slurm":
            from experiments.on_slurm import Slurm

            return Slurm(options, code, name, folder)
        if engine == "ray":
            from experiments.on_ray import Ray

            return Ray(options, code, name)
    except ModuleNotFoundError as error:
        from dab.engine.config import ConfigError

        install = f"pip install -e '.[{EXTRAS[engine]}]' -c constraints.txt"
        raise ConfigError(f"cluster={engine} needs {error.name}: {install}") from error
    from experiments.pool import Pool

    return Pool(options["at_once"], code)


def environment(code: Checkout) -> dict[str, str]:
    """Its modules first, and one thread unless somebody said otherwise."""
    return {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(code.root)}


def stop_with_parent() -> None:
    """In a new process: be asked to stop when its parent is gone, even if that was killed. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
