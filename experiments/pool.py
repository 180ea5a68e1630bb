"""Processes of this machine, forked from one that has imported all there is to import.

`python -m experiments.pool` is that one: jobs come in as lines, exit codes go out.
"""

from __future__ import annotations

import importlib
import io
import json
import multiprocessing
import os
import runpy
import select
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from experiments.checkout import Checkout
from experiments.executors import Command, environment, stop_with_parent

GONE = 1  # the exit code of a job that was lost with its server
SERVER_SECONDS = 0.02  # between two looks for jobs that have ended
IMPORTS = (  # what runs and cells come to import, some of it late
    "dab.engine.launch",
    "dab.engine.listing",
    "dab.engine.reference",
    "experiments.report",
    "matplotlib.backends.backend_agg",
    "sklearn.datasets",
    "torch._dynamo",  # every optimizer does
)


class Pool:
    """At most `at_once` jobs at a time. Where there are several and GPUs, each has one GPU, in turn."""

    def __init__(self, at_once: int, code: Checkout):
        self.at_once, self.code = at_once, code
        self._devices = devices() if at_once > 1 else []
        self._server: _Server | None = None
        self._taken: dict[int, Forked] = {}  # by slot

    def submit(self, command: Command) -> Forked:
        if self._server is None or self._server.is_gone:
            self._server = _Server(self.code)
        self._taken = {slot: job for slot, job in self._taken.items() if job.poll() is None}
        slot = next(slot for slot in range(len(self._taken) + 1) if slot not in self._taken)
        device = self._devices[slot % len(self._devices)] if self._devices else None
        self._taken[slot] = self._server.start(command, device)
        return self._taken[slot]

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()


def devices() -> list[str]:
    """The GPUs that a process may use, without waking them: after that nothing could be forked."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return [name for name in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if name]
    if shutil.which("nvidia-smi") is None:
        return []
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True)
    return [str(number) for number in range(len(listed.stdout.splitlines()))] if listed.returncode == 0 else []


@dataclass(frozen=True)
class Forked:
    """A job of the pool."""

    server: _Server
    number: int

    def poll(self) -> int | None:
        return self.server.code_of(self.number)

    def cancel(self) -> None:
        self.server.send({"cancel": self.number})


class _Server:
    """The process that forks. It runs the commit's code, and ends when its input does."""

    def __init__(self, code: Checkout):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "experiments.pool"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=code.root,
            env=environment(code),
            start_new_session=True,  # Ctrl-C is for the campaign, which passes it on
            preexec_fn=stop_with_parent,
            pass_fds=() if code.lock is None else (code.lock,),  # a run may outlive its campaign
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        os.set_blocking(self._from.fileno(), False)
        self._codes: dict[int, int] = {}
        self._count, self._text = 0, b""

    @property
    def is_gone(self) -> bool:
        return self._process.poll() is not None

    def start(self, command: Command, device: str | None) -> Forked:
        self._count += 1
        command.log.parent.mkdir(parents=True, exist_ok=True)
        self.send({"number": self._count, "words": command.words, "log": str(command.log.resolve()),
                   "folder": str(command.folder), "device": device})  # fmt: skip
        return Forked(self, self._count)

    def send(self, message: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # it is gone, and so are its jobs: poll tells
            self._to.write(json.dumps(message).encode() + b"\n")
            self._to.flush()

    def code_of(self, number: int) -> int | None:
        gone = self.is_gone  # asked first: what it said before that is there to be read
        while piece := self._from.read():
            self._text += piece
        *lines, self._text = self._text.split(b"\n")
        self._codes |= {said["number"]: said["code"] for said in map(json.loads, lines)}
        return self._codes.get(number, GONE if gone else None)

    def close(self) -> None:
        with suppress(BrokenPipeError):
            self._to.close()
        self._process.wait()
        self._from.close()


def warm_up(conf: Path) -> None:
    """What every run would do first. Whatever fails here is for the jobs to tell."""
    with suppress(ImportError):
        for name in IMPORTS:
            importlib.import_module(name)
        from dab.engine.compose import ConfigError, resolve

        with suppress(ConfigError):
            resolve(conf, ["scale=smoke", "trainer.steps=1"])  # Hydra looks for its plugins and makes its parser
        from matplotlib.figure import Figure

        Figure().savefig(io.BytesIO())  # and matplotlib looks for fonts


def serve() -> None:
    warm_up(Path("conf"))
    jobs: dict[int, BaseProcess] = {}
    answers, said, is_open = os.dup(1), b"", True
    os.dup2(2, 1)  # what a library prints is no answer
    while is_open or jobs:
        if is_open and select.select([0], [], [], SERVER_SECONDS)[0]:
            piece = os.read(0, 2**16)
            *lines, said = (said + piece).split(b"\n")
            is_open = bool(piece)
            for message in map(json.loads, lines):
                _obey(message, jobs)
        elif not is_open:
            next(iter(jobs.values())).join(SERVER_SECONDS)
        for number in [number for number, job in jobs.items() if job.exitcode is not None]:
            code = jobs.pop(number).exitcode
            os.write(answers, json.dumps({"number": number, "code": code}).encode() + b"\n")


def _obey(message: dict[str, Any], jobs: dict[int, BaseProcess]) -> None:
    if "cancel" in message:
        if message["cancel"] in jobs:
            jobs[message["cancel"]].terminate()
        return
    job = multiprocessing.get_context("fork").Process(target=_call, kwargs=message)
    jobs[message["number"]] = job
    job.start()


def _call(number: int, words: list[str], log: str, folder: str, device: str | None) -> None:
    """What `python WORDS...` does, in a process that has just been forked."""
    os.setsid()
    stop_with_parent()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    if device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    serve()
