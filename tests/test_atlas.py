"""The atlas: functions are what the plan says of them, cells make records, records make the page."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dab.advise.candidates import BY_NAME
from dab.advise.traits import traits_of
from experiments import atlas
from experiments.atlas import functions, page, plan
from experiments.atlas.plan import ALL, FREE, FROZEN, ROWS, YARDSTICK, Function
from experiments.atlas.tasks import SIGMA, match, recover, use, yardstick
from experiments.blocks import Figure
from experiments.campaign import Campaign, missing
from experiments.figures import draw_changed
from experiments.pool import Pool
from experiments.printers import markdown
from experiments.results import Results
from experiments.study import Cell, Records
from experiments.trainings import HERE
from experiments.works import Works

TINY = {"steps": 8, "use_steps": 4, "yardstick_steps": 3, "pool": 256, "held": 128, "pairs": 2}


@pytest.mark.parametrize("function", [*ALL, YARDSTICK], ids=lambda f: f.name)
def test_functions_and_rows_are_what_the_adviser_finds(function: Function, monkeypatch) -> None:
    """The plan knows nothing of torch, so it says by hand what a look at the function must confirm."""
    monkeypatch.setattr("dab.advise.traits.FITS", 1)
    hard = functions.MAKE[function.name]()
    found = traits_of(hard, function.in_shape)
    assert found.out_shape == function.out_shape and found.deterministic
    assert found.pieces == function.pieces
    assert (found.monotone, found.bounded, found.alike) == (function.monotone, function.bounded, function.alike)
    assert (found.gradient == "some") == function.gradient
    fitting = {row for row in ROWS if not BY_NAME[row].why_not(hard, found)}
    assert set(plan.rows_of(function)) == fitting


def test_there_are_fifteen_functions_and_every_candidate_has_a_row() -> None:
    assert len(plan.TRIED) == 15 and set(ROWS) == set(BY_NAME)
    assert set(ALL) == {*plan.TRIED, *plan.HELD_BACK} and set(functions.MAKE) == {*plan.FUNCTIONS, YARDSTICK.name}


def test_whole_comparisons_come_first_and_every_cell_has_a_name_of_its_own() -> None:
    cells = plan.cells("cpu")
    assert len({cell.id for cell in cells}) == len({cell.identity for cell in cells}) == len(cells)
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)
    assert not plan.cells("paper") and {cell.column for cell in plan.cells("smoke")} < {c.column for c in cells}
    assert {cell.identity for cell in plan.cells("smoke")}.isdisjoint(cell.identity for cell in cells)


def test_the_functions_that_are_not_in_the_library() -> None:
    z = torch.randn(32, 16)
    assert functions.histogram(z.numpy()).sum(1).tolist() == [16] * 32
    assert functions.histogram(np.array([[-9.0, -1.9, 0.1, 1.9, 9.0]])).tolist() == [[2, 0, 0, 0, 1, 0, 0, 2]]
    assert functions.Parity()(torch.tensor([[1.0, 2.0, -1.0, 2.0]])).tolist() == [[1, -1]]
    assert functions.Medians(2)(torch.tensor([[3.0, 1.0, 2.0, 9.0, 7.0, 8.0]])).tolist() == [[2, 8]]
    assert functions.actuator(np.array([0.4, -0.7, 5.0])).tolist() == [0, -0.25, 2.5]
    assert functions.longest_runs(np.array([[1.0, 2.0, -1.0, 3.0, -1.0, -2.0, -3.0]])).tolist() == [[2, 3]]
    assert functions.Energies(2)(torch.tensor([[1.0, 1.5, 0.5, 0.5]])).tolist() == [[3, 0]]
    block = functions.QuantisedBlock(step=1e-4)
    torch.testing.assert_close(block.basis @ block.basis.T, torch.eye(8))
    torch.testing.assert_close(block(z[:4].reshape(1, 8, 8)), z[:4].reshape(1, 8, 8), atol=1e-2, rtol=0)


def test_no_net_before_the_actuator_does_better_than_the_page_says() -> None:
    commands, target = np.linspace(-3, 3, 6001), np.linspace(-1, 1, 4001)
    reached = np.unique(functions.actuator(commands))
    least = (np.abs(target[:, None] - reached).min(1) ** 2).mean()
    assert least == pytest.approx(page.LEAST_ERROR, rel=1e-3)


@pytest.mark.parametrize("row", ["corrected bridge", "straight-through", "true gradient", "matched bridge"])
def test_a_cell_has_its_search_its_scores_and_its_gradients(row: str) -> None:
    function = plan.FUNCTIONS["sorted"]
    made = recover(row, function, 0, TINY)
    assert len(made["search"]) == 4 and made["chosen"]["rate"] in {one["rate"] for one in made["search"]}
    best = max(one["valid"] for one in made["search"])
    assert any(one["valid"] == best and made["chosen"].items() <= one.items() for one in made["search"])
    assert made["call_seconds"] > 0
    assert set(made["metrics"]) >= {"test/score", "test/score_at_equal_calls", "match/random_cosine"}
    assert (made["metrics"]["test/score"] == made["metrics"]["test/score_at_equal_calls"]) == (made["calls"] == 1)
    assert recover(row, function, 0, TINY)["metrics"] == made["metrics"]


@pytest.mark.parametrize("row", [FROZEN, FREE, "corrected bridge", "smoothing, antithetic"])
def test_the_ends_of_use_and_what_lies_between(row: str) -> None:
    made = use(row, plan.FUNCTIONS["tree"], 0, TINY)
    assert 0 <= made["metrics"]["test/accuracy"] <= 1 and made["steps"] == TINY["use_steps"]
    assert made["calls"] == {FREE: 0, FROZEN: 1}.get(row, made["calls"])


def test_the_yardstick_is_measured_on_the_actuator_itself() -> None:
    made = yardstick("straight-through", YARDSTICK, 0, TINY)
    assert made["calls"] == 1 and 0 < made["metrics"]["test/error"] < 2


class Doubled(nn.Module):
    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return 2 * z


def test_a_right_gradient_matches_the_reference_and_a_wrong_one_does_not() -> None:
    """A linear function is its own smoothing, so its true gradient must have cosine and length one."""
    from dab import StraightThrough, TrueGradient
    from dab.advise.recover import Recover

    task = Recover(Doubled(), (3,), pool=64, held=256)
    right = match(task.hard, task.train(TrueGradient(task.hard), 1e-3, 2), task, pairs=400)
    assert right["match/random_cosine"] > 0.97 and abs(right["match/random_length"] - 1) < 0.05
    half = match(task.hard, task.train(StraightThrough(task.hard), 1e-3, 2), task, pairs=400)
    assert half["match/random_cosine"] > 0.97 and abs(half["match/random_length"] - 0.5) < 0.05
    assert SIGMA > 0


@pytest.fixture
def invented(tmp_path: Path) -> Callable[[Iterable[Cell]], Records]:
    """Records as the cells would make them, with scores that depend on the row."""

    def make(cells: Iterable[Cell]) -> Records:
        records = Records(tmp_path / "invented")
        records.folder.mkdir(exist_ok=True)
        names = [*ROWS, FROZEN, FREE]
        for cell in cells:
            value = 0.9 - 0.04 * names.index(cell.row) + 0.01 * cell.seed
            metrics = dict.fromkeys(("test/score", "test/score_at_equal_calls", "test/accuracy"), value)
            metrics |= {"test/error": 1 - value, "match/random_cosine": value, "match/random_length": 1.0}
            if cell.row == FREE:
                metrics["test/accuracy"] = 0.98
            record = {"id": cell.id, "hash": cell.identity, "seed": cell.seed, "metrics": metrics, "calls": 5.0}
            record["call_seconds"] = 1e-6
            record |= {"search": [{"rate": 0.005, "valid": value}], "chosen": {"rate": 0.005}, "seconds": 1.0}
            records.path(cell).write_text(json.dumps(record))
        return records

    return make


def test_the_page_says_what_the_records_say(invented, tmp_path: Path) -> None:
    cells = plan.cells("cpu")
    results = Results(invented(cells), cells, "cpu")
    parts = atlas.STUDY.render(results)
    text = markdown(parts)
    figures = [block for part in parts for block in part if isinstance(block, Figure)]
    assert len(figures) == 3
    draw_changed(figures[:1], tmp_path)
    assert (tmp_path / figures[0].file).stat().st_size > 20_000
    assert "→ *fitted bridge*, score 0.91" in text and "held back" in text
    assert "| corrected bridge | fitted bridge | equal calls | behind by 0.040" in text and "| 0 of 18 |" in text
    assert len(atlas.STUDY.headline(results).rows) == len(page.advice(results)) == 7


def test_every_sentence_of_the_guide_names_cells_that_exist(invented) -> None:
    cells = plan.cells("cpu")
    ids = {cell.id for cell in cells}
    named = set()
    for advice in page.advice(Results(invented(cells), cells, "cpu")):
        patterns = re.findall(r"`([a-z0-9-]+)\.\{([a-z,]+)\}-recover`", advice.sentence())
        assert len(patterns) >= 2
        named |= {f"{row}.{name}-recover.seed0" for row, names in patterns for name in names.split(",")}
    assert named <= ids
    assert {name.split(".")[1].split("-")[0] for name in named} == {function.name for function in ALL}


def test_without_records_the_page_says_nothing(tmp_path: Path) -> None:
    nothing = Results(Records(tmp_path), plan.cells("cpu"), "cpu")
    assert atlas.STUDY.render(nothing) == [] and not atlas.STUDY.headline(nothing).rows


def campaign_of(cells: list[Cell], folder: Path) -> Campaign:
    """Of what is missing of them, with records and logs below `folder`."""
    kind, records = Works("atlas", "smoke", folder), Records(folder / "records")
    return Campaign("atlas", missing(cells, kind, records), kind, records)


def test_a_campaign_does_what_is_missing_and_a_second_time_nothing(tmp_path: Path, capsys) -> None:
    rows = ("straight-through", "frozen random bridge")
    cells = [c for c in plan.cells("smoke") if c.column == YARDSTICK.name and c.row in rows]
    broken = Cell("no such row", "signum", 0, (), "recover", "0")
    records = Records(tmp_path / "records")
    with Pool(2, HERE) as pool:
        assert campaign_of([*cells, broken], tmp_path).run(pool) == 1
    told = capsys.readouterr().out
    assert "[3/3]" in told and "  no-such-row.signum-recover.seed0: KeyError" in told
    assert "KeyError" in (tmp_path / "campaign-logs" / f"smoke.{broken.id}.log").read_text()
    for cell in cells:
        record = records.of(cell)
        assert record["hash"] == cell.identity and set(record["provenance"]) == {"start", "end", "changed"}
        assert str(tmp_path) not in records.path(cell).read_text()  # nothing of this machine
    assert not campaign_of(cells, tmp_path).waiting


def test_a_stopped_campaign_ends_at_once_and_keeps_what_is_whole(tmp_path: Path) -> None:
    campaign = campaign_of(plan.cells("smoke"), tmp_path)
    with Pool(1, HERE) as pool:
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
        assert campaign.run(pool) == 128 + signal.SIGTERM
    assert campaign.waiting and not campaign.running
    assert all(json.loads(path.read_text())["metrics"] for path in campaign.records.folder.glob("*.json"))
