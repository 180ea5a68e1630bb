"""Processes that start in a tenth of a second: forked from a server that has imported all there is to import once."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from dab.engine.distributed import _child
from dab.engine.launch import work
from dab.engine.run import Run

ROOT = Path(__file__).resolve().parents[1]
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    ["dab.engine.launch", "hydra", "torch.distributed", "matplotlib.figure", "sklearn.datasets"]
)


def start(output: Path, target: Callable[..., Any], *arguments: Any) -> BaseProcess:
    """A new process that calls target(*arguments); what it prints goes to `output` and `output`.err."""
    output.parent.mkdir(parents=True, exist_ok=True)
    process = SERVER.Process(target=_call, args=(str(output), dict(os.environ), target, arguments))
    process.start()
    return process


def command_line(words: Sequence[str]) -> None:
    """What `python train.py WORDS...` does."""
    sys.argv = [str(ROOT / "train.py"), *words]
    runpy.run_path(sys.argv[0], run_name="__main__")


def run(words: Sequence[str], output: Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """`python train.py WORDS...` to its end."""
    process = start(output, command_line, words)
    process.join(timeout)
    assert process.exitcode is not None, f"train.py {' '.join(words)} takes more than {timeout} s"
    return subprocess.CompletedProcess(words, process.exitcode, *(f.read_text() for f in _files(str(output))))


def check_as_in_a_pool(words: Sequence[str], runs: Iterable[Run], folder: Path) -> None:
    """`python train.py -m WORDS...` on this machine gives these runs' weights and metrics, bit for bit."""
    here = run(["-m", *words, f"paths.runs={folder}/here", "cluster=pool"], folder / "pool")
    assert here.returncode == 0, here.stderr
    for there in runs:
        alone = Run({**there.config, "paths": {**there.config["paths"], "runs": f"{folder}/here"}}).result
        assert there.result["weights"] == alone["weights"] and there.result["metrics"] == alone["metrics"]


def run_workers(config: dict[str, Any], folder: Path, world: int = 2) -> list[int | None]:
    """One run on `world` workers; their exit codes."""
    config = {**config, "trainer": {**config["trainer"], "devices": world}}
    store = f"file://{folder}/rendezvous-{os.urandom(4).hex()}"
    workers = [start(folder / f"worker{rank}", _child, rank, work, config, world, store) for rank in range(world)]
    for worker in workers:
        worker.join(300)
    return [worker.exitcode for worker in workers]


def _call(output: str, environment: dict[str, str], target: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.environ.clear()  # the server's own, of the time when it was started
    os.environ.update(environment)
    for number, path in zip((1, 2), _files(output)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    target(*arguments)


def _files(output: str) -> tuple[Path, Path]:
    return Path(output), Path(f"{output}.err")
