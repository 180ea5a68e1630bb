"""The paper's three case studies of classification: where the hard function stands, what it asks of the layer before,
and whether straight-through would have done."""

from __future__ import annotations

from itertools import product

from experiments import tables
from experiments.blocks import Heading, Part, Table, Text, part
from experiments.classification import (
    ACCURACY,
    BRIDGE,
    CIFAR,
    FLAT,
    ONE_SORT,
    OWN,
    RATED,
    SEEDS,
    SORT,
    SORT_TRUE,
    STRAIGHT,
    TRUE,
    VALID,
    WAYS,
    lr,
    rate_of,
)
from experiments.figures import training_curves
from experiments.results import Metric, Place, Results
from experiments.statistics import PAIRED_RULE, Sample, compare_paired
from experiments.step_costs import COST, EXPLAINED
from experiments.study import Cell, Study, grid, pick

PLACEMENT, CONDITIONING, SORT1D = "placement", "conditioning", "sort1d"
STEPS = ("step", "steps")
EMD, INVERTED = Metric("train/emd", digits=3), Metric("train/inverted_pairs", digits=3)

PLACED_WAYS = (BRIDGE, STRAIGHT, "matched")
AFTER = {f"After block {block}, {way}": (block, way) for way, block in product(PLACED_WAYS, (1, 2, 3, 4))}
PLACED = {  # straight-through and matched have their rate of the last block everywhere
    row: f"{CIFAR} hard=signum model.after={block} {WAYS[way]} {lr(OWN.get(row) or rate_of(f'Signum, {way}'))}".rstrip()
    for row, (block, way) in AFTER.items()
}
# The printed gamma of 10 lets the penalty drown the task as soon as it reaches the layer before: two at less. Where it
# does not, gamma scales the loss of the approximator alone, whose Adam takes no notice: one is enough.
CONDITIONED = {
    f"Routing `{routing}`, gamma {gamma}": f"{RATED[SORT]} estimator.routing={routing} estimator.gamma={gamma}"
    for routing, gamma in (("released", 0.01), ("equation", 0.001), ("equation", 0.01), ("equation", 10))
}
RELEASED, *EQUATION, DROWNED = CONDITIONED
CONTROL, UNTRAINED = "True gradient", "No gradient: as the weights began"
CONDITIONED |= {CONTROL: RATED[SORT_TRUE], UNTRAINED: RATED["Sort, detached"]}
SORTED = {row: f"{words} {lr(rate_of(row))}".rstrip() for row, words in ONE_SORT.items()}
UNSORTED = "No sort"
SORTED[UNSORTED] = RATED[FLAT]
SORTED |= {
    f"Sort1d, {way}, paper's recipe": f"{CIFAR} hard=sort1d model.head=flat recipe=paper {WAYS[way]}"
    for way in (BRIDGE, STRAIGHT, TRUE, "detached")
}
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
        "are one and the same for straight-through. The bridge has a search of its learning rate at every place, "
        "straight-through the rate of the last."
    ),
    CONDITIONING: (
        "The paper finds that the penalty makes the layer before produce partly sorted values. With its printed code "
        "(`released`) the penalty cannot reach that layer; with its printed objective (`equation`) it can. *Distance*: "
        "earth mover's distance over the places of a row or column, before against after sorting; *inverted*: share of "
        "its pairs that sorting turns round, one half by chance. The row with the true gradient has no penalty at all, "
        "the one without a gradient is where all of them began."
    ),
    SORT1D: (
        "The map as one line, sorted, and read out flat. The true gradient of a sort is known; the paper compares with "
        "straight-through alone. *Cosine*: with the true gradient, at the end of training. The bridge, "
        "straight-through and the true gradient have a search of their learning rate; matched has that of the true "
        "gradient, detached that of the bridge. SGD steps in proportion to a gradient, the Adam of the paper's recipe "
        "does not: the last rows tell its size from its direction."
    ),
}
ENDINGS = {
    PLACEMENT: {"gradient before": "gradient_norm", "after": "gradient_norm_after", "cosine": "gradient_cosine"},
    CONDITIONING: {"distance": "emd", "inverted": "inverted_pairs"},
    SORT1D: {"gradient before": "gradient_norm", "cosine": "true_cosine", "inverted": "inverted_pairs"},
}
PAIRS = {
    PLACEMENT: [
        *((f"After block {n}, {way}", f"After block 4, {way}") for way in (BRIDGE, STRAIGHT) for n in (1, 2, 3)),
        *((f"After block {n}, {BRIDGE}", f"After block {n}, {STRAIGHT}") for n in (1, 2, 3, 4)),
    ],
    CONDITIONING: [
        *((row, RELEASED) for row in EQUATION),
        *((row, CONTROL) for row in (RELEASED, *EQUATION)),
        *((row, UNTRAINED) for row in (RELEASED, CONTROL)),
    ],
    SORT1D: [
        *((f"Sort1d, {BRIDGE}", f"Sort1d, {way}") for way in (STRAIGHT, TRUE, "matched", "detached")),
        *((f"Sort1d, {way}", f"Sort1d, {TRUE}") for way in (STRAIGHT, "matched")),
        (f"Sort1d, {TRUE}", UNSORTED),
        *(
            (f"Sort1d, {BRIDGE}, paper's recipe", f"Sort1d, {way}, paper's recipe")
            for way in (STRAIGHT, TRUE, "detached")
        ),
    ],
}


def render(results: Results) -> list[Part]:
    if not any(results):
        return []
    reduced = " (reduced: an eighth of the width, six epochs)" if results.scale == "cpu" else ""
    opening = f"The three case studies of the paper, in the Resnet18 of the table before{reduced}."
    parts: list[Part] = [
        [Heading("Classification: case studies", level=1), *map(Text, (opening, EXPLAINED, PAIRED_RULE))]
    ]
    for column in TITLES:
        parts += [case(results, column), figure(results, column)]
    return parts


def case(results: Results, column: str) -> Part:
    endings = [tables.ending(head, f"train/{name}") for head, name in ENDINGS[column].items()]
    columns = [tables.ROW, tables.measured("accuracy, %", ACCURACY), *endings]
    columns += [tables.MORE_PARAMETERS, COST, tables.TIME, tables.COMMAND]
    table = tables.row_table(results.column(column), columns, TITLES[column], file=f"cifar10_{column}")
    against = part(tables.comparison(results, PAIRS[column], ACCURACY, (column, ""), judge=compare_paired))
    if column == CONDITIONING:
        against += part(Text(ENDS), ends_compared(results))
    if column == SORT1D:
        against += explained(results)
    return part(Heading(TITLES[column]), Text(TEXTS[column]), table) + against


def explained(results: Results) -> Part:
    """Why the bridge is not far ahead of straight-through: how near both are to the gradient that is known."""
    ways = {way: results.at(f"Sort1d, {way}", SORT1D) for way in (BRIDGE, STRAIGHT, TRUE, "detached")}
    if not all(ways.values()):
        return []
    accuracy = {way: place.sample(ACCURACY) for way, place in ways.items()}
    cosines = [(place.last("train/true_cosine") or Sample(())).text(2) for place in ways.values()]
    text = (
        "What the 25 points become beside the gradient that is known. Neither of the two learns where in the map a "
        f"sorted value came from: at the end of training the bridge's gradient has a cosine of {cosines[0]} with the "
        f"true one, straight-through's {cosines[1]}. Both teach the layers before something ({accuracy[BRIDGE].text()} "
        f"and {accuracy[STRAIGHT].text()} %, without any gradient {accuracy['detached'].text()} %) and both are far "
        f"from the true gradient: the bridge {compare_paired(accuracy[BRIDGE], accuracy[TRUE])}, straight-through "
        f"{compare_paired(accuracy[STRAIGHT], accuracy[TRUE])}."
    )
    return [Text(text)]


ENDS = "And at the end of training, *ahead* meaning a longer distance and more inverted pairs:"


def ends_compared(results: Results) -> Table:
    def of(place: Place, metric: Metric) -> Sample:
        return place.last(metric.name) or Sample(())

    distances, inverted = (
        tables.compared(results, PAIRS[CONDITIONING], metric, (CONDITIONING, ""), judge=compare_paired, of=of)
        for metric in (EMD, INVERTED)
    )
    return Table(("row", "against", "distance", "inverted"), [[*one, two[-1]] for one, two in zip(distances, inverted)])


def figure(results: Results, column: str) -> Part:
    """The paper's three panels: accuracy by place, distance while training, accuracy by estimator."""
    places = results.among(COLUMNS[column], column)
    y = (EMD, "earth mover's distance, places") if column == CONDITIONING else (VALID, "validation accuracy, %")
    what = (f"ablation_{column}", f"{TITLES[column].rstrip('?')}: {y[1]} against steps", TITLES[column], places)
    return [*training_curves(*what, STEPS, y)]


STUDY = Study("classification/ablation", cells, render, lambda results: Table((), ()))
