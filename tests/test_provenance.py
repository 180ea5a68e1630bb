"""A record says from which code its numbers come, and whether it stayed the same from the first start to the end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dab.engine import provenance
from dab.engine.launch import launch
from dab.engine.run import Run
from dab.tasks.sorting import SortingTask


@pytest.fixture
def git(tmp_path, monkeypatch) -> Callable[..., str]:
    """A checkout with one package file, committed, taken for ours; git("commit", ...) works on it."""
    root = tmp_path / "checkout"
    (root / "dab").mkdir(parents=True)

    def run(*words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", "-C", str(root), *identity, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    (root / "dab/bridge.py").write_text("x = 1\n")
    (root / ".gitignore").write_text("runs/\n")
    run("init", "-q")
    run("add", "-A")
    run("commit", "-qm", "one")
    monkeypatch.setattr(provenance, "ROOT", root)
    monkeypatch.setattr(provenance, "PACKAGE", root / "dab")
    return run


def test_dirty_counts_new_files_and_not_ignored_ones(git) -> None:
    clean = provenance.provenance()
    assert (clean["commit"], clean["dirty"]) == (git("rev-parse", "HEAD"), False)
    assert clean["torch"] == torch.__version__
    (provenance.ROOT / "runs").mkdir()
    (provenance.ROOT / "runs/x.json").write_text("{}")
    assert provenance.provenance()["dirty"] is False
    (provenance.ROOT / "dab/new.py").write_text("y = 2\n")
    dirty = provenance.provenance()
    assert dirty["dirty"] is True and dirty["sources"] != clean["sources"]
    (provenance.ROOT / "dab/bridge.py").write_text("x = 3\n")
    assert provenance.provenance()["sources"] != dirty["sources"]  # two dirty states are two states


def test_without_git_nothing_is_claimed(git, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    found = provenance.provenance()
    assert found["commit"] is None and found["dirty"] is None and found["sources"]


def edit(folder: Path) -> None:
    (folder / "bridge.py").write_text("x = 2\n")


def commit(folder: Path) -> None:
    subprocess.run(
        ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "two"]
    )


@pytest.mark.parametrize("change", [None, edit, commit], ids=["nothing", "edit", "commit"])
def test_code_that_changes_under_a_run_is_in_its_record(change, git, config, monkeypatch, no_curves) -> None:
    measure = SortingTask.measure

    def meanwhile(self, batch):
        if change is not None:
            change(provenance.PACKAGE)
        return measure(self, batch)

    monkeypatch.setattr(SortingTask, "measure", meanwhile)
    made, first = config("data.valid_size=50", "data.test_size=50", "trainer.steps=2"), git("rev-parse", "HEAD")
    assert launch(made) == 0
    found = Run(made).result["provenance"]
    assert found["changed"] is (change is not None)
    assert found["start"]["commit"] == first and found["start"]["dirty"] is False and found["resumed"] == []
    assert found["end"]["commit"] == git("rev-parse", "HEAD") and found["end"]["dirty"] is (change is edit)


def test_a_run_resumed_from_another_commit_says_so_even_if_it_ends_at_the_first(git, config, tmp_path) -> None:
    made = config()
    first = git("rev-parse", "HEAD")
    provenance.note_start(tmp_path, made)
    provenance.note_start(tmp_path, made)
    assert provenance.whole(tmp_path)["changed"] is False
    git("commit", "--allow-empty", "-qm", "two")
    provenance.note_start(tmp_path, made)
    second = git("rev-parse", "HEAD")
    git("checkout", "-q", first)
    found = provenance.whole(tmp_path)
    assert [start["commit"] for start in found["resumed"]] == [first, second]
    assert found["start"]["commit"] == found["end"]["commit"] == first and found["changed"] is True
