"""The kit of the studies: numbers over seeds, places, tables, pages."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from experiments import sentences, tables
from experiments.blocks import Bullets, Heading, Table, Text, part
from experiments.figures import Lines, across, draw_changed, framed, shown
from experiments.numbers import duration, human
from experiments.printers import latex, markdown
from experiments.provenance import is_clean, statement, unfinished
from experiments.results import Metric, Results, chosen, ranked, training_time
from experiments.statistics import (
    Printed,
    Sample,
    at_least,
    best_until,
    compare,
    compare_paired,
    paired,
    printed,
    verdict,
)
from experiments.study import Cell, Records, grid, once, pick

SCORE = Metric("test/score", factor=100, digits=1)


def test_mean_and_spread() -> None:
    sample = Sample((1.0, 2.0, 3.0))
    assert (sample.mean, sample.std, sample.text()) == (2.0, 1.0, "2.00 ± 1.00 (3)")
    assert math.isnan(Sample((1.0,)).std) and Sample((1.0,)).text() == "1.00 (1)"
    assert Sample.of({3: 1.0, 5: 2.0}).by_seed == {3: 1.0, 5: 2.0}
    with pytest.raises(ValueError, match="one for each"):
        Sample((1.0, 2.0), seeds=(0,))


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
        ((94.2, 94.2), Printed(94.2, unlike="data"), 1e9, "not comparable: data"),
        ((90.0, 91.0), None, 1e9, "–"),
    ],
)
def test_verdicts_follow_the_rule(values, printed, samples, expected) -> None:
    assert verdict(Sample(values), printed, samples) == expected


def test_a_table_of_the_paper_knows_its_gaps() -> None:
    table = printed(("a", "b"), {"row": ((1.0, 0.5), None), "other": (2, 3)}, samples=7)
    assert set(table) == {("row", "a"), ("other", "a"), ("other", "b")}
    assert table["row", "a"] == Printed(1.0, 0.5, samples=7) and table["other", "b"].text() == "3"


def test_comparisons_know_level_from_ahead() -> None:
    assert compare(Sample((90.0, 90.2)), Sample((80.0, 80.2))).startswith("ahead by 10.00")
    assert compare(Sample((80.0, 80.2)), Sample((90.0, 90.2))).startswith("behind by 10.00")
    assert compare(Sample((80.0, 90.0)), Sample((81.0, 91.0))).startswith("level")
    assert "too few" in compare(Sample((80.0,)), Sample((81.0, 91.0)))


def test_paired_comparison_by_hand() -> None:
    """Leads of 2, 3 and 1: mean 2, deviation 1, t(0.975, 2) = 4.3027, so 2 ± 4.3027 / √3."""
    pair = paired(Sample.of({0: 3.0, 1: 5.0, 2: 7.0}), Sample.of({2: 6.0, 0: 1.0, 1: 2.0}))
    assert pair.leads.by_seed == {0: 2.0, 1: 3.0, 2: 1.0}
    assert pair.interval == pytest.approx((2 - 2.48414, 2 + 2.48414), abs=1e-5)
    # (t(0.975, n-1) + t(0.8, n-1)) · 1 ≤ 2 √n: 3.182 + 0.978 > 4 at n = 4, 2.776 + 0.941 ≤ 4.472 at n = 5
    assert pair.seeds_to_tell() == 5
    assert pair.text() == "level (+2.00, -0.48 to +4.48; 3 seeds, 5 would tell)"


def test_pairing_sees_what_the_spread_of_the_seeds_hides() -> None:
    one, two = Sample.of({0: 10.0, 1: 20.0, 2: 30.0}), Sample.of({0: 9.0, 1: 18.9, 2: 29.1, 3: 50.0})
    assert compare(one, two).startswith("level")
    assert compare_paired(one, two) == "ahead by 1.00 (0.75 to 1.25; 3 seeds)"  # 0.1 · 4.3027 / √3 = 0.248
    assert compare_paired(two, one) == "behind by 1.00 (0.75 to 1.25; 3 seeds)"
    assert compare_paired(one, Sample.of({2: 29.0, 7: 1.0})) == "+5.00 (too few shared seeds to judge)"
    assert compare_paired(one, one) == "level (+0.00, +0.00 to +0.00; 3 seeds, not to be told apart)"
    two = Sample.of({0: 10.5, 1: 19.0})
    assert compare_paired(one, two).endswith("; 2 seeds)")  # which say nothing of a spread


def test_curves_are_read_at_a_level_and_at_a_time() -> None:
    assert at_least([(1, 10.0), (2, 20.0)], 15) == 2 and at_least([(1, 10.0)], 15) is None
    curve = [(1.0, 10.0), (2.0, 20.0), (4.0, 0.0)]
    assert [best_until(curve, x) for x in (0.5, 1, 1.5, 2, 3, 9, math.inf)] == [None, 10, 15, 20, 20, 20, 20]


def test_counts_and_times_are_short() -> None:
    assert (human(1.28e6), human(4.336e9), human(999)) == ("1.28 M", "4.34 G", "999")
    assert (duration(59), duration(150)) == ("59 s", "2.5 min")


def test_cells_are_named_by_place_variant_and_seed() -> None:
    (cell,) = grid({"A row, P 5": "a=1"}, {"T5": "b=2 c=3"}, (1,), variant="long")
    assert (cell.id, cell.command) == ("a-row-p-5.T5-long.seed1", ["a=1", "b=2", "c=3", "seed=1"])
    assert pick({"x": "a=1", "y": ""}, "x", more="b=2") == {"x": "a=1 b=2"}
    assert once([cell], [cell]) == [cell]


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Two rows with two seeds in a column, one of them also long; a third row that has not run."""
    rows = {"one": "experiment=a/b", "– two": "experiment=a/c", "three": "experiment=a/d"}
    cells = [*grid(rows, {"T5": "x=1"}, (0, 1)), *grid({"one": rows["one"]}, {"T5": ""}, (0,), variant="long")]
    for cell in cells:
        if cell.row != "three":
            score = {"one": 0.5, "– two": 0.7}[cell.row] + 0.1 * cell.seed + 0.2 * bool(cell.variant)
            curve = {"step": [1, 2], "valid/score": [0.1, score], "cpu_seconds": [1.0, 3.0 + cell.seed]}
            curve["train/variance"] = [1.0, 4.0 if cell.seed == 0 else None]
            record = {"metrics": {"test/score": score}, "curve": curve, "samples": 20, "steps": 2}
            record |= {"device": "cpu", "threads": 1, "world": 1, "cpu_seconds": 3.0 + cell.seed}
            record |= {"best": {"metric": "valid/score", "value": score}}
            (tmp_path / f"{cell.id}.json").write_text(json.dumps(record))
    return Results(Records(tmp_path), cells, "cpu")


def test_a_place_has_all_that_one_asks_of_it(results: Results) -> None:
    place = results.at("one", "T5")
    assert place.values(SCORE) == {0: 50.0, 1: 60.0} and place.sample(SCORE).text(SCORE.digits) == "55.0 ± 7.1 (2)"
    assert (place.samples, place.steps, place.seconds) == (20, 2, 3.5)
    assert place.command == "python train.py experiment=a/b x=1"
    assert place.curves("samples", SCORE.on("valid"))[1] == [(10, 10.0), (20, 60.0)]
    assert place.curves("seconds")[1] == [(1.0, 0.1), (4.0, 0.6)]
    assert [(x, sample.by_seed) for x, sample in place.band("step")][-1] == (2, {0: 0.5, 1: 0.6})
    assert place.reached(55.0, "samples", SCORE.on("valid")) == {1: 20}
    assert place.passing(0.3) == [(20, 3.0), (20, 4.0)]
    assert place.last("train/variance").by_seed == {0: 4.0} and place.last("nothing") is None
    assert place.best_within(2.0).by_seed == pytest.approx({0: 0.3, 1: 0.1 + 0.5 / 3})
    with pytest.raises(KeyError, match="has no test/scroe; its records have test/score"):
        place.values(Metric("test/scroe"))


def test_places_are_found_in_the_order_of_the_plan(results: Results) -> None:
    assert [place.name for place in results.column("T5")] == ["one", "– two", "three", "one (long)"]
    assert results.at("one", "T5", "long").values(SCORE) == {0: 70.0}
    assert not results.at("three", "T5") and results.at("three", "T5").command.endswith("a/d x=1")
    assert not results.at("nowhere", "T5") and not results.column("T6")
    found = results.among(("one", "– two", "three"), "T5")
    assert [place.row for place in ranked(found, SCORE)] == ["– two", "one"] and chosen(found).row == "– two"


def test_results_read_every_file_once(results: Results, tmp_path: Path) -> None:
    for path in tmp_path.glob("*.json"):
        path.unlink()
    assert len(results.records()) == 5 and results.at("– two", "T5").sample(SCORE).n == 2


def test_a_table_of_places_with_numbers_of_the_paper_verdicts_and_gaps(results: Results) -> None:
    numbers = {("one", "T5"): Printed(55.0, 5.0), ("three", "T5"): Printed(1.0)}
    columns = tables.full(numbers, "ours", SCORE, notes={"– two": "reference"}, more=[tables.mean("mean", SCORE)])
    table = tables.row_table(results.column("T5"), columns)
    assert list(table.header) == ["row", "paper", "ours", "verdict", "mean", "scale", "samples", "time", "command"]
    assert table.rows[0][:5] == ["one", "55 ± 5", "55.0 ± 7.1 (2)", "agrees", "55.0"]
    assert table.rows[1][3] == "reference" and table.rows[3][:3] == ["one (long)", "55 ± 5", "70.0 (1)"]
    empty = ["three", "1", "not run yet", "–", "–", "cpu", "–", "–", "`python train.py experiment=a/d x=1`"]
    assert table.rows[2] == empty


def test_rows_against_rows(results: Results) -> None:
    pairs, name = [("one", "– two"), ("one", "three")], tables.calling("One")
    assert tables.compared(results, pairs, SCORE, ("T5", ""), name=name) == [
        ["one", "One, two", "behind by 20.0 ± 7.1"]
    ]
    (line,) = tables.compared(results, pairs, SCORE, ("T5", ""), judge=compare_paired)
    assert line[-1] == "behind by 20.0 (20.0 to 20.0; 2 seeds)"  # the same lead at each seed
    (line,) = tables.compared(results, pairs, SCORE, ("T5", "long"), ("T5", ""))
    assert line[-1] == "-5.0 (too few runs to judge)"
    _, table = tables.equal_time(results.among(("one", "– two"), "T5"), SCORE.on("valid"), "score")
    assert table.rows == [["– two", "63.3 ± 9.4 (2)", "75.0 ± 7.1 (2)"], ["one", "46.7 ± 4.7 (2)", "55.0 ± 7.1 (2)"]]


def test_places_in_words(results: Results) -> None:
    one, two, long = results.at("one", "T5"), results.at("– two", "T5"), results.at("one", "T5", "long")
    text = sentences.standing(one, [one, two], SCORE, "ours", "points", tables.calling("One"))
    assert text == "At equal steps ours is number 2 of 2 rows, 20.0 points behind the best (One, two)."
    assert sentences.standing(one, [one], SCORE, "ours", "points") == ""
    words = (SCORE.on("valid"), "ours", "score", "points")
    assert "ends 15.0 points lower after 4 s, a level that one passes within 3 s" in sentences.catching_up(
        one, long, *words
    )
    assert sentences.catching_up(one, one, *words) == "Of the long runs it has the best validation score."
    assert sentences.starts({"P 1": one, "P 2": results.at("three", "T5")}, 0.3, Metric("valid/score")) == "P 1 20"


def test_a_page_is_printed_from_its_blocks() -> None:
    table = Table(("a", "b"), [("1 ± 2", "_x_")], "caption", file="t")
    parts = [[Heading("Title", 1), Text("words")], [], [table, Bullets(["one", "two"])]]
    expected = "# Title\n\nwords\n\n\n| a | b |\n| --- | --- |\n| 1 ± 2 | _x_ |\n\n- one\n- two\n"
    assert markdown(parts) == expected
    assert r"1 $\pm$ 2 & \_x\_ \\" in latex(table) and r"\caption{caption}" in latex(table)
    assert part(Text("of a table without rows"), Table(("a",), [])) == part(Text("of none"), Bullets([])) == []


def test_a_figure_is_drawn_once_and_again_when_it_shows_something_else(tmp_path: Path) -> None:
    def draw(y: float, name: str = "lines") -> Path:
        line = [(0.0, Sample((1.0, 2.0))), (1.0, Sample((y, y)))]
        figures = shown(Lines(name, "alt", "title", "x", "y", {"one": line, "empty": []}))
        draw_changed(figures, tmp_path)
        return tmp_path / figures[0].file

    path = draw(3.0)
    assert path.stat().st_size > 5000 and path.name == "lines.png"
    path.write_text("kept")
    assert draw(3.0).read_text() == "kept"
    assert draw(4.0).stat().st_size > 5000
    path.unlink()
    assert draw(4.0).exists()
    assert draw(4.0, "others").exists() and not path.exists(), "what no page shows any more is removed"
    assert shown(Lines("none", "alt", "title", "x", "y", {"empty": []})) == []


def test_what_is_far_below_is_left_out_of_the_frame(results: Results) -> None:
    series = {name: [(0.0, Sample((value,)))] for name, value in (("a", -100.0), ("b", -101.0), ("c", -500.0))}
    labelled, (low, high) = framed(series, always="a")
    assert list(labelled) == ["a", "b", "c (below the frame)"] and (low, high) == (-105.0, -99.0)
    assert framed(series, always="c")[1][0] < -500
    line = across({5: results.at("one", "T5"), 6: results.at("– two", "T5"), 7: results.at("three", "T5")}, SCORE)
    assert [(x, sample.mean) for x, sample in line] == [(5, 55.0), (6, 75.0)]
    assert across({5: results.at("one", "T5")}, SCORE) == []


def test_which_clock_counts() -> None:
    record = {"device": "cpu", "threads": 1, "world": 1, "train_seconds": 9.0, "cpu_seconds": 5.0}
    assert training_time(record) == 5.0
    for other in ({"device": "cuda"}, {"threads": 2}, {"world": 2}):
        assert training_time(record | other) == 9.0
    del record["cpu_seconds"]
    assert training_time(record) == 9.0


CLEAN, DIRTY = {"commit": "abc", "dirty": False}, {"commit": "abc", "dirty": True}


@pytest.mark.parametrize(
    ("provenance", "clean"),
    [
        (CLEAN, True),
        (DIRTY, False),
        ({"commit": None, "dirty": False}, False),
        ({"start": CLEAN, "end": CLEAN, "changed": False}, True),
        ({"start": DIRTY, "end": CLEAN, "changed": False}, False),
        ({"start": CLEAN, "end": DIRTY, "changed": False}, False),
        ({"start": CLEAN, "end": CLEAN, "changed": True}, False),
        ({}, False),
    ],
)
def test_a_record_is_clean_when_one_commit_made_it(provenance: dict, clean: bool) -> None:
    assert is_clean({"provenance": provenance}) is clean


def test_the_page_counts_what_is_not_clean(tmp_path: Path) -> None:
    cells = [Cell("row", "T5", seed, ()) for seed in range(3)]
    for cell, provenance in zip(cells, (CLEAN, DIRTY, {"start": CLEAN, "end": CLEAN, "changed": False})):
        (tmp_path / f"{cell.id}.json").write_text(json.dumps({"provenance": provenance}))
    text = statement({"sorting": Results(Records(tmp_path), cells, "cpu")})[-1].text
    assert "Not clean: sorting 1 of 3. 2 of the records" in text


def test_what_is_planned_and_not_run_is_counted(tmp_path: Path) -> None:
    cells = [Cell("row", column, seed, ()) for column in ("T5", "T15") for seed in range(3)]
    assert unfinished({"sorting": Results(Records(tmp_path), [], "cpu")}) == []
    for cell in cells[:4]:
        (tmp_path / f"{cell.id}.json").write_text(json.dumps({"seconds": 120.0}))
    (line,) = unfinished({"sorting": Results(Records(tmp_path), cells, "cpu")})[-1].lines
    to_do = "2 runs to do, 1 at a time: about 4.0 min, by the records of such runs"
    assert line == f"`python -m experiments sorting --scale cpu`: {to_do}. Of 6: T15 2."
