"""Shared fixtures: real composed configs at smoke scale, in a directory of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import processes
import pytest
import torch

from dab.engine import lock
from dab.engine.compose import resolve

ROOT = Path(__file__).resolve().parents[1]
QUIET = ["logger=none", "trainer.threads=1"]

torch.set_num_threads(1)  # two test processes share two cores
lock.OWN_FILE_SYSTEMS.add(lock.file_system(Path(tempfile.gettempdir())))  # whatever it is: no other machine is about


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """config("seed=1", ...) is the checked plain config of that command line, at smoke scale, below tmp_path."""

    return partial(composed, tmp_path)


def composed(folder: Path, *overrides: str, scale: str = "smoke") -> dict[str, Any]:
    return resolve(ROOT / "conf", [f"scale={scale}", *QUIET, f"paths.runs={folder}/runs", *overrides])


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """train("seed=1", ...) runs the real command line in a process of its own."""

    def run(*overrides: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return processes.run(command(tmp_path, *overrides)[2:], tmp_path / "printed", timeout)

    return run


def command(folder: Path, *overrides: str) -> list[str]:
    flags = [word for word in overrides if word.startswith("-")]
    words = ["scale=smoke", *QUIET, f"paths.runs={folder}/runs", *(w for w in overrides if w not in flags)]
    return [sys.executable, str(ROOT / "train.py"), *flags, *words]


@pytest.fixture
def no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing them takes longer than a small training."""
    monkeypatch.setattr("dab.engine.finish.draw_curves", lambda rows, select, path: path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many faults were tried, by the tests that count them."""
    passed = terminalreporter.stats.get("passed", [])
    if count := sum(n for report in passed for name, n in report.user_properties if name == "faults"):
        terminalreporter.write_line(f"faults tried, and nothing lost: {count}")
