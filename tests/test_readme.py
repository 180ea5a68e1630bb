"""The README and the documentation do what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from dab.engine.compose import check_sweep, resolve
from experiments import report

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
TRAINING = (ROOT / "docs/TRAINING.md").read_text()
COMMAND = re.compile(r"^    ((?:make|pip|python|dab-)\b.*)$", re.MULTILINE)

ADDED = ("hard=floor", "estimator=noisy", "experiment=mine")
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


def test_the_estimator_example_works() -> None:
    space: dict = {}
    exec(blocks("python")[3], space)
    z = torch.tensor([[0.5, -2, 1e9]] * 4, requires_grad=True)
    y, penalty = space["Noisy"](torch.sign)(z)
    y.sum().backward()
    assert torch.equal(y.detach(), z.detach().sign()) and penalty.tolist() == [0] * 4
    assert z.grad is not None and z.grad.shape == z.shape


@pytest.fixture(scope="module")
def with_additions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is trained with, and in it the files that the README says to add, as it has them."""
    folder = tmp_path_factory.mktemp("added")
    for name in ("dab", "conf", "hydra_plugins"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "train.py", folder)
    yaml = [textwrap.dedent(text) for text in re.findall(r"^    # conf/.*\n(?:    .*\n)+", README, flags=re.MULTILINE)]
    added = [text for text in (*blocks("python"), *yaml) if re.match(r"# (dab|conf)/", text)]
    assert len(added) == 7
    for text in added:
        first, _, rest = text.partition("\n")
        (folder / first.removeprefix("# ")).write_text(rest)
    for split in ("train", "valid", "test"):
        x, y = np.zeros((32, 1, 4, 4), np.uint8), np.arange(32) % 10
        np.savez(folder / f"{split}.npz", x=x, y=y)
    return folder


@pytest.mark.parametrize("choice", ADDED)
def test_what_the_readme_adds_trains(choice: str, with_additions: Path) -> None:
    (line,) = [line for line in COMMAND.findall(README) if choice in line]
    words = line.partition("#")[0].replace("FOLDER", str(with_additions)).split()[1:]
    short = ["scale=smoke", "trainer.steps=2", f"paths.runs={with_additions}/runs", "logger=none"]
    environment = os.environ | {"PYTHONPATH": str(with_additions), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words, *short], cwd=with_additions, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_is_short_and_every_command_in_it_says_what_it_costs() -> None:
    """What cannot be run in a test: the reader knows before it is typed."""
    assert len(README.splitlines()) < 250
    commands = COMMAND.findall(README)
    assert len(commands) > 12
    assert not [line for line in commands if not re.search(r"#.*(second|minute|hour|day)", line)]
    for line in commands:
        if line.startswith("python train.py") and "trust=" not in line and not any(word in line for word in ADDED):
            words = line.partition("#")[0].split()[2:]
            (check_sweep if "-m" in words else resolve)(ROOT / "conf", [word for word in words if word != "-m"])


def test_the_results_in_the_readme_are_fifteen_lines_at_most() -> None:
    block = README.partition("<!-- results, generated -->")[2].partition("<!-- end of results -->")[0]
    assert 5 < len(block.strip().splitlines()) <= 15


def test_the_method_names_tests_that_exist() -> None:
    method = (ROOT / "docs/METHOD.md").read_text()
    linked = re.split(r"\(\.\./tests/(test_\w+\.py)\)", method)[1:]  # a file, and what is said until the next one
    for file, text in zip(linked[::2], linked[1::2]):
        defined = set(re.findall(r"^def (test_\w+)", (ROOT / "tests" / file).read_text(), re.MULTILINE))
        named = set(re.findall(r"`(test_\w+)`", text))
        assert named and named <= defined, file
    assert len(re.findall(r"`test_\w+`", method)) > 15


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:\s]+)\)", page.read_text())
    assert not [target for target in targets if not (page.parent / target).exists()]


def test_every_picture_is_shown_somewhere() -> None:
    text = README + "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    pictures = [path.name for path in (ROOT / "docs/figures").iterdir() if path.suffix != ".json"]
    assert len(pictures) > 15 and not [name for name in pictures if f"figures/{name}" not in text]


def test_every_override_in_the_table_composes() -> None:
    rows = re.findall(r"^\| (`.*?`.*?) \|", TRAINING, flags=re.MULTILINE)
    commands = [c for row in rows for c in re.findall(r"`([^`]+)`", row) if "=" in c]
    assert len(commands) > 12
    for command in commands:
        words = [word for word in command.split() if word != "-m" and "..." not in word]
        (check_sweep if "-m" in command else resolve)(ROOT / "conf", words)


def test_every_make_target_that_is_named_exists() -> None:
    named = set(re.findall(r"^    make ([a-z0-9-]+)|`make ([a-z0-9-]+)", README + TRAINING, flags=re.MULTILINE))
    named = {target for pair in named for target in pair if target}
    defined = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert named and named <= defined


@pytest.mark.parametrize("target", ["demo", "train", "test", "lint", "docs", "reproduce", "bench", "clean", "help"])
def test_make_help_documents_every_target(target: str) -> None:
    done = subprocess.run(["make", "-s", "help"], capture_output=True, text=True, cwd=ROOT)
    assert re.search(rf"make {target}\s+\S", done.stdout)


@pytest.mark.parametrize("scale", ["smoke", "cpu", "paper"])
def test_make_reproduce_runs_every_study_that_has_something_to_run_and_ends_with_the_report(scale: str) -> None:
    done = subprocess.run(["make", "-n", "reproduce", f"SCALE={scale}"], capture_output=True, text=True, cwd=ROOT)
    (listed,) = re.findall(r"for study in (.*?); do", done.stdout)
    assert listed.split() == [name for name, study in report.STUDIES.items() if study.cells(scale)]
    assert "experiments.site" in done.stdout.partition("done;")[2]
