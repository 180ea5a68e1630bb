"""The machinery of the studies: what is run, what is kept, what is said about it."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from dab.engine.records import read_metrics
from experiments import binarized, report, sorting
from experiments.campaign import Campaign, status
from experiments.statistics import Printed, Sample, at_least, best_until, compare, verdict
from experiments.study import ROOT, Cell, Records, run_of, state, training_time
from experiments.tables import duration, human, latex, markdown

TINY = ("trainer.steps=3", "data.valid_size=50", "data.test_size=50")


def test_mean_and_spread() -> None:
    sample = Sample((1.0, 2.0, 3.0))
    assert (sample.mean, sample.std, sample.text()) == (2.0, 1.0, "2.00 ± 1.00 (3)")
    assert math.isnan(Sample((1.0,)).std) and Sample((1.0,)).text() == "1.00 (1)"


@pytest.mark.parametrize(
    ("values", "printed", "samples", "expected"),
    [
        ((94.0, 94.4), Printed(94.2, 0.1), 1e9, "agrees"),
        ((95.0, 95.1, 95.2), Printed(94.2, 0.1), 1e9, "better"),
        ((90.0, 90.1, 90.2), Printed(94.2, 0.1), 1e9, "worse"),
        ((90.0, 90.1, 90.2), Printed(94.2, 0.1, samples=4e9), 1e6, "not comparable: budget"),
        ((95.0, 95.1, 95.2), Printed(94.2, 0.1, samples=4e9), 1e6, "better"),
        ((99.0,), Printed(94.2, 0.1), 1e9, "better (one run)"),
        ((90.0,), Printed(94.2), 1e9, "worse (one run)"),
        ((0.0,), Printed(0, 0), 1e9, "agrees (one run)"),
        ((90.0, 91.0), None, 1e9, "–"),
    ],
)
def test_verdicts_follow_the_rule(values, printed, samples, expected) -> None:
    assert verdict(Sample(values), printed, samples) == expected


def test_comparisons_know_level_from_ahead() -> None:
    assert compare(Sample((90.0, 90.2)), Sample((80.0, 80.2))).startswith("ahead by 10.00")
    assert compare(Sample((80.0, 80.2)), Sample((90.0, 90.2))).startswith("behind by 10.00")
    assert compare(Sample((80.0, 90.0)), Sample((81.0, 91.0))).startswith("level")
    assert "too few" in compare(Sample((80.0,)), Sample((81.0, 91.0)))


def test_small_renderings() -> None:
    assert markdown(["a", "b"], [["1", "2"]]).splitlines() == ["| a | b |", "| --- | --- |", "| 1 | 2 |"]
    assert r"99.3 $\pm$ 0.1\% \\" in latex(["x"], [["99.3 ± 0.1%"]], "c")
    assert (human(1.28e6), human(4.336e9), human(999)) == ("1.28 M", "4.34 G", "999")
    assert (duration(59), duration(150)) == ("59 s", "2.5 min")
    assert at_least([(1, 10.0), (2, 20.0)], 15) == 2 and at_least([(1, 10.0)], 15) is None


@pytest.mark.parametrize("study", [sorting, binarized], ids=["sorting", "binarized"])
@pytest.mark.parametrize("scale", ["smoke", "cpu", "paper"])
def test_cells_of_a_study_are_distinct_and_named_rows_exist(scale: str, study) -> None:
    cells = study.cells(scale)
    assert len({cell.id for cell in cells}) == len(cells)
    rows = {cell.row for cell in cells}
    assert {row for row, _ in study.PAPER} <= rows
    assert {row for pair in study.CLAIMS for row in pair} <= rows


@pytest.mark.parametrize("study", [sorting, binarized], ids=["sorting", "binarized"])
def test_one_of_every_row_of_a_study_composes(study) -> None:
    first = {cell.row: cell for cell in reversed(study.cells("cpu"))}
    assert len({run_of(cell, "cpu").hash for cell in first.values()}) == len(first)


def samples_of(cells: Iterable[Cell]) -> set[int]:
    trainers = [run_of(cell, "cpu").config["trainer"] for cell in cells if cell.seed == 0]
    return {trainer["steps"] * trainer["batch_size"] for trainer in trainers}


def test_equal_rows_see_equally_many_samples() -> None:
    cells = [c for c in sorting.cells("cpu") if c.column in ("T5", "T10") and c.row not in sorting.REFERENCE]
    assert samples_of(c for c in cells if c.row != sorting.SHOWCASE) == {1_280_000}
    assert samples_of(c for c in binarized.cells("cpu") if c.column in binarized.DATA) == {1_280_000}


def test_the_best_of_a_curve_so_far() -> None:
    curve = [(1.0, 10.0), (2.0, 20.0), (4.0, 0.0)]
    assert [best_until(curve, x) for x in (0.5, 1, 1.5, 2, 3, 9, math.inf)] == [None, 10, 15, 20, 20, 20, 20]


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch) -> tuple[list[Cell], Records]:
    """Two real cells whose runs and records live below tmp_path."""
    for module in ("experiments.study", "experiments.campaign"):
        monkeypatch.setattr(f"{module}.RUNS", tmp_path / "runs")
    run_of.cache_clear()
    cells = [Cell("row", "T5", seed, ("experiment=sorting/straight_through", *TINY)) for seed in (0, 1)]
    yield cells, Records(tmp_path / "results")
    run_of.cache_clear()


@pytest.fixture
def invented(tmp_path: Path) -> Callable[..., Records]:
    """Records of made-up runs for chosen cells of the density study, as their result.json would look."""

    def make(cells: Iterable[Cell], **without: bool) -> Records:
        records = Records(tmp_path / "invented")
        records.folder.mkdir(exist_ok=True)
        for number, cell in enumerate(cells):
            end = -120.0 + number % 7 + 0.1 * cell.seed
            names = ("elbo", "iwae_100", "kl", "active_units", "paper_bound", "paper_bound_excess")
            metrics = {f"{split}/{name}": end for split in ("train", "valid", "test") for name in names}
            curve = {"step": [1, 2, 3], "valid/elbo": [-150.0, end + 1, end], "train_seconds": [2.0, 4.0, 6.0]}
            if not without.get("without_new_columns"):
                curve |= {"cpu_seconds": [1.0, 2.0, 3.0 + number], "train/gradient_variance": [3.0, 2.0, None]}
            record = {"metrics": metrics, "curve": curve, "samples": 1000, "steps": 3, "train_seconds": 6.0}
            record |= {"device": "cpu", "threads": 1, "world": 1, "best": {"metric": "valid/elbo", "value": end + 1}}
            record |= {} if without.get("without_new_columns") else {"cpu_seconds": 3.0 + number}
            records.path(cell).write_text(json.dumps(record))
        return records

    return make


@pytest.mark.parametrize("scale", ["smoke", "cpu"])
def test_the_density_study_renders_all_some_or_none_of_its_records(invented, scale: str, tmp_path: Path) -> None:
    cells = binarized.cells(scale)
    full = binarized.render(invented(cells), scale, tmp_path / "full")
    assert "not run yet" not in full and "at equal time" in full and "against" in full
    assert len(list((tmp_path / "full/figures").glob("*.png"))) == full.count(".png)")
    for figure in re.findall(r"\((figures/.*?\.png)\)", full):
        assert (tmp_path / "full" / figure).exists()
    headline = binarized.headline(invented(cells))
    assert headline.count("|") > 20 if scale == "cpu" else not headline


def test_the_density_study_renders_old_and_few_records(invented, tmp_path: Path) -> None:
    few = [cell for cell in binarized.cells("cpu") if cell.row == binarized.DAB]
    text = binarized.render(invented(few, without_new_columns=True), "cpu", tmp_path / "few")
    assert "not run yet" in text and "-120" in text
    assert "not run yet" in binarized.render(Records(tmp_path / "nothing"), "cpu", tmp_path / "none")


def test_the_headline_names_the_rival_that_is_best_on_validation(invented) -> None:
    cells = [c for c in binarized.cells("cpu") if c.column == "mnist" and c.row in ("Matched bridge", "ARM", "DisARM")]
    records = invented(cells)
    best = max(c.row for c in cells if c.row != "Matched bridge")
    for cell in cells:
        record = records.of(cell)
        record["metrics"]["valid/elbo"] = -100.0 if cell.row == best else -90.0 if "Matched" in cell.row else -110.0
        records.path(cell).write_text(json.dumps(record))
    lines = binarized.headline(records).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:]] == ["Matched bridge", best]


def test_which_clock_counts() -> None:
    record = {"device": "cpu", "threads": 1, "world": 1, "train_seconds": 9.0, "cpu_seconds": 5.0}
    assert training_time(record) == 5.0
    for other in ({"device": "cuda"}, {"threads": 2}, {"world": 2}):
        assert training_time(record | other) == 9.0
    del record["cpu_seconds"]
    assert training_time(record) == 9.0


def test_a_campaign_runs_what_is_missing_and_a_second_one_nothing(tiny, capsys) -> None:
    cells, records = tiny
    assert status(cells, "smoke", records).endswith("2 missing")
    assert Campaign(cells, "smoke", records, jobs=2).run() == 0
    assert [state(cell, "smoke", records) for cell in cells] == ["done", "done"]
    assert len(records.where(cells, "row", "T5")) == 2
    assert Campaign(cells, "smoke", records, jobs=2).total == 0
    assert "[2/2]" in capsys.readouterr().out


def test_a_changed_configuration_makes_a_record_stale(tiny) -> None:
    cells, records = tiny
    assert Campaign(cells[:1], "smoke", records, jobs=1).run() == 0
    changed = Cell("row", "T5", 0, (*cells[0].overrides, "optimizer.lr=0.1"))
    assert state(changed, "smoke", records) == "stale"


def test_a_failing_cell_is_told_and_does_not_stop_the_others(tiny, capsys) -> None:
    cells, records = tiny
    bad = Cell("bad", "T5", 0, ("optimizer.lr=1e30", "trainer.steps=20"))
    assert Campaign([bad, cells[0]], "smoke", records, jobs=1).run() == 1
    assert state(bad, "smoke", records) == "failed" and state(cells[0], "smoke", records) == "done"
    assert "bad.T5.seed0: exit 1" in capsys.readouterr().out


def test_an_interrupted_campaign_saves_its_runs(tiny) -> None:
    _, records = tiny
    long = Cell(
        "long", "T5", 0, ("experiment=sorting/straight_through", "trainer.steps=100000", "trainer.log_every=10")
    )
    campaign, run, over = Campaign([long], "smoke", records, jobs=1), run_of(long, "smoke"), threading.Event()

    def stop_once_it_trains() -> None:
        while not over.wait(0.1):
            if read_metrics(run.dir / "metrics.jsonl"):
                os.kill(os.getpid(), signal.SIGTERM)
                return

    watcher = threading.Thread(target=stop_once_it_trains, daemon=True)
    watcher.start()
    try:
        assert campaign.run() == 128 + signal.SIGTERM
    finally:
        over.set()
        watcher.join()
    assert (run.dir / "checkpoint.pt").exists()
    assert state(long, "smoke", records) == "interrupted"


def test_results_page_is_not_stale(tmp_path: Path) -> None:
    """docs/RESULTS.md is what the committed records say. `python -m experiments sorting --render` writes it."""
    assert report.results_path("cpu").read_text() == report.text("cpu", tmp_path)


def test_readme_results_are_not_stale() -> None:
    assert (ROOT / "README.md").read_text() == report.readme()


def test_experiment_files_say_what_to_expect() -> None:
    files = report.experiment_files()
    assert files
    for path, content in files.items():
        assert path.read_text() == content, f"{path.name} is stale: python -m experiments sorting --render"


def test_every_figure_of_the_results_page_is_there() -> None:
    page = report.results_path("cpu")
    for name in re.findall(r"\]\((figures/[^)]+)\)", page.read_text()):
        assert (page.parent / name).stat().st_size > 5000, name


def test_every_committed_record_belongs_to_a_cell_and_is_a_finished_run() -> None:
    for name, study in report.STUDIES.items():
        known = {cell.id for cell in study.cells("cpu")}
        for path in (ROOT / "results" / name / "cpu").glob("*.json"):
            assert path.stem in known, f"{path.name} belongs to no cell"
            record = json.loads(path.read_text())
            assert record["scale"] == "cpu" and record["metrics"] and record["curve"]
            assert path.stat().st_size < 100_000
            assert record["config"]["paths"]["runs"] == "runs" and "/tmp" not in path.read_text()


def test_status_from_the_command_line() -> None:
    arguments = [sys.executable, "-m", "experiments", "sorting", "--status", "--only", "oracle"]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "oracle-argsort.T5.seed0" in done.stdout
