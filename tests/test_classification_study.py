"""The studies of classification: what is run in which order, and what is said about it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from experiments import ablation, classification, classification_page, step_costs
from experiments import classification_search as search
from experiments.blocks import Figure
from experiments.classification import BRIDGE, FIRST, FLAT, MODERN, POOLED, SORT, SORT_TRUE
from experiments.figures import draw_changed
from experiments.paper.classification import case_claims
from experiments.printers import markdown
from experiments.results import Results
from experiments.runs import run_of
from experiments.statistics import Paired, Sample
from experiments.study import COMMITTED, Cell, Records

BOTH = pytest.mark.parametrize("study", [classification_page, ablation], ids=["table", "ablation"])


@BOTH
def test_cells_are_distinct_and_rows_compose_with_one_budget_and_one_width(study) -> None:
    for scale in ("smoke", "cpu", "paper"):
        cells = study.STUDY.cells(scale)
        assert len({cell.id for cell in cells}) == len(cells)
    first = {cell.overrides: cell for cell in study.STUDY.cells("cpu") if not cell.column.startswith(("rate", "whole"))}
    runs = [run_of(cell, "cpu") for cell in first.values()]
    assert len({run.hash for run in runs}) == len(first)
    made = [run.config for run, cell in zip(runs, first.values()) if not cell.row.startswith("Dense net")]
    assert {(c["trainer"]["steps"], c["trainer"]["batch_size"], c["model"]["width"]) for c in made} == {(2106, 128, 8)}
    modern = [c for c in made if c["optimizer"].get("nesterov")]  # not the row of plain SGD
    assert len(modern) >= 15 and {c["task"]["label_smoothing"] for c in modern} == {0.1}


def test_comparisons_name_rows_that_exist() -> None:
    assert {row for pair in classification.gradients() for row in pair} <= set(classification.ROWS)
    assert {row for row, _ in classification.PAPER} <= set(classification.ROWS)
    for column, pairs in ablation.PAIRS.items():
        assert {row for pair in pairs for row in pair} <= set(ablation.COLUMNS[column])


def test_whole_comparisons_come_first() -> None:
    cells = [cell for cell in classification.cells("cpu") if not cell.column.startswith(("rate", "whole"))]
    assert {cell.row for cell in cells[:12]} == set(FIRST) and {cell.seed for cell in cells[:12]} == {0, 1, 2}
    seeds = {
        row: {c.seed for c in cells if (c.row, c.column) == (row, MODERN)} for row in (POOLED, SORT, SORT_TRUE, FLAT)
    }
    assert [len(of_row) for of_row in seeds.values()] == [3, 5, 5, 5]


def test_what_the_search_chose_is_what_is_run() -> None:
    results = Results(COMMITTED.records(classification_page.STUDY, "cpu"), search.planned("cpu"), "cpu")
    for row in search.SHORT:
        short, chosen = search.reached(row, results), search.best_rate(row, results)
        assert classification.rate_of(row) == chosen, row
        edges = {*[*short][:: len(short) - 1]} - {classification.RATES["flat"]} if len(short) > 2 else set()
        assert chosen not in edges or row in search.DIVERGES, f"{row}: at the edge of what was tried"


def test_at_one_rate_for_both_the_comparison_with_straight_through_is_another(invented) -> None:
    bridge, straight = search.SORT1D[:2]
    cells = [cell for cell in search.planned("cpu") if cell.column in ("whole0.05", "whole0.02")]
    cells = [cell for cell in cells if cell.row in (bridge, straight)]
    (text,) = search.one_rate(invented(cells, "cpu", **{bridge: 0.1}))
    assert re.search(r"It makes at most (9\.[789]\d|10\.[0123]\d) of the paper's 25 points", text.text)
    ahead, number = re.search(r"at 0\.05 [\d.]+ against [\d.]+ %, (\w+) by ([\d.]+)", text.text).groups()
    assert ahead == "ahead" and float(number) == pytest.approx(10, abs=0.3)
    alone = [cell for cell in cells if (cell.row, cell.column) != (straight, "whole0.05")]
    assert search.one_rate(invented(alone, "cpu")) == []


def test_how_often_whole_trainings_say_otherwise_is_counted(invented, tmp_path: Path) -> None:
    rows = {classification.SORT: 0.1, FLAT: 0.0}
    cells = [cell for cell in search.planned("cpu") if cell.row in rows and cell.column.startswith(("rate", "whole"))]
    results = invented(cells, "cpu")
    assert search.reversals(results) != ""
    for place in results:  # short ones like low rates, whole ones high ones, after a sort alone
        for record in place.records.values():
            rate = float(place.column.removeprefix("whole").removeprefix("rate"))
            record["best"]["value"] = -rate if place.row == SORT and place.column.startswith("rate") else rate
    assert search.reversals(results) == " (in 1 of 2 rows otherwise than two epochs would have)"
    assert search.reversals(invented([], "cpu")) == ""


def test_what_a_step_costs_has_been_measured_of_every_row() -> None:
    rows = step_costs.nets([*classification.cells("cpu"), *ablation.cells("cpu")])
    costs = json.loads(step_costs.RECORD.read_text())["costs"]
    assert {net: set(of_net) for net, of_net in costs.items()} == {net: set(of_net) for net, of_net in rows.items()}
    assert all(costs[net][plain] == 1 for net, plain in step_costs.PLAIN.items())
    assert costs["Resnet18"]["Sort, detached"] < 1 < costs["Resnet18"][SORT]


def test_the_engine_and_k_means_are_as_fast_as_they_should_be() -> None:
    speed = step_costs.record()["speed"]
    assert speed["our loop / bare model"] > 0.95
    assert (
        speed["farthest: faster than scikit-learn, times"] > 20 and speed["farthest: inertia / scikit-learn's"] < 1.05
    )
    assert next(value for name, value in speed.items() if name.startswith("memory")) < 1.2


@pytest.fixture
def invented(tmp_path: Path):
    """Records of made-up runs, as their result.json would look; `lead` points of accuracy are added by row.

    `ends`: what a row's diagnoses end with, by row and name.
    """

    def make(cells: Iterable[Cell], scale: str, ends: dict[str, dict[str, float]] | None = None, **lead: float):
        cells, records = list(cells), Records(tmp_path / "invented")
        records.folder.mkdir(exist_ok=True)
        for number, cell in enumerate(cells):
            end = 0.7 + 0.01 * cell.seed + 0.001 * (number % 3) + lead.get(cell.row, 0.0)
            curve = {"step": [1, 2], "valid/accuracy": [0.5, end], "cpu_seconds": [1.0, 2.0]}
            names = ("gradient_norm", "gradient_norm_after", "gradient_cosine", "true_cosine", "emd", "inverted_pairs")
            last = (ends or {}).get(cell.row, {})
            curve |= {f"train/{name}": [0.5, last.get(name, 0.25) + 0.001 * cell.seed] for name in names}
            bridge = 500 if BRIDGE in cell.row else 20
            record = {"metrics": {"test/accuracy": end}, "curve": curve, "samples": 256, "steps": 2}
            record |= {"train_seconds": 2.0, "cpu_seconds": 2.0 + bridge / 100, "device": "cpu", "threads": 1}
            record |= {"world": 1, "best": {"metric": "valid/accuracy", "value": end}}
            record |= {"parameters": {"training": 1000 + bridge, "inference": 1000}}
            records.path(cell).write_text(json.dumps(record))
        return Results(records, cells, scale)

    return make


@BOTH
@pytest.mark.parametrize("scale", ["smoke", "cpu"])
def test_a_study_renders_all_of_its_records(study, scale: str, invented, tmp_path: Path) -> None:
    parts = study.render(invented(study.STUDY.cells(scale), scale))
    text = markdown(parts)
    assert "not run yet" not in text and "| is |" in text and "step / plain" in text
    assert ("an eighth of the width" in text) == (scale == "cpu")
    assert ("What the 25 points become" in text) == (study is ablation)
    figures = [block for part in parts for block in part if isinstance(block, Figure)]
    assert len(figures) == (4 if study is ablation else 1)
    if scale == "smoke":
        draw_changed(figures[-1:], tmp_path)
        assert (tmp_path / figures[-1].file).stat().st_size > 5000


@BOTH
def test_a_study_without_records_says_nothing(study, tmp_path: Path) -> None:
    nothing = Results(Records(tmp_path / "nothing"), study.STUDY.cells("cpu"), "cpu")
    assert study.render(nothing) == [] and not study.STUDY.headline(nothing).rows


@pytest.mark.parametrize(
    "behind",
    [tuple(way for way in classification.LEARNED if way != "convolutional"), classification.LEARNED],
    ids=["one", "none"],
)
def test_the_cheapest_approximator_that_loses_nothing(behind: tuple[str, ...], invented, monkeypatch) -> None:
    cells = [c for c in classification.cells("cpu") if c.row.startswith("Sort, ") and c.column == MODERN]
    monkeypatch.setattr(step_costs, "measured", lambda: {SORT: 1.2, "Sort, convolutional": 1.1})
    _, block = classification_page.cheapest(invented(cells, "cpu", **{f"Sort, {way}": -0.3 for way in behind}))
    n = len(classification.LEARNED)
    if behind == classification.LEARNED:
        assert block.text == f"All {n} approximators of sort that were judged are behind the true gradient."
        return
    assert f"Of the {n} approximators of sort {n} have the seeds to be judged; behind the true gradient: {n - 1}." in (
        block.text
    )
    assert "*Sort, convolutional*: 20 parameters in training alone, *step / plain* 1.10; the dense one" in block.text
    assert re.search(r"In accuracy it is ahead by (29\.9|30\.0)", block.text)


def test_rows_are_compared_with_the_baseline_of_their_head(invented) -> None:
    cells = [c for c in classification.cells("cpu") if c.column == MODERN]
    text = markdown(classification_page.render(invented(cells, "cpu", **{SORT: 0.2})))
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {SORT} | {FLAT} |")]
    assert re.search(r"ahead by (19\.9|20\.0)\d .* 5 seeds\)", line)
    (best,) = [line for line in text.splitlines() if line.startswith("| Sort |")]
    assert best.startswith(f"| Sort | {BRIDGE} | 92") and best.count("ahead by ") == 2
    assert f"| Signum, {BRIDGE} | {POOLED} |" in text and f"| {POOLED} | {POOLED} |" not in text


def test_whether_any_function_helps_is_said_in_a_sentence() -> None:
    def lead(*leads: float) -> Paired:
        return Paired(Sample.of(dict(enumerate(leads))))

    level, behind, ahead = lead(-0.5, 0.5, 0.0), lead(-3.0, -3.1, -2.9), lead(2.0, 2.1, 1.9)
    text = classification_page.concluded({"Sort": level, "Signum": behind, "Topk 1": lead(9.0, 9.0)})
    assert text.startswith("**None is ahead of no function.**")
    assert "Sort 1.24, Signum 0.00." in text and "Topk" not in text  # two seeds are no interval to build on
    text = classification_page.concluded({"Sort": ahead, "Signum": level})
    assert text.startswith("Ahead of no function: Sort ahead by 2.00") and "Signum 1.24." in text
    assert classification_page.concluded({}) == ""


def test_at_full_scale_rates_keep_their_proportion() -> None:
    def rates(cells: list[Cell]) -> dict[str, float]:
        configs = {cell.row: run_of(cell, "paper").config for cell in cells}
        return {row: config["optimizer"]["lr"] for row, config in configs.items()}

    rows = (FLAT, SORT, f"Signum, {classification.STRAIGHT}", classification.NO_HARD, classification.DENSE_SORT)
    cells = {cell.row: cell for cell in classification.cells("paper") if cell.column in (MODERN, "dense")}
    assert rates([cells[row] for row in rows]) == dict(
        zip(rows, (share * float(classification.rate_of(row)) for row, share in zip(rows, (0.25,) * 3 + (1, 1))))
    )
    config = run_of(cells[FLAT], "paper").config
    assert config["optimizer"]["lr"] == 0.1 and config["trainer"]["amp"] and config["trainer"]["compile"]


def test_the_recipe_is_compared_with_itself_on_validation_and_on_test(invented) -> None:
    cells = [c for c in classification.cells("cpu") if c.row == POOLED or c.row in classification.VARIANTS]
    crops = "Baseline with crops, pooled"
    _, _, table = classification_page.variants(invented(cells, "cpu", **{crops: -0.1}))
    assert table.header == ("row", "against", "on validation", "on test")
    (line,) = [row for row in table.rows if row[0] == crops]
    assert len(table.rows) == len(classification.VARIANTS) and all(text.startswith("behind by") for text in line[2:])


def test_signum_has_to_be_worse_before_the_last_block_by_every_gradient(invented) -> None:
    early = {f"After block {n}, {BRIDGE}": -0.1 for n in (1, 2, 3)}
    placed = case_claims(invented(ablation.cells("cpu"), "cpu", **early))[1]
    assert placed.verdict == "in part" and placed.ours.count("level") == 6
    early = {f"After block {n}, {way}": -0.1 for n in (1, 2, 3) for way in ablation.PLACED_WAYS}
    assert case_claims(invented(ablation.cells("cpu"), "cpu", **early))[1].verdict == "holds"


def test_whether_the_distance_falls_is_counted(invented) -> None:
    shorter = {ablation.EQUATION[0]: {"emd": 0.1}, ablation.CONTROL: {"emd": 0.4}}
    (text,) = ablation.moved(invented(ablation.cells("cpu"), "cpu", ends=shorter))
    assert f"in 1 of 5 rows: {ablation.EQUATION[0]} (0.101)." in text.text


@pytest.mark.parametrize(
    ("fewer", "verdict"),
    [
        ({"emd": 0.1, "inverted_pairs": 0.1}, "holds"),
        ({"emd": 0.1}, "in part"),  # shorter, but in no better order
        ({"emd": 0.4, "inverted_pairs": 0.4}, "does not hold"),
        ({}, "no difference"),
    ],
)
def test_partly_sorted_means_fewer_inverted_pairs_too(invented, fewer: dict[str, float], verdict: str) -> None:
    results = invented(ablation.cells("cpu"), "cpu", ends=dict.fromkeys(ablation.EQUATION, fewer))
    assert case_claims(results)[-1].verdict == verdict


@pytest.mark.parametrize(
    ("lead", "verdict"), [(0.26, "holds"), (0.1, "in part"), (0.0, "does not hold"), (-0.1, "does not hold")]
)
def test_a_lead_of_25_points_is_not_any_lead(invented, lead: float, verdict: str) -> None:
    rows = {f"Sort1d, {BRIDGE}{recipe}": lead for recipe in ("", ", paper's recipe")}
    assert case_claims(invented(ablation.cells("cpu"), "cpu", **rows))[0].verdict == verdict
