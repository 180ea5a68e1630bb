"""A record says from which code its numbers come, and whether it stayed the same from the first start to the end."""

from __future__ import annotations

import contextlib
import inspect
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import faults
import pytest
import torch
from faults import Killed, killed_at_step

import dab
from dab.engine import provenance, sources
from dab.engine.launch import CHANGED, launch
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


@pytest.mark.parametrize("change", [None, edit, commit], ids=["nothing", "edit", "commit alone"])
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
    assert found["changed"] is (change is edit)
    assert found["start"]["commit"] == first and found["start"]["dirty"] is False and found["resumed"] == []
    assert found["end"]["commit"] == git("rev-parse", "HEAD") and found["end"]["dirty"] is (change is edit)


@pytest.mark.parametrize("other_code", [False, True])
def test_resuming_from_other_code_is_a_change_from_another_commit_is_not(
    other_code, git, config, tmp_path, monkeypatch
) -> None:
    made = config()
    first = git("rev-parse", "HEAD")
    provenance.note_start(tmp_path, made)
    git("commit", "--allow-empty", "-qm", "two")
    with monkeypatch.context() as patched:
        if other_code:
            patched.setattr(provenance, "in_use", lambda config: {"dab.bridge": "another"})
        provenance.note_start(tmp_path, made)
    second = git("rev-parse", "HEAD")
    provenance.note_start(tmp_path, made)  # the last start and the end are as the first was
    found = provenance.whole(tmp_path)
    assert [start["commit"] for start in found["resumed"]] == [second, second]
    assert found["start"]["commit"] == first and found["changed"] is other_code


def test_the_code_in_use_is_that_of_the_classes_and_of_what_they_import(config) -> None:
    found = sources.in_use(config())
    assert {"dab.hard.signum", "dab.bridge", "dab.nets", "dab.engine.loop", "dab.engine.evaluation"} <= set(found)
    assert not {"dab.models.vae_mlp", "dab.estimators.rebar", "dab.compress", "dab.engine.progress"} & set(found)
    assert "dab.estimators.rebar" in sources.in_use(config("experiment=binarized/rebar"))


@contextlib.contextmanager
def edited(folder: Path, monkeypatch) -> Iterator[None]:
    """As if dab/hard/signum.py had another line."""
    folder.mkdir()
    copy, real = folder / "signum.py", sources._file
    copy.write_text(Path(inspect.getfile(dab.hard.Signum)).read_text() + "# edited\n")
    with monkeypatch.context() as patch:
        patch.setattr(sources, "_file", lambda name: copy if name == "dab.hard.signum" else real(name))
        yield


@contextlib.contextmanager
def another_default(_folder: Path, monkeypatch) -> Iterator[None]:
    """As if gamma had another default: a run does not name what stands at its default, so its name is the same."""
    with monkeypatch.context() as patch:
        patch.setattr(dab.Bridge.__init__.__wrapped__, "__defaults__", (None, 5.0, "released", "l2", None))
        yield


@pytest.mark.parametrize(
    ("change", "named"),
    [(edited, "dab.hard.signum"), (another_default, "estimator.gamma was 10.0, is 5.0")],
    ids=["edited", "default"],
)
def test_a_run_of_other_code_or_options_is_asked_about(change, named, tmp_path, monkeypatch, capsys, no_curves) -> None:
    """Finished or half-way: neither shown nor mixed before the user has chosen."""
    made = faults.job("sorting", tmp_path)
    made["estimator"].pop("gamma")
    with contextlib.suppress(Killed), killed_at_step(5):
        launch(made)
    for state in ("half-way", "finished"):
        capsys.readouterr()
        with change(tmp_path / state, monkeypatch):
            assert launch(made) == CHANGED, state
            said = capsys.readouterr()
            assert named in said.err and "force=true" in said.err and "resume=anyway" in said.err
            assert len(said.err.splitlines()) == 1 and said.out == ""
        assert launch(made) == 0  # as it was: goes on, and is finished
    assert Run(made).result["provenance"]["changed"] is False
    with change(tmp_path / "again", monkeypatch):
        assert launch({**made, "resume": "anyway"}) == 0 and "finished already" in capsys.readouterr().out
        assert launch({**made, "force": True}) == 0 and launch(made) == 0


def test_what_goes_on_anyway_says_so_in_its_record(tmp_path, monkeypatch, no_curves) -> None:
    made = faults.job("sorting", tmp_path)
    with contextlib.suppress(Killed), killed_at_step(5):
        launch(made)
    with edited(tmp_path / "code", monkeypatch):
        assert launch({**made, "resume": "anyway"}) == 0
    result = Run(made).result
    assert result["resumed"] == [4] and result["provenance"]["changed"] is True
    (resumed,) = result["provenance"]["resumed"]
    assert resumed["code"] != result["provenance"]["start"]["code"]


def test_a_run_that_nobody_noted_the_code_of_goes_on(tmp_path, no_curves) -> None:
    """Those of older versions."""
    made = faults.job("sorting", tmp_path)
    with contextlib.suppress(Killed), killed_at_step(5):
        launch(made)
    start = provenance.starts(Run(made).dir)[0]
    old = {"starts": [{name: value for name, value in start.items() if name not in ("code", "options")}]}
    provenance.write_json(Run(made).dir / provenance.NAME, old)
    assert launch(made) == 0 and Run(made).result["provenance"]["changed"] is False
