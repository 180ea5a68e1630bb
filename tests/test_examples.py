"""Every example runs as it is, shows what it says, and the tutorial quotes what it prints."""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def run(name: str) -> tuple[dict[str, Any], str]:
    """What an example left behind, and what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        left = runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    return left, printed.getvalue()


def as_quoted(name: str) -> dict[str, Any]:
    """What an example left behind. The tutorial quotes what it printed: words as they are, numbers as near as other
    rounding leaves them; scripts/tutorial.py writes them anew.
    """
    tutorial = (ROOT / "docs/TUTORIAL.md").read_text()
    quoted = re.findall(rf"<!-- printed by examples/{name}.py -->\n```text\n(.*?)```", tutorial, re.DOTALL)
    assert len(quoted) == 1
    left, output = run(name)
    printed = "".join(f"{line.rstrip()}\n" for line in output.splitlines())
    assert NUMBER.sub("#", quoted[0]) == NUMBER.sub("#", printed)
    for said, found in zip(NUMBER.findall(quoted[0]), NUMBER.findall(printed), strict=True):
        assert float(said) == pytest.approx(float(found), rel=0.3, abs=0.15)
    return left


def test_a_sort_layer_finds_what_to_sort_by() -> None:
    bridge, own, none = run("sort_layer")[0]["errors"].values()
    assert max(bridge, own) < 0.02 and none > 0.2


def test_hard_attention_finds_where_to_look() -> None:
    before, *trained = as_quoted("hard_attention")["found"].values()
    assert before < 0.3 and min(trained) > 0.6


def test_a_forest_of_scikit_learn_passes_a_gradient_on() -> None:
    before, *trained = as_quoted("scikit_learn")["errors"].values()
    assert before > 0.9 and max(trained) < 0.4


def test_a_call_of_numpy_is_learned_through() -> None:
    """The shortest whole program; by the mean of its last hundred steps."""
    missed = as_quoted("own_function")["missed"]
    assert missed[0] > 1 and fmean(missed[-100:]) < 0.25


def test_costs_are_learned_through_a_solver() -> None:
    before, *trained = run("solver_in_the_loop")[0]["errors"].values()
    assert before > 0.5 and max(trained) < 0.25


def test_straight_through_is_enough_where_the_tutorial_says_so_and_nowhere_else() -> None:
    scores = as_quoted("which_gradient")["scores"]
    straight, *bridges = scores["to_grid"].values()
    assert straight > max(bridges) - 0.1
    straight, *bridges = scores["zigzag"].values()
    assert straight < 0 < 0.3 < max(bridges)
    assert "straight-through" not in scores["who_wins"] and min(scores["who_wins"].values()) > 0.5


def test_a_code_of_learned_words_is_a_few_bytes_and_comes_back(tmp_path, no_curves, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["vq_code.py", str(tmp_path)])
    left, printed = run("vq_code")
    assert "64 bytes of pixels → 5 bytes of code (8 of 32 words)" in printed
    wrong = (left["restored"].astype(float) - left["digit"]) / 255
    assert (wrong**2).mean() < 0.1  # the mean digit is at 0.14


def test_the_code_of_the_tutorial_is_that_of_the_examples() -> None:
    examples = "".join(path.read_text() for path in (ROOT / "examples").glob("*.py"))
    quoted = re.findall(r"```python\n(.*?)```", (ROOT / "docs/TUTORIAL.md").read_text(), re.DOTALL)
    assert len(quoted) > 4 and not [block for block in quoted if block not in examples]


def test_the_notebook_is_the_first_example_and_runs_cell_by_cell(capsys) -> None:
    """By plain execution of its cells: no kernel needed."""
    cells = json.loads((ROOT / "examples/sort_layer.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    script = (ROOT / "examples/sort_layer.py").read_text()
    assert all(cell.strip() in script for cell in code) and len(code) > 2
    space: dict[str, Any] = {"__name__": "__main__"}
    for cell in code:
        exec(cell, space)
    stored = "".join(line for cell in cells for out in cell.get("outputs", []) for line in out.get("text", []))
    assert NUMBER.sub("#", capsys.readouterr().out.strip()) == NUMBER.sub("#", stored) != ""
