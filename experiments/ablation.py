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
    ROWS,
    SEEDS,
    SORT,
    SORT_TRUE,
    STRAIGHT,
    TRUE,
    VALID,
    WAYS,
    full_scale,
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


def placed_rate(row: str, way: str) -> str:
    return "0.15" if way == STRAIGHT else OWN.get(row) or rate_of(f"Signum, {way}")


AFTER = {f"After block {block}, {way}": (block, way) for way, block in product(PLACED_WAYS, (1, 2, 3, 4))}
PLACED = {  # matched has its rate of the last block everywhere
    row: f"{CIFAR} hard=signum model.after={block} {WAYS[way]} {lr(placed_rate(row, way))}".rstrip()
    for row, (block, way) in AFTER.items()
}
BRIDGED = f"{ROWS[SORT]} {lr('0.05')}"
CONDITIONED = {
    f"Routing `{routing}`, gamma {gamma}": f"{BRIDGED} estimator.routing={routing} estimator.gamma={gamma}"
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
    cells = [cell for seed in SEEDS for column, rows in COLUMNS.items() for cell in grid(rows, {column: ""}, (seed,))]
    return full_scale(cells) if scale == "paper" else cells


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
        "straight-through 0.15, matched the rate of the last. The dense bridge has two layers of 128 units everywhere, "
        "however large the map; matched has one number."
    ),
    CONDITIONING: (
        "The paper finds that the penalty makes the layer before produce partly sorted values. With its printed code "
        "(`released`) the penalty cannot reach that layer; with its printed objective (`equation`) it can. *Distance*: "
        "earth mover's distance over the places of a row or column, before against after sorting; *inverted*: share of "
        "its pairs that sorting turns round, one half by chance. The row with the true gradient has no penalty at all, "
        "the one without a gradient is where all of them began. Where the penalty cannot reach that layer, its weight "
        "only scales the loss of the approximator, of which Adam takes no notice: one `released` row is enough. Where "
        "it can, the printed weight, 10, stands beside two at which the net trains; these two are judged."
    ),
    SORT1D: (
        "The map as one line, sorted, and read out flat. The true gradient of a sort is known; the paper compares with "
        "straight-through alone. *Cosine*: with the true gradient, at the end of training. The bridge, "
        "straight-through and the true gradient have a search of their learning rate; matched has that of the true "
        "gradient, detached that of the bridge. SGD steps in proportion to a gradient, the Adam of the paper's recipe "
        "does not: the last rows tell its size from its direction. A bridge with a linear map beside it (*with skip*, "
        "in the table before) is no row: over 1,024 values at once it diverged or learned nothing at three rates tried."
    ),
}
ENDINGS = {
    PLACEMENT: {"gradient before": "gradient_norm", "after": "gradient_norm_after", "cosine": "gradient_cosine"},
    CONDITIONING: {"distance": "emd", "inverted": "inverted_pairs"},
    SORT1D: {"gradient before": "gradient_norm", "cosine": "true_cosine", "inverted": "inverted_pairs"},
}
PAIRS = {
    PLACEMENT: [
        *((f"After block {n}, {way}", f"After block 4, {way}") for way in PLACED_WAYS for n in (1, 2, 3)),
        *((f"After block {n}, {BRIDGE}", f"After block {n}, {way}") for way in PLACED_WAYS[1:] for n in (1, 2, 3, 4)),
    ],
    CONDITIONING: [
        *((row, RELEASED) for row in (*EQUATION, DROWNED)),
        *((row, CONTROL) for row in (RELEASED, *EQUATION)),
        *((row, UNTRAINED) for row in (RELEASED, *EQUATION, DROWNED, CONTROL)),
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
        parts += [case(results, column), figures(results, column)]
    return parts


def case(results: Results, column: str) -> Part:
    endings = [tables.ending(head, f"train/{name}") for head, name in ENDINGS[column].items()]
    columns = [tables.ROW, tables.measured("accuracy, %", ACCURACY), *endings]
    columns += [tables.MORE_PARAMETERS, COST, tables.TIME, tables.COMMAND]
    table = tables.row_table(results.column(column), columns, TITLES[column], file=f"cifar10_{column}")
    against = part(tables.comparison(results, PAIRS[column], ACCURACY, (column, ""), judge=compare_paired))
    if column == CONDITIONING:
        against += part(Text(ENDS), ends_compared(results)) + moved(results)
    if column == SORT1D:
        against += explained(results)
    return part(Heading(TITLES[column]), Text(TEXTS[column]), table) + against


def explained(results: Results) -> Part:
    """How near the bridge and straight-through come to the gradient that is known, and to none at all."""
    ways = {way: results.at(f"Sort1d, {way}", SORT1D) for way in (BRIDGE, STRAIGHT, TRUE, "detached")}
    if not all(ways.values()):
        return []
    bridge, straight, true, none = (place.sample(ACCURACY) for place in ways.values())
    cosines = [(place.last("train/true_cosine") or Sample(())).text(2) for place in ways.values()]
    text = (
        "What the 25 points become beside the gradient that is known. To tell where in the map a sorted value came "
        "from a gradient has to point where the true one does, a cosine of 1: at the end of training the bridge's has "
        f"one of {cosines[0]}, straight-through's {cosines[1]}. Against no gradient at all the bridge is "
        f"{compare_paired(bridge, none)}, straight-through {compare_paired(straight, none)}; against the true gradient "
        f"the bridge is {compare_paired(bridge, true)}, straight-through {compare_paired(straight, true)}. What one "
        "learning rate for both would make of the comparison stands under *Which learning rate?*"
    )
    return [Text(text)]


def moved(results: Results) -> Part:
    """Whether the distance falls, as the paper saw it, from where the weights began."""
    began = results.at(UNTRAINED, CONDITIONING)
    trained = [place for place in results.column(CONDITIONING) if place and place.row != UNTRAINED]
    first = began.last(EMD.name) if began else None
    ends = {place.row: end.mean for place in trained if (end := place.last(EMD.name))}
    if first is None or not ends:
        return []
    below = [f"{row} ({end:.3f})" for row, end in ends.items() if end < first.mean]
    text = (
        f"As the weights began the distance is {first.mean:.3f}. In the mean over the seeds it has fallen below that "
        f"at the end of training in {len(below)} of {len(ends)} rows{': ' if below else ''}{', '.join(below)}."
    )
    return [Text(text)]


ENDS = "And at the end of training, *ahead* meaning a longer distance and more inverted pairs:"


def ends_compared(results: Results) -> Table:
    def end(place: Place, metric: Metric) -> Sample:
        return place.last(metric.name) or Sample(())

    measures = {"distance": (EMD, end), "inverted": (INVERTED, end)}
    return tables.compared_in(results, PAIRS[CONDITIONING], measures, (CONDITIONING, ""), compare_paired)


def figures(results: Results, column: str) -> Part:
    """The paper's panels: accuracy by place, distance while training, accuracy by estimator; and inverted pairs."""
    places, title = results.among(COLUMNS[column], column), TITLES[column]
    shown = {f"ablation_{column}": (VALID, "validation accuracy, %")}
    if column == CONDITIONING:
        shown = {
            f"ablation_{column}": (EMD, "earth mover's distance, places"),
            "ablation_inverted": (INVERTED, "share of inverted pairs"),
        }
    drawn: Part = []
    for name, y in shown.items():
        drawn += training_curves(name, f"{title.rstrip('?')}: {y[1]} against steps", title, places, STEPS, y)
    return drawn


STUDY = Study("classification/ablation", cells, render, lambda results: Table((), ()))
