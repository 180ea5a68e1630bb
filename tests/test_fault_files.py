"""Run directories that are damaged, full, in the way or read-only: one line says so, and nothing wrong is reported."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import faults
import pytest
from faults import Killed, die, injected, killed_at_step, outcome, placed, tear

from dab.engine import checkpoint
from dab.engine.launch import FAILED, describe, launch
from dab.engine.run import Run
from dab.predict import load

pytestmark = pytest.mark.usefixtures("no_curves")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(255, 127, -1)) * 4)


def foreign(path: Path) -> None:
    path.write_text('{"of": "something else"}\n')


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = (empty, half, flipped, garbage, foreign, folder, Path.unlink)
WRITTEN = ("checkpoint.pt", "checkpoint.previous.pt", "metrics.jsonl", "status.json", "provenance.json", "config.yaml")
CASES = [(stage, name, damage) for stage in ("cut", "done") for name in WRITTEN for damage in DAMAGES]
CASES += [("done", name, damage) for name in ("result.json", "model.safetensors") for damage in DAMAGES]
SAMPLE = [
    ("cut", "metrics.jsonl", folder),
    ("cut", "metrics.jsonl", empty),
    ("cut", "status.json", garbage),
    ("cut", "provenance.json", half),
    ("cut", "checkpoint.pt", flipped),
    ("done", "result.json", half),
    ("done", "result.json", foreign),
    ("done", "result.json", folder),
    ("done", "status.json", folder),
    ("done", "model.safetensors", flipped),
]


class Runs(NamedTuple):
    made: dict
    wanted: dict[str, str]
    places: dict[str, Path]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Runs:
    """A sorter's run that was cut off after its second checkpoint, and the same run done."""
    root = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dab.engine.finish.draw_curves", lambda rows, select, path: path)
        made = faults.job("sorting", root)
        with contextlib.suppress(Killed), killed_at_step(5):
            launch(placed(made, root / "cut"))
        assert launch(placed(made, root / "done")) == 0
    return Runs(made, outcome(placed(made, root / "done")), {name: root / name for name in ("cut", "done")})


def look(runs: Runs, place: Path, stage: str, name: str, damage: Callable[[Path], None], capsys) -> str:
    """Damage one file of a copy and start the run again; how that ended, all of it being right."""
    shutil.copytree(runs.places[stage], place)
    made = placed(runs.made, place)
    run = Run(made)
    damage(run.dir / name)
    code, (out, err) = launch(made), capsys.readouterr()
    assert "Traceback" not in err
    if code == 0:
        if stage == "done" and name == "model.safetensors":
            with pytest.raises((ValueError, FileNotFoundError), match=r"model\.safetensors"):
                load(run.dir)
            return "told by predict"
        if stage == "done" and name != "result.json":
            assert run.result == Run(placed(runs.made, runs.places["done"])).result
            return "nothing lost"
        if outcome(made) == runs.wanted:
            return "nothing lost, told" if name in out else "nothing lost"
        assert name == "metrics.jsonl" and run.result["damage"] and "metrics.jsonl has" in out
        found = {part for part, sha256 in outcome(made).items() if sha256 != runs.wanted[part]}
        assert found <= {"rows", "curve"}
        return "rows lost, told and counted"
    (line,) = err.splitlines()
    assert code == FAILED and line.startswith("run failed: ") and str(run.dir) in line and "force=true" in line
    assert launch({**made, "force": True}) == 0 and outcome(made) == runs.wanted
    return "refused"


@pytest.mark.parametrize(("stage", "name", "damage"), SAMPLE)
def test_a_damaged_file_is_told_or_costs_nothing(stage, name, damage, runs, tmp_path, capsys) -> None:
    look(runs, tmp_path / "copy", stage, name, damage, capsys)


@pytest.mark.fault
@pytest.mark.timeout(1800)
def test_every_file_damaged_in_every_way(runs, tmp_path, capsys, record_property) -> None:
    for number, (stage, name, damage) in enumerate(CASES):
        ending = look(runs, tmp_path / str(number), stage, name, damage, capsys)
        record_property(f"{stage} {name} {damage.__name__}", ending)
    record_property("faults", len(CASES))


def test_both_checkpoints_damaged_is_an_end_that_force_gets_past(runs, tmp_path, capsys) -> None:
    def both(path: Path) -> None:
        for name in (checkpoint.NAME, checkpoint.PREVIOUS):
            garbage(path.with_name(name))

    assert look(runs, tmp_path / "copy", "cut", checkpoint.NAME, both, capsys) == "refused"


@pytest.mark.parametrize("runs_folder", ["/dev/null/runs", "/proc/runs", "{tmp}/file/runs", "{tmp}/" + "long" * 70])
def test_a_place_where_no_run_can_be_is_told_in_one_line(runs_folder, config, tmp_path, capsys) -> None:
    (tmp_path / "file").write_text("in the way")
    made = config(f"paths.runs={runs_folder.format(tmp=tmp_path)}")
    assert launch(made) == FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("run failed: ") and "choose another folder with paths.runs=FOLDER" in line
    assert Run(made).status["state"] in ("missing", "unreadable") and "run directory" in describe(Run(made))


@contextlib.contextmanager
def mounted(path: Path, options: str) -> Iterator[Callable[[str], object]]:
    """A small file system in memory; call what it gives to mount it again with other options."""
    path.mkdir()

    def mount(given: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["mount", "-t", "tmpfs", "-o", given, "tmpfs", path], capture_output=True, text=True)

    if not shutil.which("mount") or (done := mount(options)).returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.strip() if shutil.which('mount') else 'no mount'}")
    try:
        yield lambda given: mount(f"remount,{given}")
    finally:
        subprocess.run(["umount", path], check=True)


@pytest.mark.fault
def test_a_small_disk_at_every_size(runs, tmp_path, capsys, record_property) -> None:
    """Full at the first file, at each of the next, at last at none: each time the same command ends it when it may."""
    sizes = [0, 4, 8, 12, 16, 24, 40, 200, 380, 400, 600, 740, 760, 800, 1200]  # kB; a checkpoint has 350
    failed = []
    with mounted(tmp_path / "disk", "size=3m"):
        for size in sizes:
            filler, made = tmp_path / "disk/filler", placed(runs.made, tmp_path / f"disk/{size}")
            filler.write_bytes(b"x" * (shutil.disk_usage(filler.parent).free - 1024 * size))
            code, err = launch(made), capsys.readouterr().err
            assert not list(Run(made).dir.rglob("*.tmp"))
            filler.unlink()
            if code:
                failed.append(size)
                (line,) = err.splitlines()
                assert code == FAILED and "No space left on device" in line and "free some space" in line
                assert launch(made) == 0
            assert outcome(made) == runs.wanted
            shutil.rmtree(tmp_path / f"disk/{size}")
    assert failed == sizes[: len(failed)] and 5 < len(failed) < len(sizes)
    record_property("faults", len(failed))


def test_a_read_only_disk_shows_what_is_finished_and_refuses_the_rest(runs, tmp_path, capsys) -> None:
    with mounted(tmp_path / "disk", "size=4m") as remount:
        for stage, place in runs.places.items():
            shutil.copytree(place, tmp_path / "disk" / stage)
        remount("ro")
        assert launch(placed(runs.made, tmp_path / "disk/done")) == 0
        assert "finished already" in capsys.readouterr().out
        assert launch(placed(runs.made, tmp_path / "disk/cut")) == FAILED
        (line,) = capsys.readouterr().err.splitlines()
        assert "Read-only file system" in line and "paths.runs=FOLDER" in line


@pytest.mark.fault
def test_a_death_while_a_damaged_checkpoint_is_replaced(runs, tmp_path, record_property) -> None:
    """The one before it is all there is, and must outlive the next save."""
    numbers = range(12, 24)
    for number in numbers:
        shutil.copytree(runs.places["cut"], tmp_path / str(number))
        made = placed(runs.made, tmp_path / str(number))
        flipped(Run(made).dir / checkpoint.NAME)
        with contextlib.suppress(Killed), injected(tmp_path, number, tear if number % 2 else die):
            launch(made)
        assert launch(made) == 0 and outcome(made) == runs.wanted
    record_property("faults", 2 * len(numbers))
