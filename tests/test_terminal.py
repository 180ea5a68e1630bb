"""What a person sees: a bar that fits, the time left, the runs there are, what a sweep came to, what to type next."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from dab.engine import hints, trust
from dab.engine.launch import launch
from dab.engine.listing import listing
from dab.engine.progress import Bar, Lines, clock
from dab.engine.run import Run
from dab.engine.sweep import Outcome, closing_table

ROOT = Path(__file__).resolve().parents[1]
ROW = {"step": 12_000, "train/loss": 0.123456, "train/task_loss": 0.11, "train/samples_per_second": 123456.7}


def screen(width: int) -> list[str]:
    """What stands on a terminal after a while."""
    out = io.StringIO()
    bar = Bar(100_000, "all_or_none", Console(file=out, force_terminal=True, width=width, color_system=None))
    bar.advance(1)
    bar.show(ROW)
    bar.show({"step": 12_000, "valid/all_or_none": 0.98765, "valid/per_element": 0.99})
    bar._began = (time.monotonic() - 12 * 60, 0)  # as if it had taken that long
    bar.advance(12_000)
    bar.close()
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    return [line for line in re.split(r"[\r\n]", plain) if line.strip()]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_bar_fits_its_terminal_and_tells_the_time_left(width: int) -> None:
    lines = screen(width)
    assert all(len(line) <= width for line in lines)
    assert "12000/100000 1:28:00 left" in lines[-1]
    assert "valid/all_or_none 0.9877" in lines[-1] or width < 80


def test_a_line_in_a_log_tells_the_time_left(capsys) -> None:
    lines = Lines(4000, "all_or_none")
    lines.show({"step": 1, "valid/all_or_none": 0.1})
    lines.advance(1000)  # this process took over here
    lines._began = (lines._began[0] - 60, 1000)
    lines.show({"step": 2000, "train/loss": 0.5, "valid/all_or_none": 0.25, "train/penalty": 0.1})
    first, second = capsys.readouterr().out.splitlines()
    assert first == "step    1/4000  ? left  valid/all_or_none 0.1"
    assert second == "step 2000/4000  2:00 left  valid/all_or_none 0.25  loss 0.5  penalty 0.1"
    assert (clock(83), clock(5025)) == ("1:23", "1:23:45")


def test_runs_are_listed_by_name_with_what_differs_and_how_good_they_are(config, tmp_path: Path, no_curves) -> None:
    runs = tmp_path / "runs"
    assert listing(runs) == f"no runs below {runs}/"
    made = config("trainer.steps=3")
    assert launch(made) == 0
    best = Run(made).result["best"]
    stopped = Run(config("trainer.steps=3", "seed=1"))
    shutil.copytree(Run(made).dir, stopped.dir)
    (stopped.dir / "result.json").unlink()
    text = (stopped.dir / "config.yaml").read_text()
    (stopped.dir / "config.yaml").write_text(text.replace("seed: 0", "seed: 1").replace("length: 5", "length: 6"))
    stopped.set_status("running", step=2, steps=3)
    torn = Run(config("seed=7"))
    torn.dir.mkdir(parents=True)
    (torn.dir / "status.json").write_text("{")
    assert listing(runs, "steps=3").splitlines() == [
        "sorting/signum_dense+steps=3",
        f"  {Run(made).hash}  seed=0 length=5  finished     valid/all_or_none {best['value']:.4g}",
        f"  {stopped.hash}  seed=1 length=6  interrupted  at step 2 of 3",
        f"2 runs below {runs}/: 1 finished, 1 interrupted",
    ]
    assert f"  {torn.hash}    damaged  cannot be read; force=true starts it over" in listing(runs)
    stopped.set_status("failed", message="\x1b]0;owned\n" + 100 * "x")
    row = listing(runs, "steps=3").splitlines()[2]
    assert row.isprintable() and len(row) == 80


def outcome(words: str, value: float | None, reason: str = "") -> Outcome:
    record = {"name": "sorting/x", "seconds": 10.0, "best": {"metric": "valid/a", "value": value}, "metrics": {}}
    return Outcome(words.split(), None if value is None else record | {"metrics": {"test/a": (value or 0) / 2}}, reason)


def test_a_sweep_closes_with_a_table_over_its_seeds() -> None:
    table = closing_table(
        [
            outcome("scale=smoke hard=x seed=0", 0.5),
            outcome("scale=smoke hard=x seed=1", 0.7),
            outcome("scale=smoke hard=y seed=0", 0.25),
            outcome("scale=smoke hard=y seed=1", None, "no"),
        ]
    )
    head, names, x, y = table.strip().splitlines()
    assert head == "4 runs, 3 finished, 1 failed; mean ± standard deviation (seeds)"
    assert names.split() == ["best", "valid/a", "test/a", "seconds"]
    assert x.split("  ") == ["hard=x", "0.6 ± 0.14 (2)", "0.3 ± 0.071 (2)", "10"]
    assert re.split("  +", y) == ["hard=y", "0.25 (1)", "0.125 (1)", "10", "1 failed"]


def test_a_sweep_of_nothing_but_failures_or_a_single_run_has_no_table() -> None:
    assert closing_table([outcome("seed=0", None, "no"), outcome("seed=1", None, "no")]) == ""
    assert closing_table([outcome("seed=0", 0.5)]) == ""


def test_what_is_printed_to_go_on_with_can_be_pasted(config, tmp_path: Path, monkeypatch) -> None:
    """Also where a folder has a space in its name, python another one, and the clone is elsewhere."""
    run = Run(config(f"paths.runs='{tmp_path}/my runs'", "model.widths=[8,8]"))
    (run.dir / "wandb" / "offline-run-1").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", "model.widths=[8,8]", "seed=3", "force=true"])
    monkeypatch.setattr(trust, "_trusted", {"my_package"})
    lines = [shlex.split(line) for line in hints.hints(run, {"input_shape": [5]})]
    for name, words in zip(("dab.predict", "dab.measure"), lines):
        after = words[words.index(name) + 1 :]
        assert after[:3] == ["--trust", "my_package", str(run.dir)]
    *_, script, flag, seeds, widths = lines[2]
    assert Path(script).resolve() == ROOT / "train.py"
    assert (flag, seeds, widths) == ("-m", "seed=0,1,2", "model.widths=[8,8]")
    assert lines[-1][-3:] == ["wandb", "sync", str(run.dir / "wandb/offline-run-1")]
    python = next(word for word in lines[1] if "=" not in word)
    assert Path(shutil.which(python) or python).samefile(sys.executable)


@pytest.mark.slow
def test_dab_is_found_from_the_folder_that_holds_its_clone(tmp_path: Path) -> None:
    """There the clone itself, a folder of the same name, comes first; an editable install must get past it."""
    pytest.importorskip("setuptools", minversion="77")
    clone, site = tmp_path / "dab", tmp_path / "site"
    for name in ("pyproject.toml", "README.md", "LICENSE", "dab/__init__.py", "experiments/__init__.py"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    build = f"from setuptools import build_meta; build_meta.build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=clone, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    shutil.unpack_archive(wheel, site, "zip")
    find = f"import site; site.addsitedir({str(site)!r}); import importlib.util as u; print(u.find_spec('dab').origin)"
    done = subprocess.run([sys.executable, "-E", "-S", "-c", find], cwd=tmp_path, capture_output=True, text=True)
    assert Path(done.stdout.strip()) == clone / "dab/__init__.py", done.stderr
