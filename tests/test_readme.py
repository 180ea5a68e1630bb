"""The README does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dab.engine.compose import check_sweep, resolve

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


SEEDED = "import torch; torch.manual_seed(0)\n"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_library_example_trains_as_written() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SEEDED + blocks("python")[0]], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < 0.35  # guessing is 0.69


def test_the_example_needs_its_bridge() -> None:
    """The same example with nothing coming back through the signum learns far less."""
    broken = blocks("python")[0].replace("bridge(before(x))", "bridge(before(x).detach())")
    assert broken != blocks("python")[0]
    done = subprocess.run([sys.executable, "-c", SEEDED + broken], capture_output=True, text=True, cwd=ROOT)
    assert float(done.stdout.split()[-1]) > 0.45


def test_the_hard_function_example_works() -> None:
    space: dict = {}
    exec(blocks("python")[1], space)
    z = torch.randn(4, 3)
    assert torch.equal(space["Floor"]()(z), z.floor())


def test_every_override_in_the_table_composes() -> None:
    rows = re.findall(r"^\| (`.*?`.*?) \|", README, flags=re.MULTILINE)
    commands = [c for row in rows for c in re.findall(r"`([^`]+)`", row) if "=" in c]
    assert len(commands) > 12
    for command in commands:
        words = [word for word in command.split() if word != "-m" and "..." not in word]
        (check_sweep if "-m" in command else resolve)(ROOT / "conf", words)


def test_every_make_target_named_in_the_readme_exists() -> None:
    named = set(re.findall(r"make ([a-z0-9-]+)", README))
    defined = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert named and named <= defined


@pytest.mark.parametrize("target", ["train", "test", "lint", "bench", "clean", "help"])
def test_make_help_documents_every_target(target: str) -> None:
    done = subprocess.run(["make", "-s", "help"], capture_output=True, text=True, cwd=ROOT)
    assert re.search(rf"make {target}\s+\S", done.stdout)
