"""A run that dies at any moment, and is started again, is the run that never died: for every task, bit for bit.

What is marked `fault` tries every moment (`make test-all`); the rest is a sample.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import faults
import pytest
import torch
from faults import JOBS, Killed, die, fill, injected, killed_at_step, outcome, placed, tear

from dab.engine import checkpoint
from dab.engine.launch import FAILED, launch
from dab.engine.records import Metrics, read_metrics
from dab.engine.run import Run

STEPS, OPERATIONS, WRITES = 6, 48, 13  # of each job of JOBS; asserted below
BEFORE_THE_END = 39  # the number of the first operation of `finish`


class Tried:
    """One task's run without faults, and what is to be done to others like it."""

    def __init__(self, task: str, folder: Path):
        self.made, self.folder, self.count = faults.job(task, folder), folder, 0
        with injected(folder) as seen:
            assert launch(self.made) == 0
        self.seen, self.wanted = list(seen), outcome(self.made)

    def another(self) -> dict:
        self.count += 1
        return placed(self.made, self.folder / str(self.count))

    def killed(self, *moments: Callable[[], contextlib.AbstractContextManager]) -> None:
        """One run that dies at each of these moments, one after the other, and then ends well."""
        made = self.another()
        for moment in moments:
            with contextlib.suppress(Killed), moment():
                launch(made)
        assert launch(made) == 0
        assert outcome(made) == self.wanted

    def killed_before(self, numbers: Sequence[int], fault: faults.Fault = die) -> None:
        for number in numbers:
            self.killed(lambda number=number: injected(self.folder, number, fault))


@pytest.fixture(scope="module", params=JOBS)
def tried(request, tmp_path_factory) -> Tried:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dab.engine.finish.draw_curves", lambda rows, select, path: path)
        yield Tried(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def sorter(tmp_path, no_curves) -> Tried:
    return Tried("sorting", tmp_path)


def test_the_moments_are_all_there_is(tried) -> None:
    assert len(tried.seen) == OPERATIONS and tried.seen[BEFORE_THE_END] == "fsync model.safetensors.tmp"
    assert sum(name.startswith("fsync") and name.endswith(".tmp") for name in tried.seen) == WRITES
    result = Run(tried.made).result
    if result["name"].startswith(("sorting", "classification")):
        assert result["best"]["step"] < STEPS, "nobody would notice if the last weights were reported for the best"
    assert result["metrics"][result["best"]["metric"]] == result["best"]["value"]
    assert result["resumed"] == result["damage"] == []


def test_a_sample_of_deaths(tried, capsys) -> None:
    tried.killed(lambda: killed_at_step(1), lambda: killed_at_step(3), lambda: killed_at_step(5))  # within one epoch
    assert "resuming at step 2 of 6" in (said := capsys.readouterr().out) and "resuming at step 4 of 6" in said
    assert "resumed at step 2, 4" in said  # and once not at all: the first death came before the first checkpoint
    tried.killed_before([14, 24, BEFORE_THE_END + 1, BEFORE_THE_END + 4])  # around checkpoint, weights and record
    tried.killed_before([23], tear)  # inside the second checkpoint


@pytest.mark.fault
@pytest.mark.timeout(1800)
def test_every_death(tried, record_property) -> None:
    before = tried.count
    for step in range(STEPS):
        tried.killed(lambda step=step: killed_at_step(step))
        tried.killed(lambda step=step: killed_at_step(step), lambda: injected(tried.folder, 14))
    tried.killed_before(range(OPERATIONS))
    tried.killed_before([n for n, name in enumerate(tried.seen) if name.endswith(".tmp")], tear)
    record_property("faults", tried.count - before)


def full_then_free(tried: Tried, numbers: Sequence[int], capsys) -> None:
    for number in numbers:
        made = tried.another()
        with injected(tried.folder, number, fill, lasting=True):
            assert launch(made) == FAILED, tried.seen[number]
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("run failed: ") and "No space left" in line and "free some space" in line
        assert not list(Run(made).dir.rglob("*.tmp"))
        assert Run(made).status["state"] in ("missing", "running", "failed", "finished") and not Run(made).is_locked()
        assert launch(made) == 0 and outcome(made) == tried.wanted


def test_a_full_disk_is_told_and_the_same_command_goes_on(sorter, capsys) -> None:
    full_then_free(sorter, [1, 24, BEFORE_THE_END, BEFORE_THE_END + 3], capsys)


@pytest.mark.fault
def test_a_disk_that_is_full_at_any_operation(sorter, capsys, record_property) -> None:
    full_then_free(sorter, range(OPERATIONS), capsys)
    record_property("faults", OPERATIONS)


def written(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


@pytest.mark.fault
@pytest.mark.timeout(1800)
def test_fifty_random_kills_while_it_saves(tmp_path, no_curves, record_property) -> None:
    made = faults.job("sorting", tmp_path, "trainer.steps=300", "trainer.save_every=1", "trainer.eval_every=7")
    whole = placed(made, tmp_path / "whole")
    assert launch(whole) == 0
    fork = multiprocessing.get_context("fork")  # of a process in which all is imported and warm
    draw, newest, inside = random.Random(0), Run(made).dir / checkpoint.NAME, 0
    for _ in range(50):
        before = written(newest)
        process = fork.Process(target=launch, args=(made,))
        process.start()
        while process.is_alive() and written(newest) == before:
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.02))
        process.kill()
        process.join()
        inside += bool(list(newest.parent.glob("*.tmp")))
    assert Run(made).result is None and inside > 0
    assert launch(made) == 0 and outcome(made) == outcome(whole)
    assert len(Run(made).result["resumed"]) > 10
    record_property("faults", 50)


def test_killed_while_a_resumed_run_takes_over_its_rows(tmp_path, monkeypatch) -> None:
    path = tmp_path / "metrics.jsonl"
    text = "".join(f'{{"step": {step}, "train/loss": 1.0}}\n' for step in range(5))
    dumps = json.dumps

    def dies_at_the_last(row):
        if row["step"] == 4:
            raise Killed
        return dumps(row)

    path.write_text(text)
    monkeypatch.setattr("dab.engine.records.json.dumps", dies_at_the_last)
    with pytest.raises(Killed):
        Metrics(path, resume_step=5, keep_evaluation=True)
    assert path.read_text() == text


def test_a_lost_record_is_made_again_with_the_best_weights(sorter) -> None:
    (Run(sorter.made).dir / "result.json").unlink()
    assert launch(sorter.made) == 0 and outcome(sorter.made) == sorter.wanted


def alter(path: Path, change: Callable[[dict], object]) -> None:
    state = torch.load(path, weights_only=True)
    change(state)
    torch.save(state, path)


def one_weight(state: dict) -> None:
    next(v for v in state["best"]["weights"].values() if v.dim() == 2)[0, 0] += 1e-3


@pytest.mark.parametrize("change", [one_weight, lambda state: state["best"].pop("weights")], ids=["altered", "missing"])
def test_best_weights_that_are_not_the_measured_ones_are_never_reported(change, sorter, capsys) -> None:
    made, folder = sorter.made, Run(sorter.made).dir
    (folder / "result.json").unlink()
    alter(folder / checkpoint.NAME, change)
    assert launch(made) == 0  # from the checkpoint before it, which is whole
    assert "the best weights, of step" in (said := capsys.readouterr().out) and "trying the one before it" in said
    assert outcome(made) == sorter.wanted
    (folder / "result.json").unlink()
    for name in (checkpoint.NAME, checkpoint.PREVIOUS):
        alter(folder / name, change)
    assert launch(made) == FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("run failed: no checkpoint in") and "`force=true` starts the run over" in line
    assert Run(made).result is None


def test_weights_that_measure_otherwise_than_they_did_are_not_reported(sorter, capsys) -> None:
    def boast(state: dict) -> None:
        state["best"]["value"] += 0.01

    made, folder = sorter.made, Run(sorter.made).dir
    (folder / "result.json").unlink()
    alter(folder / checkpoint.NAME, boast)
    assert launch(made) == FAILED and Run(made).result is None
    (line,) = capsys.readouterr().err.splitlines()
    assert "the best weights, of step 3, had valid/all_or_none" in line and "resume=anyway reports it" in line
    assert launch({**made, "resume": "anyway"}) == 0 and "and now have" in capsys.readouterr().out


def test_rows_in_the_middle_that_cannot_be_read_are_told_and_cost_no_others(tmp_path, capsys) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = [{"step": step, "train/loss": 1.0} for step in range(1, 7)]
    lines = [json.dumps(row).encode() for row in rows]
    path.write_bytes(b"\n".join([*lines[:2], b"\xff\x00garbage", b"[3]", *lines[3:], b'{"step": 7, "tr']))
    Metrics(path, resume_step=6, keep_evaluation=True).close()
    assert f"{path} is damaged: 2 of 8 lines cannot be read and are left out (3, 4)" in capsys.readouterr().out
    assert [row["step"] for row in read_metrics(path)] == [1, 2, 4, 5, 6]
    assert capsys.readouterr().out == ""


def drop(lines: list[str]) -> list[str]:
    return lines[:-3]


def alter_a_number(lines: list[str]) -> list[str]:
    return [lines[0].replace('"train/loss": ', '"train/loss": 1'), *lines[1:]]


@pytest.mark.parametrize(("spoil", "said"), [(drop, "has lost 3 of 8 rows"), (alter_a_number, "has been altered")])
def test_rows_that_are_gone_or_others_are_told_and_in_the_record(spoil, said, sorter, capsys) -> None:
    made, path = sorter.made, Run(sorter.made).dir / "metrics.jsonl"
    path.with_name("result.json").unlink()
    path.write_text("".join(spoil(path.read_text().splitlines(keepends=True))))
    assert launch(made) == 0
    assert f"metrics.jsonl {said} since step 6" in capsys.readouterr().out
    assert Run(made).result["damage"] == [f"metrics.jsonl {said}"] and Run(made).result["resumed"] == [6]
