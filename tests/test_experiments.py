"""The studies: what is to be run, and what is said about it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from experiments import binarized, report, sorting
from experiments.blocks import Figure, Table
from experiments.figures import draw_changed, fingerprint
from experiments.printers import latex, markdown
from experiments.results import Results
from experiments.runs import run_of, state
from experiments.study import COMMITTED, ROOT, Cell, Records

BOTH = pytest.mark.parametrize("study", [sorting, binarized], ids=["sorting", "binarized"])


@BOTH
@pytest.mark.parametrize("scale", ["smoke", "cpu", "paper"])
def test_cells_of_a_study_are_distinct_and_named_rows_exist(scale: str, study) -> None:
    cells = study.cells(scale)
    assert len({cell.id for cell in cells}) == len(cells)
    rows = {cell.row for cell in cells}
    assert {row for row, _ in study.PAPER} <= rows
    assert {row for pair in study.CLAIMS for row in pair} <= rows


@BOTH
def test_one_of_every_row_composes_and_equal_rows_see_equally_many_samples(study) -> None:
    first = {cell.row: cell for cell in reversed(study.cells("cpu"))}
    runs = {row: run_of(cell, "cpu") for row, cell in first.items()}
    assert len({run.hash for run in runs.values()}) == len(first)
    short = [row for row, cell in first.items() if cell.column in ("T5", "T10", *binarized.DATA) and not cell.variant]
    trainers = [runs[row].config["trainer"] for row in short if row not in (*sorting.REFERENCE, sorting.SHOWCASE)]
    assert len(trainers) > 15 and {made["steps"] * made["batch_size"] for made in trainers} == {1_280_000}


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
def test_the_density_study_renders_all_of_its_records(invented, scale: str, tmp_path: Path) -> None:
    cells = binarized.cells(scale)
    results = Results(invented(cells), cells, scale)
    parts = binarized.render(results)
    full = markdown(parts)
    assert "not run yet" not in full and "at equal time" in full and "against" in full and "Where DAB stands" in full
    figures = [block for part in parts for block in part if isinstance(block, Figure)]
    assert len({figure.file for figure in figures}) == full.count(".png)") == len(figures) > 4
    if scale == "smoke":  # one of each study's kinds is enough to see that they can be drawn
        draw_changed([figures[0], figures[-1]], tmp_path)
        assert (tmp_path / figures[-1].file).stat().st_size > 5000
    headline = markdown([[binarized.headline(results)]])
    assert headline.count("|") > 20 if scale == "cpu" else len(headline.splitlines()) == 2


def test_the_density_study_renders_old_few_or_no_records(invented, tmp_path: Path) -> None:
    cells = binarized.cells("cpu")
    few = invented([cell for cell in cells if cell.row == binarized.DAB], without_new_columns=True)
    text = markdown(binarized.render(Results(few, cells, "cpu")))
    assert "not run yet" in text and "-120" in text
    for study in (sorting, binarized):
        nothing = Results(Records(tmp_path / "nothing"), study.cells("cpu"), "cpu")
        assert "not run yet" in markdown(study.render(nothing)) and not study.headline(nothing).rows


def test_the_headline_names_the_rival_that_is_best_on_validation(invented) -> None:
    rows = ("Matched bridge", "ARM", "DisARM")
    cells = [c for c in binarized.cells("cpu") if c.column == "mnist" and not c.variant and c.row in rows]
    records = invented(cells)
    for cell in cells:
        record = records.of(cell)
        record["metrics"]["valid/elbo"] = {"Matched bridge": -90.0, "ARM": -110.0, "DisARM": -100.0}[cell.row]
        records.path(cell).write_text(json.dumps(record))
    lines = binarized.headline(Results(records, cells, "cpu")).rows
    assert [line[0] for line in lines] == ["Matched bridge", "DisARM"]


@pytest.fixture(scope="module")
def results() -> dict[str, Results]:
    return report.load("cpu")


def test_results_page_is_not_stale(results) -> None:
    """docs/RESULTS.md is what the committed records say. `python -m experiments sorting --render` writes it."""
    page = COMMITTED.page("cpu")
    sections = report.sections(results)
    assert page.read_text() == report.page(sections)
    drawn = json.loads((page.parent / "figures/drawn.json").read_text())
    tables = [block for block in report.blocks(sections) if isinstance(block, Table) and block.file]
    assert len(tables) >= 6
    for table in tables:
        assert (page.parent / f"{table.file}.tex").read_text() == latex(table), table.file
    figures = [block for block in report.blocks(sections) if isinstance(block, Figure)]
    assert drawn == {figure.file: fingerprint(figure) for figure in figures}
    for figure in figures:
        assert (page.parent / figure.file).stat().st_size > 5000, figure.file


def test_readme_results_are_not_stale(results) -> None:
    assert (ROOT / "README.md").read_text() == report.readme(results)


def test_experiment_files_say_what_to_expect(results) -> None:
    files = report.experiment_files(results)
    assert files
    for path, content in files.items():
        assert path.read_text() == content, f"{path.name} is stale: python -m experiments sorting --render"


def test_every_committed_record_belongs_to_a_cell_and_is_a_finished_run() -> None:
    for name, study in report.STUDIES.items():
        known = {cell.id for cell in study.cells("cpu")}
        for path in (ROOT / "results" / name / "cpu").glob("*.json"):
            assert path.stem in known, f"{path.name} belongs to no cell"
            record = json.loads(path.read_text())
            assert record["scale"] == "cpu" and record["metrics"]
            assert path.stat().st_size < 100_000
            if study.work is None:
                assert record["curve"] and record["config"]["paths"] == {"runs": "runs", "data": "data"}
            assert not re.search(r"[ =\"](/[a-z]+){2}", path.read_text()), f"{path.name} has a path of a machine"


@pytest.mark.slow
@pytest.mark.parametrize("name", report.STUDIES)
def test_every_committed_record_is_of_the_run_that_its_command_makes_now(name: str) -> None:
    records = COMMITTED.records(report.STUDIES[name], "cpu")
    cells = [cell for cell in report.STUDIES[name].cells("cpu") if records.file(cell)]
    assert not [cell.id for cell in cells if state(cell, "cpu", records) == "stale"]


def test_rendering_does_without_the_engine() -> None:
    """A second instead of ten: no torch, and no matplotlib unless a figure has changed."""
    code = "import sys; import experiments.__main__; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
