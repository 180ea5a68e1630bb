"""The classification study: hard functions inside a Resnet18 for CIFAR10, and every gradient through them.

What is run, and with which learning rates; classification_page.py says what came of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from experiments.results import Metric
from experiments.statistics import printed
from experiments.study import Cell, grid, once, pick

ACCURACY = Metric("test/accuracy", factor=100)
VALID = ACCURACY.on("valid")
SEEDS, MORE_SEEDS = (0, 1, 2), (3, 4)
# Columns: two recipes for the Resnet, and for the dense net.
MODERN, PRINTED, DENSE_NET, DENSE_PRINTED = "modern", "printed", "dense", "dense-printed"
COLUMNS = {MODERN: "", PRINTED: "recipe=paper"}

# What each row is called, and its command but for the recipe and the seed.
CIFAR, DENSE = "experiment=classification/cifar10", "experiment=classification/dense"
HARD = {
    "Sort": "hard=sort",
    "Signum": "hard=signum",
    "K-Means": "hard=kmeans",  # before a pooled head, as the paper may have had it: invisible, but for its gradient
    "K-Means, flat": "hard=kmeans model.head=flat",
    "Centroids": "hard=kmeans hard.output=centroids",
    **{f"Topk {k}": f"hard=topk hard.k={k}" for k in (1, 2, 3)},
}
BRIDGE, SKIP, TRUE, STRAIGHT = "dense bridge", "dense bridge with skip", "true gradient", "straight-through"
WAYS = {
    BRIDGE: "",
    "dense bridge of 512": "approximator.hidden=[512,512]",  # instead of 128 and 128
    SKIP: "approximator.skip=true",
    TRUE: "estimator=true_gradient",
    STRAIGHT: "estimator=straight_through",
    "matched": "approximator=matched",
    "sharp matched": "approximator=matched approximator.slope=16 approximator.cap=64",  # nearer to the true gradient
    "lines": "approximator=lines",
    "convolutional": "approximator=conv",
    "fitted": "estimator=fitted",
    "fitted with skip": "estimator=fitted approximator.skip=true",
    "frozen random bridge": "approximator.frozen=true",
    "detached": "estimator=detached",
}
SIZES = tuple(way for way in WAYS if way.startswith(f"{BRIDGE} "))
LEARNED = (BRIDGE, *SIZES, "matched", "lines", "convolutional", "fitted", "fitted with skip")
CONTROLS = ("frozen random bridge", "detached")
TRAINED = {
    "Sort": (TRUE, *LEARNED, *CONTROLS),
    "Signum": (STRAIGHT, BRIDGE, SKIP, "matched", "convolutional", "fitted", *CONTROLS),
    "K-Means, flat": (TRUE, STRAIGHT, BRIDGE, SKIP, "matched", "sharp matched", "convolutional", "detached"),
    "Topk 2": (TRUE, BRIDGE, SKIP, "matched", "lines", "detached"),
    "Topk 1": (TRUE,),
    "Topk 3": (TRUE,),
    "Centroids": (TRUE, BRIDGE, SKIP, "matched"),
    "K-Means": (BRIDGE,),
}
POOLED, FLAT = "Baseline, pooled", "Baseline, flat"
VARIANTS = {  # of the recipe, by the baseline
    "Baseline with ReLU, pooled": "model.activation=relu",  # signum after a ReLU would have two values, not three
    "Baseline with crops, pooled": "data.crop=4",
    "Baseline with quick norms, pooled": "model.norm_momentum=0.3",
    "Baseline by plain SGD, pooled": "optimizer.nesterov=false optimizer.weight_decay=0 task.label_smoothing=0",
}
SORT, SORT_TRUE = f"Sort, {BRIDGE}", f"Sort, {TRUE}"
ROWS = {
    POOLED: f"{CIFAR} estimator=no_hard",
    FLAT: f"{CIFAR} estimator=no_hard model.head=flat",
    **{row: f"{CIFAR} estimator=no_hard {words}" for row, words in VARIANTS.items()},
    **{f"{hard}, {way}": f"{CIFAR} {HARD[hard]} {WAYS[way]}" for hard, ways in TRAINED.items() for way in ways},
}
PLACES = {f"After block {block}, {BRIDGE}": f"{CIFAR} hard=signum model.after={block}" for block in (1, 2, 3)}
ONE_SORT = {  # over all units
    f"Sort1d, {way}": f"{CIFAR} hard=sort1d model.head=flat {WAYS[way]}"
    for way in (BRIDGE, STRAIGHT, TRUE, "matched", "detached")
}
NO_HARD = "Dense net, no hard function"
DENSE_SIGNUM, DENSE_SORT = (f"Dense net, {hard}, {BRIDGE}" for hard in ("signum", "sort1d"))
DENSE_STRAIGHT = f"Dense net, signum, {STRAIGHT}"
DENSE_NETS = {
    NO_HARD: f"{DENSE} estimator=no_hard",
    DENSE_SIGNUM: f"{DENSE} hard=signum",
    DENSE_STRAIGHT: f"{DENSE} hard=signum estimator=straight_through",
    DENSE_SORT: f"{DENSE} hard=sort1d",
    f"Dense net, sort1d, {TRUE}": f"{DENSE} hard=sort1d estimator=true_gradient",
    "Dense net, signum, detached": f"{DENSE} hard=signum estimator=detached",
}
# At a rate where one way trains another diverges, so each has its own, by the search of classification_search.py; where
# it has none, a row takes the rate of the same way after a sort (straight-through: after a signum).
RATES = {
    "pooled": "0.4",
    "flat": "0.4",
    TRUE: "0.4",
    STRAIGHT: "0.4",
    BRIDGE: "0.15",
    "dense bridge of 512": "0.15",
    SKIP: "0.15",
    "matched": "0.4",
    "sharp matched": "0.4",
    "lines": "0.4",
    "convolutional": "0.15",
    "fitted": "0.4",
    "fitted with skip": "0.4",
    "frozen random bridge": "0.15",
    "detached": "0.15",
}
BRIDGES = {  # the paper's way has a search after every function, and signum after every block
    f"Signum, {BRIDGE}": "0.4",
    f"K-Means, flat, {BRIDGE}": "0.15",
    f"Topk 2, {BRIDGE}": "0.05",
    f"Centroids, {BRIDGE}": "0.15",
}
OWN = BRIDGES | {f"K-Means, {BRIDGE}": "0.15"}  # the same function before another head
OWN |= dict(zip(PLACES, ("0.15", "0.15", "0.4"))) | dict.fromkeys(ONE_SORT, "0.05")
OWN |= {f"Sort1d, {STRAIGHT}": "0.02", f"Sort1d, {TRUE}": "0.4", "Sort1d, matched": "0.4"}
OWN |= dict.fromkeys(DENSE_NETS, "0.05") | {DENSE_SORT: "0.02"}  # in six of its twenty epochs


def way_of(row: str) -> str:
    return row.rpartition(", ")[2]


def rate_of(row: str) -> str:
    return OWN.get(row) or RATES[way_of(row)]


RATE = re.compile(r"budget\.cpu\.lr=([\d.]+)")


def lr(rate: str, in_file: str = RATES[BRIDGE]) -> str:
    """What the experiment's file says itself, the rate of its dense bridge after a sort, need not be said."""
    return "" if rate == in_file else f"budget.cpu.lr={rate}"


RATED = {row: f"{words} {lr(rate_of(row))}".rstrip() for row, words in ROWS.items()}
ON_POOLED = ("Signum", f"K-Means, {BRIDGE}")
# The baseline with the same head.
HEADS = {row: POOLED if row.startswith(ON_POOLED) else FLAT for row in ROWS if row not in VARIANTS}
DENSE_ROWS = {row: f"{words} {lr(rate_of(row), OWN[NO_HARD])}".rstrip() for row, words in DENSE_NETS.items()}
FIRST = (POOLED, FLAT, SORT_TRUE, SORT)
FIVE = (FLAT, SORT, SORT_TRUE)
SIGNUM, TOPK, KMEANS = f"Signum, {BRIDGE}", f"Topk 2, {BRIDGE}", f"K-Means, {BRIDGE}"
DECIDING = ("Signum, matched", SIGNUM, f"K-Means, flat, {TRUE}", "Sort, lines", f"Topk 2, {TRUE}", "Sort, matched")
THEIRS = {POOLED: (92.87, 0.06), SIGNUM: (91.95, 0.07), SORT: (92.93, 0.10), TOPK: (92.21, 0.14), KMEANS: (91.97, 0.16)}
PAPER = printed(COLUMNS, {row: (number, number) for row, number in THEIRS.items()}, samples=200 * 45_000)


SHARE = {CIFAR: 0.25, DENSE: 1.0}  # of the reduced scale's rate at full scale: that of the baselines, 0.1 and 0.05


def full_scale(cells: Iterable[Cell]) -> list[Cell]:
    """With learning rates in the proportion that was searched at the reduced scale, which is all that is known."""

    def scaled(cell: Cell) -> tuple[str, ...]:
        share = SHARE[cell.overrides[0]]
        return tuple(RATE.sub(lambda rate: f"budget.paper.lr={float(rate[1]) * share:g}", w) for w in cell.overrides)

    return [replace(cell, overrides=scaled(cell)) for cell in cells]


def gradients() -> list[tuple[str, str]]:
    """Row against row of one function: every way against the best known one, learned ones against the controls."""
    pairs = []
    for hard, ways in TRAINED.items():
        known = next((way for way in (TRUE, STRAIGHT) if way in ways), None)
        pairs += [(f"{hard}, {way}", f"{hard}, {known}") for way in ways if known not in (None, way)]
        bridges = [way for way in (*LEARNED, "sharp matched") if way in ways and BRIDGE in ways]
        pairs += [(f"{hard}, {way}", f"{hard}, {BRIDGE}") for way in bridges if way != BRIDGE]
        pairs += [(f"{hard}, {BRIDGE}", f"{hard}, {way}") for way in CONTROLS if way in ways]
    return pairs


def cells(scale: str) -> list[Cell]:
    """In the order they are worth running: whole comparisons, a row of everything, then function by function."""
    modern, printed_recipe, dense = pick(COLUMNS, MODERN), pick(COLUMNS, PRINTED), {DENSE_NET: ""}
    theirs = pick(ROWS, *THEIRS, FLAT, SORT_TRUE)
    if scale == "smoke":
        few = pick(RATED, *FIRST, "Sort, matched", "Sort, detached", f"K-Means, flat, {STRAIGHT}")
        twice = grid(pick(RATED, *FIRST), modern, (1,))  # enough to see a spread
        return [*grid(few, modern, (0,)), *twice, *grid(pick(DENSE_ROWS, NO_HARD), dense, (0,))]
    dense_printed = grid(pick(DENSE_NETS, NO_HARD, DENSE_SIGNUM, DENSE_SORT), {DENSE_PRINTED: "recipe=paper"}, SEEDS)
    cells = once(
        grid(pick(RATED, *FIRST), modern, SEEDS),
        grid(RATED, modern, SEEDS[:1]),
        grid(DENSE_ROWS, dense, SEEDS[:1]),
        grid(theirs, printed_recipe, SEEDS[:1]),
        grid(pick(RATED, *DECIDING), modern, SEEDS),
        grid(pick(RATED, *FIVE), modern, MORE_SEEDS),
        grid(DENSE_ROWS, dense, SEEDS),
        *(grid(pick(RATED, *(f"{hard}, {way}" for way in ways)), modern, SEEDS) for hard, ways in TRAINED.items()),
        grid(RATED, modern, SEEDS),
        dense_printed,
        grid(theirs, printed_recipe, SEEDS),
    )
    return full_scale(cells) if scale == "paper" else cells
