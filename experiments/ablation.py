"""The paper's three case studies of classification: where the hard function stands, what it asks of the layer before,
and whether straight-through would have done."""

from __future__ import annotations

from itertools import product

from experiments import tables
from experiments.blocks import Heading, Part, Table, Text, part
from experiments.classification import ACCURACY, BRIDGE, CIFAR, SEEDS, STRAIGHT, TRUE, VALID, WAYS
from experiments.figures import training_curves
from experiments.results import Metric, Results
from experiments.statistics import PAIRED_RULE, compare_paired
from experiments.study import Cell, Study, grid, pick

PLACEMENT, CONDITIONING, SORT1D = "placement", "conditioning", "sort1d"
STEPS = ("step", "steps")
EMD = Metric("train/emd", digits=3)

AFTER = {f"After block {block}, {way}": (block, way) for way, block in product((BRIDGE, STRAIGHT), (1, 2, 3, 4))}
PLACED = {row: f"{CIFAR} hard=signum model.after={n} {WAYS[way]}" for row, (n, way) in AFTER.items()}
# The printed gamma of 10 lets the penalty drown the task as soon as it reaches the layer before: both at less.
CONDITIONED = {
    f"Routing `{routing}`, gamma {gamma}": f"{CIFAR} hard=sort estimator.routing={routing} estimator.gamma={gamma}"
    for gamma, routing in product((0.001, 0.01), ("released", "equation"))
}
CONTROL = "True gradient"
CONDITIONED |= {CONTROL: f"{CIFAR} hard=sort estimator=true_gradient"}
# One sort over all units leaves features that hardly differ between images: at the recipe's rate the read-out diverges.
ONE_SORT = f"{CIFAR} hard=sort1d model.head=flat optimizer.lr=0.05"
SORTED = {f"Sort1d, {way}": f"{ONE_SORT} {WAYS[way]}" for way in (BRIDGE, STRAIGHT, TRUE, "matched", "detached")}
COLUMNS = {SORT1D: SORTED, CONDITIONING: CONDITIONED, PLACEMENT: PLACED}  # in the order they are worth running


def cells(scale: str) -> list[Cell]:
    if scale == "smoke":
        two = pick(PLACED, *[row for row, (block, way) in AFTER.items() if block in (1, 4)])
        few = {SORT1D: SORTED, CONDITIONING: dict(list(CONDITIONED.items())[:2]), PLACEMENT: two}
        return [cell for column, rows in few.items() for cell in grid(rows, {column: ""}, (0,))]
    return [cell for seed in SEEDS for column, rows in COLUMNS.items() for cell in grid(rows, {column: ""}, (seed,))]


TITLES = {
    PLACEMENT: "Where the hard function stands",
    CONDITIONING: "What the penalty asks of the layer before",
    SORT1D: "One sort over all units: is the bridge 25 points ahead of straight-through?",
}
TEXTS = {
    PLACEMENT: (
        "Signum after each of the four blocks. *Gradient before*: the norm of what arrives at the input of the hard "
        "function, at the end of training and for one image; *after*: at its output; *cosine*: between the two, which "
        "are one and the same for straight-through."
    ),
    CONDITIONING: (
        "The paper finds that the penalty makes the layer before produce partly sorted values. With its printed code "
        "(`released`) the penalty cannot reach that layer; with its printed objective (`equation`) it can. *Distance*: "
        "earth mover's distance over the places of a row or column, before against after sorting; *inverted*: share of "
        "its pairs that sorting turns round, one half by chance. The row with the true gradient has no penalty at all."
    ),
    SORT1D: (
        "The map as one line, sorted, and read out flat. The true gradient of a sort is known; the paper compares with "
        "straight-through alone. One learning rate for all rows."
    ),
}
ENDINGS = {
    PLACEMENT: {"gradient before": "gradient_norm", "after": "gradient_norm_after", "cosine": "gradient_cosine"},
    CONDITIONING: {"distance": "emd", "inverted": "inverted_pairs"},
    SORT1D: {"gradient before": "gradient_norm", "cosine": "gradient_cosine", "inverted": "inverted_pairs"},
}
PAIRS = {
    PLACEMENT: [
        *((f"After block {n}, {way}", f"After block 4, {way}") for way in (BRIDGE, STRAIGHT) for n in (1, 2, 3)),
        *((f"After block {n}, {BRIDGE}", f"After block {n}, {STRAIGHT}") for n in (1, 2, 3, 4)),
    ],
    CONDITIONING: [
        *((f"Routing `equation`, gamma {g}", f"Routing `released`, gamma {g}") for g in (0.001, 0.01)),
        *((row, CONTROL) for row in CONDITIONED if row != CONTROL),
    ],
    SORT1D: [
        *((f"Sort1d, {BRIDGE}", f"Sort1d, {way}") for way in (STRAIGHT, TRUE, "matched", "detached")),
        *((f"Sort1d, {way}", f"Sort1d, {TRUE}") for way in (STRAIGHT, "matched")),
    ],
}


def render(results: Results) -> list[Part]:
    if not any(results):
        return []
    reduced = "" if results.scale == "paper" else " (reduced: an eighth of the width, six epochs)"
    opening = f"The three case studies of the paper, in the Resnet18 of the table before{reduced}. {PAIRED_RULE}"
    parts: list[Part] = [[Heading("Classification: case studies", level=1), Text(opening)]]
    for column in TITLES:
        parts += [case(results, column), figure(results, column)]
    return parts


def case(results: Results, column: str) -> Part:
    endings = [tables.ending(head, f"train/{name}") for head, name in ENDINGS[column].items()]
    columns = [tables.ROW, tables.measured("accuracy, %", ACCURACY), *endings]
    columns += [tables.MORE_PARAMETERS, tables.STEP, tables.TIME, tables.COMMAND]
    table = tables.row_table(results.column(column), columns, TITLES[column], file=f"cifar10_{column}")
    lines = tables.compared(results, PAIRS[column], ACCURACY, (column, ""), judge=compare_paired)
    against = part(Table(("row", "against", "is"), lines))
    return part(Heading(TITLES[column]), Text(TEXTS[column]), table) + against


def figure(results: Results, column: str) -> Part:
    """The paper's three panels: accuracy by place, distance while training, accuracy by estimator."""
    places = results.among(COLUMNS[column], column)
    y = (EMD, "earth mover's distance, places") if column == CONDITIONING else (VALID, "validation accuracy, %")
    what = (f"ablation_{column}", f"{y[1].capitalize()} against steps", TITLES[column], places)
    return [*training_curves(*what, STEPS, y)]


STUDY = Study("classification/ablation", cells, render, lambda results: Table((), ()))
