"""What the atlas runs: functions with their traits, rows that fit them, budgets. Knows nothing of torch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.study import Cell

VERSION = 1  # of the protocol: another one makes all records stale
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Function:
    """What a function is like, as `dab.advise.traits` must find it (a test compares)."""

    name: str
    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    pieces: str  # constant | linear
    monotone: bool = False
    bounded: bool = True
    gradient: bool = False  # one that autograd finds, and that is not zero
    alike: bool = False  # one function of every unit
    numpy: bool = False  # nothing of it is torch
    title: str = ""

    @property
    def keeps_shape(self) -> bool:
        return self.in_shape == self.out_shape

    @property
    def solver(self) -> bool:
        """A choice between solutions that depends on all units."""
        return self.keeps_shape and self.pieces == "constant" and self.bounded and not self.alike


FLAT = (16,)
TRIED = (
    Function("signum", FLAT, FLAT, "constant", monotone=True, alike=True),
    Function("rounding", FLAT, FLAT, "constant", monotone=True, bounded=False, alike=True),
    Function("staircase", FLAT, FLAT, "constant", alike=True, title="staircase that also falls"),
    Function("argmax", (4, 4), (4, 4), "constant", title="4 × argmax of 4"),
    Function("topk", FLAT, FLAT, "constant", title="top-3 mask"),
    Function("sorted", FLAT, FLAT, "linear", monotone=True, bounded=False, gradient=True, title="sorted values"),
    Function("ranks", FLAT, FLAT, "constant"),
    Function("kmeans", (2, 8), (2, 8), "linear", bounded=False, gradient=True, title="k-means of 8 points"),
    Function("medians", FLAT, (4,), "linear", monotone=True, bounded=False, gradient=True, title="medians of 4 groups"),
    Function("histogram", FLAT, (8,), "constant", numpy=True, title="histogram counts"),
    Function("parity", FLAT, (8,), "constant", title="parity of sign pairs"),
    Function("dct", (8, 8), (8, 8), "constant", bounded=False, title="DCT quantisation of 8×8"),
    Function("tree", FLAT, (4,), "constant", numpy=True, title="scikit-learn tree"),
    Function("path", (4, 4), (4, 4), "constant", title="shortest path, 4×4"),
    Function("actuator", FLAT, (8,), "constant", monotone=True, numpy=True, title="actuator simulator"),
)
# The recipe of the fitted bridge comes from trials on the fifteen above; these were written when it was fixed.
HELD_BACK = (
    Function("neighbours", FLAT, (4,), "constant", numpy=True, title="nearest of 256 neighbours"),
    Function("runs", FLAT, (2,), "constant", numpy=True, title="longest runs of signs"),
    Function("energies", FLAT, (4,), "constant", bounded=False, title="rounded energies of 4 groups"),
)
ALL = (*TRIED, *HELD_BACK)
FUNCTIONS: Mapping[str, Function] = {function.name: function for function in ALL}


def everywhere(function: Function) -> bool:
    return True


def same_shape(function: Function) -> bool:
    return function.keeps_shape


def solver(function: Function) -> bool:
    return function.solver


def has_form(function: Function) -> bool:
    """A soft one, known by name."""
    return function.name in ("signum", "argmax", "topk", "sorted", "ranks", "kmeans")


def has_gradient(function: Function) -> bool:
    return function.gradient


def is_choice(function: Function) -> bool:
    return function.name == "argmax"


NEEDS = {
    same_shape: "needs a function that keeps the shape",
    solver: "is for choices between solutions, which depend on all units",
    has_form: "no soft form of this function is known",
    has_gradient: "autograd finds nothing, or zero",
    is_choice: "is for one choice among classes",
}

OURS, CORRECTED, UNBIASED = "fitted bridge", "corrected bridge", "corrected bridge, unbiased"
# Rows are the names of dab.advise.candidates, which says the same by looking at the function itself (a test compares).
ROWS: Mapping[str, Callable[[Function], bool]] = {
    OURS: everywhere,
    CORRECTED: everywhere,
    UNBIASED: everywhere,
    "matched bridge": has_form,
    "relaxation": has_form,
    "dense bridge, as printed": everywhere,
    "frozen random bridge": everywhere,
    "straight-through": same_shape,
    "straight-through, clipped": same_shape,
    "true gradient": has_gradient,
    "smoothing, antithetic": everywhere,
    "smoothing, leave one out": everywhere,
    "SPSA": everywhere,
    "perturbed optimizer": solver,
    "interpolation": solver,
    "I-MLE": solver,
    "identity with projection": solver,
    "Gumbel, straight-through": is_choice,
}
# Ends of the scale where the task has none of its own: 0 and 1 of `use`.
FROZEN, FREE = "frozen encoder", "no hard function"

# The yardstick: everything that goes with a function of one unit.
YARDSTICK = Function("yardstick", (1,), (1,), "constant", monotone=True, alike=True, numpy=True)

# What is spent: steps of `recover` and of `use`, samples, and the functions.
BUDGETS: Mapping[str, Mapping[str, Any]] = {
    "smoke": {"steps": 24, "use_steps": 24, "yardstick_steps": 24, "pool": 512, "held": 256, "pairs": 16},
    "cpu": {"steps": 2000, "use_steps": 800, "yardstick_steps": 800, "pool": 32768, "held": 4096, "pairs": 512},
}
SMOKE = ("signum", "sorted", "histogram", "tree", "path")


def cells(scale: str) -> list[Cell]:
    """One seed of every task first, so that whole comparisons are there early; then the others."""
    if scale not in BUDGETS:
        return []
    functions = [f for f in ALL if scale != "smoke" or f.name in SMOKE]
    planned = []
    for seed in SEEDS[:1] if scale == "smoke" else SEEDS:
        for function in functions:
            planned += [_cell(row, function.name, "recover", seed, scale) for row in rows_of(function)]
        planned += [_cell(row, YARDSTICK.name, "mse", seed, scale) for row in rows_of(YARDSTICK)]
        for function in functions:
            if function in HELD_BACK:
                continue  # `recover` is the test of the recipe
            rows = (FROZEN, FREE, *rows_of(function))
            planned += [_cell(row, function.name, "use", seed, scale) for row in rows]
    return planned


def rows_of(function: Function) -> list[str]:
    return [row for row, fits in ROWS.items() if fits(function)]


def why_empty(row: str, function: Function) -> str:
    """Why a row may have no score on a function."""
    return "not run yet" if ROWS[row](function) else f"does not apply: {NEEDS[ROWS[row]]}"


def _cell(row: str, column: str, task: str, seed: int, scale: str) -> Cell:
    words = (f"task={task}", f"function={column}", f"estimator={row}")
    defined = repr((VERSION, scale, sorted(BUDGETS[scale].items()), words, seed))
    return Cell(row, column, seed, words, task, hashlib.sha256(defined.encode()).hexdigest()[:16])
