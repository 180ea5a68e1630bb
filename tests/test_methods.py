"""One name and one colour for a method, everywhere; and who is where on the leaderboard."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from experiments import report
from experiments.atlas.heat_map import HeatMap
from experiments.figures import Lines
from experiments.leaderboard import TASKS, standings
from experiments.methods import FEW, METHODS, OTHER, by_family, looks, method_of
from experiments.numbers import spread_out
from experiments.results import Results
from experiments.statistics import Sample
from experiments.study import Records

# What is left of a colour without the cones for green, for red (Machado et al. 2009, severity 1), and with all.
SIGHTS = {
    "deuteranope": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "protanope": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "everybody": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    """#rrggbb as light, [3]."""
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(light: np.ndarray) -> np.ndarray:
    """CIE L*a*b*, in which 10 is a difference that one sees without looking for it."""
    ratio = XYZ @ light.clip(0, 1) / XYZ.sum(1)
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("page", ["colour", "dark"])
@pytest.mark.parametrize("sight", SIGHTS)
def test_methods_of_one_panel_are_told_apart_by_everybody(sight: str, page: str) -> None:
    for one, two in combinations(METHODS, 2):
        if one.family == two.family:
            a, b = (lab(np.array(SIGHTS[sight]) @ linear(getattr(method, page))) for method in (one, two))
            assert np.linalg.norm(a - b) > 10, f"{one.name} and {two.name} look alike to a {sight}"


@pytest.mark.parametrize(("page", "background"), [("colour", "#FFFFFF"), ("dark", "#1B1F26")])
def test_colours_stand_out_from_the_page(page: str, background: str) -> None:
    back = XYZ[1] @ linear(background)
    for method in (*METHODS, OTHER):
        light = XYZ[1] @ linear(getattr(method, page))
        assert (max(light, back) + 0.05) / (min(light, back) + 0.05) > 2.5, method.name


def test_every_row_of_every_study_has_its_method() -> None:
    rows = {cell.row for study in report.STUDIES.values() for cell in study.cells("cpu")}
    unknown = {row for row in rows if method_of(row) is None}
    assert unknown <= {"Showcase", "frozen encoder", "no hard function"}
    names = {row: method.name for row in rows if (method := method_of(row))}
    assert names["DisARM"] == "DisARM" and names["ARM"] == "ARM"
    assert names["Straight-through Gumbel"] == names["Gumbel, 8-way, ELBO"] == "Gumbel"
    assert names["Elementwise bridge, fitted"] == "Fitted bridge" and names["DAB-Signum"] == "Dense bridge"


def test_lines_of_one_method_share_its_colour_and_differ_in_dashes() -> None:
    seen = looks(["DAB-Signum", "Matched, signum", "DAB-Binary", "T = 5", "T = 10"])
    assert seen["DAB-Signum"].method is seen["DAB-Binary"].method
    assert [seen[row].number for row in ("DAB-Signum", "DAB-Binary", "Matched, signum")] == [0, 1, 0]
    assert seen["T = 5"].method is not seen["T = 10"].method


def test_panels_hold_families_and_small_ones_together() -> None:
    rows = ["FSQ, 5 levels", "DAB-Signum", "PCA + sign", "DAB-Binary", *(f"Gumbel {n}" for n in range(FEW))]
    panels = by_family(rows)
    assert [len(shown) for shown in panels.values()] == [2, FEW, 2]
    assert sorted(row for shown in panels.values() for row in shown) == sorted(rows)


@pytest.mark.parametrize("wanted", [[5, 5, 5, 5], [0, 1, 98, 99], [100, 100, 100, 100], [10, 40, 70, 90]])
def test_names_are_moved_apart_and_stay_in_order_and_in_the_frame(wanted: list[float]) -> None:
    places = spread_out(wanted, [10, 20, 10, 10], 100)
    assert all(b - a >= need - 1e-9 for a, b, need in zip(places, places[1:], (15, 15, 10)))
    assert places[0] >= 5 and places[-1] <= 95
    assert spread_out([10, 40, 70, 90], [10] * 4, 100) == [10, 40, 70, 90]


def test_crowded_and_empty_figures_are_drawn(tmp_path: Path) -> None:
    rows = ["DAB-Signum", "ReinMax", "REBAR", "RELAX", "ARM", "PCA + sign", *(f"Gumbel {n}" for n in range(8))]
    series = {row: [(x, Sample((x + n, x + n + 1))) for x in (1, 10)] for n, row in enumerate(rows)}
    crowded = Lines("many", "alt", "Title", "x", "y", series, {"printed": 5.0}, {"xscale": "log"})
    few = Lines("few", "alt", "Title", "x", "y", {"T = 5": series["ARM"]})
    heat = HeatMap("heat", "alt", "Title", ["one"], ["a", "b"], [[0.5, None]], [[float("nan"), 0.0]], "label")
    for figure in (crowded, few, heat):
        figure.draw(tmp_path / "drawn.png")
        assert (tmp_path / "drawn.png").stat().st_size > 5_000


def test_the_leaderboard_ranks_by_the_metric_and_counts_what_a_step_costs() -> None:
    results = report.load("cpu")
    task = next(task for task in TASKS if task.title == "MNIST, nats")
    places = task.places(results)
    order = sorted(places, key=lambda name: -places[name].sample(task.metric).mean)
    found = {one.method: one for one in standings(results)}
    for number, name in enumerate(order, 1):
        assert found[name].ranks[task.title] == (number, len(order))
    assert found["Straight-through"].cost == pytest.approx(1.0)
    assert min(one.rank for one in found.values()) >= 0 and max(one.rank for one in found.values()) <= 1


def test_validation_and_not_the_test_set_chooses_among_the_rows_of_a_method(tmp_path: Path) -> None:
    study, records = report.STUDIES["atlas"], Records(tmp_path)
    cells = [cell for cell in study.cells("cpu") if (cell.column, cell.variant, cell.seed) == ("signum", "recover", 0)]
    scores = {"straight-through": (0.9, 0.5), "straight-through, clipped": (0.4, 0.8)}  # on validation, on test
    for cell in cells:
        valid, test = scores.get(cell.row, (0.1, 0.1))
        records.path(cell).write_text(json.dumps({"metrics": {"valid/score": valid, "test/score": test}, "calls": 1.0}))
    task = next(task for task in TASKS if task.title == "atlas: signum")
    assert task.places({"atlas": Results(records, cells, "cpu")})["Straight-through"].row == "straight-through"
