"""The adviser: what it finds out of a function, what it says of wrong ones, and code that runs as it is printed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import dab
from dab.advise import advice as advising
from dab.advise.__main__ import main, snippet, table
from dab.advise.advice import LEAST_STEPS, Advice, Tried
from dab.advise.candidates import BY_NAME, CANDIDATES
from dab.advise.function import named
from dab.advise.recover import Recover
from dab.advise.traits import Traits, traits_of
from dab.hard import Round, Signum

MODULE = """
import numpy as np
import torch
from sklearn.tree import DecisionTreeRegressor

x = np.random.default_rng(0).normal(size=(300, 8))
tree = DecisionTreeRegressor(max_depth=4, random_state=0).fit(x, np.tanh(x[:, :2]))

def halves(x):  # numpy, and another output shape
    return np.floor(2 * (x[:, :4] + x[:, 4:]))

def labels(x):  # whole numbers, one for a sample
    return (x.sum(1) > 0).astype(int)

def on_torch(z):
    return torch.sign(z) > 0

def nothing(x):
    return None

def text(x):
    return np.array(["a"] * len(x))

def a_list(x):
    return [1.0] * len(x)

def undefined(x):
    return np.log(x)

def one_row(x):
    return x.sum(0)

def writes(x):
    x *= 2
    return np.sign(x)

def writes_torch(z):
    return z.mul_(2).sign()

def raises(x):
    raise RuntimeError("no\\nsuch thing")

number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of somebody's, in the folder where the command runs. Its name is its own: imports are remembered."""
    name = f"mine_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return name


@pytest.mark.parametrize(
    ("function", "shape", "says"),
    [
        ("halves", "8", "as module:function"),
        ("no_such_module_here:f", "8", "cannot import no_such_module_here"),
        ("{}:halve", "8", "has no halve; it has .*halves"),
        ("{}:number", "8", "number is a int"),
        ("{}:tree.predict", "7", r"ValueError on a batch \[8, 7\]"),
        ("{}:raises", "8", "RuntimeError .*: no such thing"),
        ("{}:nothing", "8", "a NoneType: .* array or tensor"),
        ("{}:a_list", "8", "a list: .* array or tensor"),
        ("{}:text", "8", "an array of <U1"),
        ("{}:undefined", "8", "NaN or infinity for 8 of 8"),
        ("{}:one_row", "8", r"\[8, 9\] into \[9\]"),
        ("{}:writes", "8", "changes its input"),
        ("{}:writes_torch", "8", "changes its input"),
        ("dab.hard:TopK", "8", "cannot be made without arguments"),
    ],
)
def test_wrong_input_gets_one_clear_line(module: str, function: str, shape: str, says: str, capsys) -> None:
    if function.endswith("one_row"):
        shape = "9"  # with 8 it would keep the batch size by chance
    assert main([function.format(module), "--shape", shape]) == 2
    told = capsys.readouterr()
    assert not told.out and len(told.err.splitlines()) == 1
    assert re.search(says, told.err), told.err


@pytest.mark.parametrize(("option", "value"), [("--shape", "4y"), ("--shape", "0"), ("--seconds", "-1")])
def test_wrong_options_are_told_what_is_allowed(option: str, value: str, capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["dab.hard:Signum", "--shape", "8", option, value])
    assert "must be" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("function", "out_shape", "gradient"),
    [("halves", (4,), "none"), ("labels", (), "none"), ("on_torch", (8,), "none"), ("tree.predict", (2,), "none")],
)
def test_any_callable_becomes_a_hard_function(module: str, function: str, out_shape, gradient, monkeypatch) -> None:
    monkeypatch.setattr("dab.advise.traits.FITS", 2)
    traits = traits_of(named(f"{module}:{function}", (8,)).hard, (8,))
    assert traits.out_shape == out_shape and traits.gradient == gradient
    assert traits.pieces == "constant" and traits.deterministic


@pytest.mark.parametrize(
    ("function", "in_shape"),
    [("dab.hard:Signum", (8,)), ("dab.hard:Argmax", (3, 8)), ("{}:on_torch", (8,)), ("{}:halves", (8,))],
)
def test_the_code_of_every_candidate_runs_as_it_is_printed(module: str, function: str, in_shape) -> None:
    """Modules, a function of tensors and one of arrays that changes the shape, with every candidate that fits."""
    found = named(function.format(module), in_shape)
    traits = Traits(in_shape, dab.hard.out_shape(found.hard, in_shape), True, 1, 0, True, True, "none", False, 1, 1, 1)
    fitting = [c for c in CANDIDATES if not c.why_not(found.hard, traits)]
    assert len(fitting) >= 6
    for candidate in fitting:
        code = snippet(found, Advice(traits, 100, [Tried(candidate, 0.1, 1.0, 1.0, {0: 0.5})], {}, []))
        assert len([line for line in code.splitlines() if line]) == 10
        exec(code, {})


def test_the_command_from_end_to_end(module: str, capsys, monkeypatch) -> None:
    monkeypatch.setattr("dab.advise.traits.FITS", 20)
    assert main([f"{module}:halves", "--shape", "8", "--seconds", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["traits"]["out_shape"] == [4] and told["traits"]["pieces"] == "constant"
    assert told["take"] in {one["estimator"] for one in told["tried"]} and told["steps"] >= LEAST_STEPS
    assert "straight-through" in told["does_not_fit"]
    exec(told["code"], {})


def tried(name: str, scores: list[float], calls: float, step: float = 0.01) -> Tried:
    return Tried(BY_NAME[name], step, calls, 100 * step, dict(enumerate(scores)))


def test_of_equals_the_cheapest_is_taken_and_the_better_one_where_it_is_better() -> None:
    traits = traits_of_signum()
    dear, cheap = tried("corrected bridge", [0.9, 0.94], 5), tried("fitted bridge", [0.91, 0.9], 1)
    steady = tried("fitted bridge", [0.87, 0.91], 1)  # always a little behind, whatever the spread of both
    level = Advice(traits, 500, [dear, cheap], {}, [])
    assert level.taken is cheap and "corrected bridge" in level.sentences()
    ahead = Advice(traits, 500, [dear, steady], {}, [])
    assert ahead.taken is dear and "guess" not in ahead.sentences()
    lost = Advice(traits, 500, [tried("SPSA", [0.0, -0.1], 5)], {}, [])
    assert lost.sentences().startswith("None of the 1")
    assert "SPSA" in table(lost)


def traits_of_signum() -> Traits:
    return Traits((8,), (8,), True, 1.0, 0.0, True, True, "none", True, 0.8, 1e-6, 0.9)


@pytest.mark.parametrize("seconds", [0.1, 3.0, 20.0, 1000.0])
def test_the_plan_keeps_to_the_time(seconds: float) -> None:
    """Fewer seeds, then fewer candidates; two stay in any case, with enough steps to tell something."""
    candidates = [tried(c.name, [], 1, step) for c, step in zip(CANDIDATES, (0.02, 0.01, 0.004, 0.003, 0.002))]
    seeds, steps, left_out = advising._plan(candidates, seconds)
    planned = seeds * steps * sum(one.step_seconds for one in candidates if one not in left_out)
    assert steps >= LEAST_STEPS and len(candidates) - len(left_out) >= 2
    assert planned <= seconds or (seeds == 1 and steps == LEAST_STEPS and len(left_out) == 3)
    assert (seeds, left_out) == (3, []) or seconds < 20


def test_the_scale_of_scores_and_what_learns() -> None:
    task = Recover(Signum(), (6,), seed=1, pool=512, held=256)
    assert task.score(task.teacher, "test") == 1.0 and task.score(task.start, "test") == 0.0
    still = task.train(dab.estimators.Detached(task.hard), 5e-3, 5)
    assert task.score(still.encoder, "test") == 0.0 and still.calls == 1
    learned = task.train(dab.StraightThrough(task.hard), 5e-3, 60)
    assert task.score(learned.encoder, "test") > 0.5
    again = task.train(dab.StraightThrough(task.hard), 5e-3, 60)
    assert task.score(again.encoder, "test") == task.score(learned.encoder, "test")


def test_a_training_that_breaks_has_the_worst_score() -> None:
    task = Recover(Round(), (4,), pool=64, held=64)
    broken = task.train(dab.StraightThrough(task.hard), 1e30, 60)
    assert task.score(broken.encoder, "test") == -1.0 and broken.steps <= 51


def test_a_function_that_draws_is_scored_against_what_its_teacher_can_do() -> None:
    task = Recover(dab.hard.Bernoulli(), (6,), pool=512, held=512)
    assert task.least["test"] > 0.1
    assert abs(task.score(task.teacher, "test") - 1) < 0.5


@pytest.mark.parametrize("name", ["smoothing, antithetic", "smoothing, leave one out", "SPSA", "corrected bridge"])
def test_who_draws_around_the_input_has_equally_many_calls(name: str) -> None:
    task = Recover(Signum(), (6,), pool=128, held=64)
    layer = BY_NAME[name].layer(task.hard, (6,), BY_NAME[name].settings[0])
    task.train(layer, 1e-3, 1)  # the first step may try the function
    assert task.train(layer, 1e-3, 3).calls == 5


def test_every_candidate_has_as_many_tries() -> None:
    assert {len(candidate.settings) for candidate in BY_NAME.values()} == {4}
