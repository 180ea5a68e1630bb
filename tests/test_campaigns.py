"""Campaigns: what is run, from which code, and what is kept of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import processes
import pytest

from dab.engine.records import read_json, read_metrics, write_json
from experiments import __main__ as command_line
from experiments.blocks import Table
from experiments.campaign import Campaign, missing, status
from experiments.checkout import checkout, has_uncommitted_code, head
from experiments.estimate import estimate, listed
from experiments.pool import Pool
from experiments.provenance import is_clean
from experiments.report import STUDIES
from experiments.results import Results
from experiments.runs import run_of, state
from experiments.study import COMMITTED, FRESH, OWN, ROOT, Cell, Records, Store, Study
from experiments.trainings import HERE, Trainings

TINY = ("trainer.steps=3", "data.valid_size=50", "data.test_size=50")
LONG = Cell("long", "T5", 0, ("experiment=sorting/straight_through", "trainer.steps=100000", "trainer.log_every=10"))


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch) -> Iterator[tuple[list[Cell], Records]]:
    """Two real cells whose runs and records live below tmp_path."""
    monkeypatch.setattr("experiments.runs.RUNS", tmp_path / "runs")
    run_of.cache_clear()
    cells = [Cell("row", "T5", seed, ("experiment=sorting/straight_through", *TINY)) for seed in (0, 1)]
    yield cells, Records(tmp_path / "results")
    run_of.cache_clear()


def run(cells: list[Cell], folder: Path, at_once: int = 1) -> int:
    """A campaign of what is missing, at smoke scale, below `folder`; its exit code."""
    kind, records = Trainings("smoke", folder / "runs"), Records(folder / "results")
    with Pool(at_once, HERE) as pool:
        return Campaign("tiny", missing(cells, kind, records), kind, records).run(pool)


def test_a_campaign_runs_what_is_missing_and_a_second_one_nothing(tiny, tmp_path: Path, capsys) -> None:
    """And a failing cell is told and does not stop the others; one that is being trained elsewhere is waited for."""
    cells, records = tiny
    bad = Cell("bad", "T5", 0, ("optimizer.lr=1e30", "trainer.steps=20"))
    assert status([bad, *cells], "smoke", records).endswith("3 missing")
    run_of(cells[0], "smoke").acquire()
    threading.Timer(1.0, run_of(cells[0], "smoke").release).start()
    assert run([bad, *cells], tmp_path, at_once=2) == 1
    assert [state(cell, "smoke", records) for cell in (bad, *cells)] == ["failed", "done", "done"]
    told = capsys.readouterr().out
    assert "bad.T5.seed0: exit 1, see" in told and "[3/3]" in told
    assert told.count("row.T5.seed0: another process is training it; waiting for its end") == 1
    assert "1 of 3 cells failed" in told and "  bad.T5.seed0: run failed: the loss stopped being finite" in told
    summary = read_json(tmp_path / "runs/campaign-logs/smoke.tiny.summary.json")
    assert list(summary["failed"]) == ["bad.T5.seed0"]
    assert run_of(bad, "smoke").status["traceback"] == summary["failed"]["bad.T5.seed0"]["traceback"] != ""
    assert "failed       bad.T5.seed0: run failed" in status([bad, *cells], "smoke", records)
    assert missing([bad, *cells], Trainings("smoke", tmp_path / "runs"), records) == [bad]
    results = Results(records, cells, "smoke")
    assert set(results.at("row", "T5").records) == {0, 1}


def test_a_changed_configuration_makes_a_record_stale(tiny) -> None:
    (cell, _), records = tiny
    records.folder.mkdir()
    records.path(cell).write_text(json.dumps({"hash": run_of(cell, "smoke").hash}))
    assert state(cell, "smoke", records) == "done"
    assert state(Cell("row", "T5", 0, (*cell.overrides, "optimizer.lr=0.1")), "smoke", records) == "stale"


def test_an_interrupted_campaign_saves_its_runs(tiny, tmp_path: Path) -> None:
    _, records = tiny
    trained, over = run_of(LONG, "smoke"), threading.Event()

    def stop_once_it_trains() -> None:
        while not over.wait(0.1):
            if read_metrics(trained.dir / "metrics.jsonl"):
                os.kill(os.getpid(), signal.SIGTERM)
                return

    watcher = threading.Thread(target=stop_once_it_trains, daemon=True)
    watcher.start()
    try:
        assert run([LONG], tmp_path) == 128 + signal.SIGTERM
    finally:
        over.set()
        watcher.join()
    assert (trained.dir / "checkpoint.pt").exists()
    assert state(LONG, "smoke", records) == "interrupted"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_a_campaign_that_is_killed_leaves_nothing_running(tiny, tmp_path) -> None:
    """Its run is asked to stop, saves itself, and is free for the next campaign."""
    _, records = tiny
    trained, deadline = run_of(LONG, "smoke"), time.monotonic() + 120
    process = processes.start(tmp_path / "printed", run, [LONG], tmp_path)
    while not read_metrics(trained.dir / "metrics.jsonl") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert trained.is_locked()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    while trained.is_locked() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not trained.is_locked() and trained.status["state"] == "interrupted"
    assert (trained.dir / "checkpoint.pt").exists()
    assert state(LONG, "smoke", records) == "interrupted"


# A train.py without an engine: it says which `dab` it imports, how it was called, and that its code was committed.
TRAIN = """
import json, os, pathlib, sys
import dab
run = pathlib.Path(os.environ["RUN_DIR"])
run.mkdir(parents=True, exist_ok=True)
stamp = {"commit": "abc", "dirty": False, "command": " ".join(sys.argv)}
record = {"provenance": {"start": stamp, "end": stamp, "changed": False}, "version": dab.VERSION, "from": dab.__file__}
record |= {"best": {"metric": "valid/a"}, "metrics": {"test/a": 1.0}, "seconds": 1.0, "hash": run.name}
(run / "result.json").write_text(json.dumps(record))
"""


def git(folder: Path, *arguments: str) -> str:
    name = ["-c", "user.name=n", "-c", "user.email=e@x"]
    return subprocess.run(["git", "-C", folder, *name, *arguments], check=True, capture_output=True, text=True).stdout


def commit(folder: Path, version: str) -> str:
    (folder / "dab/__init__.py").write_text(f"VERSION = {version!r}\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", version)
    return head(folder)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small git repository that can be trained from."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root = tmp_path / "root"
    (root / "dab").mkdir(parents=True)
    (root / "train.py").write_text(TRAIN)
    (root / ".gitignore").write_text("/runs\n__pycache__\n")
    git(root, "init", "-q")
    commit(root, "first")
    return root


@pytest.fixture
def campaign(repository: Path, tiny, monkeypatch) -> Callable[..., tuple[int, dict]]:
    """Run one cell from the command line, in the small repository: (exit code, its record)."""
    (cell, _), records = tiny
    for module in ("experiments.runs", "experiments.study", "experiments.__main__"):
        monkeypatch.setattr(f"{module}.RUNS", repository / "runs")
    for module in ("experiments.trainings", "experiments.__main__"):
        monkeypatch.setattr(f"{module}.ROOT", repository)
    monkeypatch.setattr("experiments.trainings.DATA", repository / "data")
    monkeypatch.setattr(command_line, "cluster_of", lambda _: {"engine": "pool", "at_once": 1})
    monkeypatch.setattr(Store, "records", lambda *_: records)

    def run(only_dirty: bool = False, name: str | None = None) -> tuple[int, dict]:
        expected = run_of(cell, "cpu").dir
        monkeypatch.setenv("RUN_DIR", str(expected.with_name(name or expected.name)))
        arguments = Namespace(study="sorting", scale="cpu", dry_run=False, only_dirty=only_dirty)
        code = command_line._run(arguments, [cell], OWN)
        return code, records.of(cell)

    return run


def test_a_campaign_trains_the_commit_while_one_goes_on_editing(campaign, repository: Path, capsys) -> None:
    (repository / "dab/__init__.py").write_text("VERSION = 'edited'\n")
    code, record = campaign()
    assert (code, record["version"]) == (0, "first")
    assert record["from"] == f"runs/checkouts/{head(repository)}/dab/__init__.py"
    assert f"running commit {head(repository)[:7]}; uncommitted changes are not in it" in capsys.readouterr().out
    command = record["provenance"]["start"]["command"]
    assert "paths" not in command and "force" not in command and "trainer.steps=3" in command
    assert str(repository) not in json.dumps(record)


def test_a_run_that_another_study_has_is_taken_from_there(campaign, tiny, monkeypatch, capsys) -> None:
    (cell, _), records = tiny
    other = replace(cell, row="the same by another name")
    has_it = Study("other", lambda _: [other], lambda _: [], lambda _: Table((), ()))
    monkeypatch.setattr(command_line.report, "STUDIES", {**STUDIES, "other": has_it})
    kept = {"hash": run_of(cell, "cpu").hash, "seconds": 1.0, "trained": "elsewhere"}
    records.folder.mkdir()
    write_json(records.path(other), kept)
    assert campaign() == (0, kept)
    assert "1 of them other studies have trained" in capsys.readouterr().out


def test_only_dirty_trains_again_what_uncommitted_code_has_trained(campaign, tiny) -> None:
    (cell, _), records = tiny
    assert campaign(only_dirty=True) == (0, None)  # what is missing is not asked for
    campaign()
    run, clean = run_of(cell, "cpu"), records.path(cell).read_text()
    for path in (records.path(cell), run.dir / "result.json"):
        dirty = json.loads(path.read_text()) | {"provenance": {"commit": "abc", "dirty": True}, "version": "old"}
        path.write_text(json.dumps(dirty))
    assert campaign()[1]["version"] == "old"  # done is done, unless it is asked for
    code, record = campaign(only_dirty=True)
    assert code == 0 and is_clean(record) and record["version"] == "first"
    assert "force=true" in record["provenance"]["start"]["command"]
    records.path(cell).write_text(json.dumps(dirty))
    (run.dir / "result.json").unlink()  # interrupted: it must go on, not start over
    assert campaign(only_dirty=True)[1] == json.loads(clean)


def test_a_run_that_the_commit_calls_otherwise_is_not_taken_for_the_cell(campaign, capsys) -> None:
    assert campaign(name="another-hash") == (1, None)
    assert "commit first" in capsys.readouterr().out


def test_checkouts_come_and_go_with_their_use(repository: Path) -> None:
    folder = repository / "runs" / "checkouts"
    with checkout(repository, folder) as first:
        assert first.root == folder / first.commit and (first.root / "train.py").exists()
        commit(repository, "second")
        with checkout(repository, folder) as second:
            assert first.root.exists() and second.root.exists()
        run = subprocess.Popen(["sleep", "60"], pass_fds=(first.lock,))
    with checkout(repository, folder):
        assert first.root.exists()  # a run is still using it, though its campaign is gone
    run.kill()
    run.wait()
    with checkout(repository, folder) as again:
        assert again.root == second.root and not first.root.exists()
        (again.root / "dab/__init__.py").write_text("spoiled")
    with checkout(repository, folder) as again:
        assert "second" in (again.root / "dab/__init__.py").read_text()
    shutil.rmtree(repository / "runs")
    with checkout(repository, folder) as again:
        assert (again.root / "train.py").exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 2


def test_without_a_repository_a_campaign_trains_where_it_is(repository: Path) -> None:
    unpacked = repository / "unpacked"  # a tarball below somebody else's repository
    unpacked.mkdir()
    with checkout(unpacked, unpacked / "runs/checkouts") as code:
        assert (code.root, code.commit, code.lock) == (unpacked, None, None)
    assert not (unpacked / "runs").exists()


def test_uncommitted_code_is_what_a_run_is_made_of(repository: Path) -> None:
    (repository / "README.md").write_text("words")
    assert not has_uncommitted_code(repository)
    (repository / "dab/new.py").write_text("code")
    assert has_uncommitted_code(repository)


def test_status_from_the_command_line(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["experiments", "sorting", "--status", "--only", "argsort", "oracle"])
    assert command_line.main() == 0
    assert "oracle-argsort.T5.seed0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sorting", "--only", "nope"], "no cell of sorting at scale=cpu has nope in its name, so nothing was done"),
        (["sorting", "--only", "nope", "never"], "no cell of sorting at scale=cpu has nope or never in its"),
        (["imagenet"], "imagenet has no cells at scale=cpu, so nothing was done; it has some at smoke, paper"),
        (["sorting", "--jobs", "0"], "must be a number of at least 1, given 0"),
        (["sorting", "--jobs", "-2"], "must be a number of at least 1, given -2"),
        (["sorting", "--fresh", "--keep"], "not allowed with"),
        (["sorting", "--cluster", "slrum"], "cluster=slrum does not exist; did you mean slurm?"),
        (["sorting", "--cluster", "slurm", "minutes=0"], "cluster.minutes must be a whole number in [1, 2^31)"),
        (["sorting", "--cluster", "local"], "a study on this machine: --cluster pool"),
    ],
)
def test_a_campaign_that_cannot_be_meant_does_nothing_and_says_so(words, says, monkeypatch, capsys) -> None:
    monkeypatch.setattr(command_line.report, "write", lambda *_: pytest.fail("rendered"))
    monkeypatch.setattr("experiments.executors.open_executor", lambda *_: pytest.fail("ran"))
    monkeypatch.setattr(sys, "argv", ["experiments", *words])
    try:
        code = command_line.main()
    except SystemExit as exit:
        code = exit.code
    assert code == 2 and says in capsys.readouterr().err


def test_only_who_asks_for_it_writes_where_git_looks(tiny) -> None:
    (cell, _), _ = tiny
    ignored = ROOT / "runs"
    for store in (OWN, FRESH):
        for study in STUDIES.values():
            for scale in ("smoke", "cpu", "paper"):
                assert store.records(study, scale).path(cell).is_relative_to(ignored)
                assert store.page(scale).is_relative_to(ignored)
    assert COMMITTED.page("cpu") == ROOT / "docs/RESULTS.md"
    assert not FRESH.runs.samefile(OWN.runs) if FRESH.runs.exists() else FRESH.runs != OWN.runs


def test_what_is_committed_is_done_and_one_s_own_comes_first(tmp_path: Path, tiny) -> None:
    (one, two), committed = tiny
    own = Records(tmp_path / "own", committed)
    for records, cell, seconds in ((committed, one, 1), (committed, two, 2), (own, two, 3)):
        records.folder.mkdir(exist_ok=True)
        records.path(cell).write_text(json.dumps({"seconds": seconds}))
    assert [own.of(cell)["seconds"] for cell in (one, two)] == [1, 3]
    assert committed.of(two)["seconds"] == 2


def test_how_long_it_takes_is_told_from_such_runs() -> None:
    cells = [Cell("a", "T5", seed, ()) for seed in (0, 1, 2)] + [Cell("b", "T5", 0, ())]
    known = [(cells[0], 3000.0), (Cell("a", "T9", 0, ()), 9.0)]
    told = estimate(cells, 2, known)
    assert (
        told == "4 runs to do, 2 at a time: about 1 h 15 min, by the records of such runs; 1 without a record to go by"
    )
    assert "about 50.0 min" in estimate(cells[:1], 2, known)  # one run is not faster for two jobs
    assert "no record to tell" in estimate(cells[3:], 2, known)
    lines = [line.split() for line in listed(cells[1:], known).splitlines()]
    assert lines[0] == ["50.0", "min", "a.T5.seed1", "seed=1"] and lines[2][:2] == ["?", "b.T5.seed0"]
    assert lines[-1][:4] == ["1", "h", "40", "min"]


def test_a_dry_run_lists_what_is_missing_and_what_it_costs(monkeypatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setattr("experiments.executors.open_executor", lambda *_: pytest.fail("ran"))
    monkeypatch.setattr(command_line.report, "write", lambda *_: pytest.fail("rendered"))
    monkeypatch.setattr(sys, "argv", ["experiments", "sorting", "--only", "oracle", "--fresh", "--dry-run"])
    monkeypatch.setattr("experiments.study.RUNS", tmp_path)
    assert command_line.main() == 0
    told = capsys.readouterr().out
    assert "oracle-argsort.T5.seed0  experiment=sorting/oracle" in told and "runs to do, 2 at a time" in told
