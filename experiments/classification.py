"""The classification study: hard functions inside a Resnet18 for CIFAR10, and every gradient through them."""

from __future__ import annotations

from experiments import tables
from experiments.blocks import Heading, Part, Table, Text, part
from experiments.figures import training_curves
from experiments.numbers import human
from experiments.results import Metric, Place, Results
from experiments.statistics import PAIRED_RULE, RULE, compare_paired, paired, printed
from experiments.study import Cell, Study, grid, once, pick

ACCURACY = Metric("test/accuracy", factor=100)
VALID = ACCURACY.on("valid")
SEEDS, MORE_SEEDS = (0, 1, 2), (3, 4)
MODERN, PRINTED, DENSE_NET = "modern", "printed", "dense"  # columns: two recipes for the Resnet, and the dense net
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
BRIDGE, TRUE, STRAIGHT = "dense bridge", "true gradient", "straight-through"
WAYS = {
    BRIDGE: "",
    TRUE: "estimator=true_gradient",
    STRAIGHT: "estimator=straight_through",
    "matched": "approximator=matched",
    "lines": "approximator=lines",
    "convolutional": "approximator=conv",
    "fitted": "estimator=fitted",
    "frozen random bridge": "approximator.frozen=true",
    "detached": "estimator=detached",
}
LEARNED = (BRIDGE, "matched", "lines", "convolutional", "fitted")
CONTROLS = ("frozen random bridge", "detached")
TRAINED = {
    "Sort": (TRUE, *LEARNED, *CONTROLS),
    "Signum": (STRAIGHT, BRIDGE, "matched", "convolutional", "fitted", *CONTROLS),
    "K-Means, flat": (TRUE, STRAIGHT, BRIDGE, "matched", "convolutional", "detached"),
    "Topk 2": (TRUE, BRIDGE, "matched", "lines", "detached"),
    "Topk 1": (TRUE,),
    "Topk 3": (TRUE,),
    "Centroids": (TRUE, BRIDGE, "matched"),
    "K-Means": (BRIDGE,),
}
POOLED, FLAT, RELU = "Baseline, pooled", "Baseline, flat", "Baseline with ReLU, pooled"
SORT, SORT_TRUE = f"Sort, {BRIDGE}", f"Sort, {TRUE}"
ROWS = {
    POOLED: f"{CIFAR} estimator=no_hard",
    FLAT: f"{CIFAR} estimator=no_hard model.head=flat",
    RELU: f"{CIFAR} estimator=no_hard model.activation=relu",  # signum after a ReLU would have two values, not three
    **{f"{hard}, {way}": f"{CIFAR} {HARD[hard]} {WAYS[way]}" for hard, ways in TRAINED.items() for way in ways},
}
# At a rate where one way trains another diverges, so each has its own: searched after a sort (signum where sort has no
# such row), two epochs, one seed, by validation; used wherever that way is, and at the reduced scale alone. Short runs
# favour large steps: where the highest was best, it must lead the next after all six epochs too, by more than the
# standard error of the accuracy of 5,000 images.
TRIED = ("0.8", "0.6", "0.4", "0.15", "0.05", "0.02")
WHOLE, NOISE = ("0.8", "0.4"), 0.5
RATES = {
    "pooled": "0.4",
    "flat": "0.4",
    TRUE: "0.4",
    STRAIGHT: "0.15",
    BRIDGE: "0.05",
    "matched": "0.4",
    "lines": "0.4",
    "convolutional": "0.15",
    "fitted": "0.4",
    "frozen random bridge": "0.15",
    "detached": "0.15",
}
SEARCHED = (POOLED, FLAT, *(f"Sort, {way}" for way in TRAINED["Sort"]), f"Signum, {STRAIGHT}")
HIGHEST = (POOLED, FLAT, SORT_TRUE, "Sort, matched")  # what was best there
WIDER = {  # the rest of TRIED is for all; these are for what was best at its edge
    "0.8": (*HIGHEST, "Sort, lines"),
    "0.6": ("Sort, fitted",),  # at 0.8 it diverges
    "0.02": (SORT,),
}


def way_of(row: str) -> str:
    return row.rpartition(", ")[2]


def at_rate(words: str, way: str) -> str:
    return f"{words} budget.cpu.lr={RATES[way]}"


RATED = {row: at_rate(words, way_of(row)) for row, words in ROWS.items()}
ON_POOLED = ("Signum", f"K-Means, {BRIDGE}")
# The baseline with the same head.
HEADS = {row: POOLED if row.startswith(ON_POOLED) else FLAT for row in ROWS if row != RELU}
NO_HARD = "Dense net, no hard function"
DENSE_ROWS = {
    NO_HARD: f"{DENSE} estimator=no_hard",
    f"Dense net, signum, {BRIDGE}": f"{DENSE} hard=signum",
    f"Dense net, signum, {STRAIGHT}": f"{DENSE} hard=signum estimator=straight_through",
    f"Dense net, sort1d, {BRIDGE}": f"{DENSE} hard=sort1d",
    f"Dense net, sort1d, {TRUE}": f"{DENSE} hard=sort1d estimator=true_gradient",
    "Dense net, signum, detached": f"{DENSE} hard=signum estimator=detached",
}
FIRST = (POOLED, FLAT, SORT_TRUE, SORT)
FIVE = (FLAT, SORT, SORT_TRUE)
SIGNUM, TOPK, KMEANS = f"Signum, {BRIDGE}", f"Topk 2, {BRIDGE}", f"K-Means, {BRIDGE}"
THEIRS = {POOLED: (92.87, 0.06), SIGNUM: (91.95, 0.07), SORT: (92.93, 0.10), TOPK: (92.21, 0.14), KMEANS: (91.97, 0.16)}
PAPER = printed(COLUMNS, {row: (number, number) for row, number in THEIRS.items()}, samples=200 * 45_000)


def gradients() -> list[tuple[str, str]]:
    """Row against row of one function: every way against the best known one, learned ones against the controls."""
    pairs = []
    for hard, ways in TRAINED.items():
        known = next((way for way in (TRUE, STRAIGHT) if way in ways), None)
        pairs += [(f"{hard}, {way}", f"{hard}, {known}") for way in ways if known not in (None, way)]
        bridges = [way for way in LEARNED if way in ways and BRIDGE in ways]
        pairs += [(f"{hard}, {way}", f"{hard}, {BRIDGE}") for way in bridges if way != BRIDGE]
        pairs += [(f"{hard}, {BRIDGE}", f"{hard}, {way}") for way in CONTROLS if way in ways]
    return pairs


def cells(scale: str) -> list[Cell]:
    """In the order they are worth running: whole comparisons first."""
    modern, dense = pick(COLUMNS, MODERN), {DENSE_NET: ""}
    if scale == "smoke":
        few = pick(RATED, *FIRST, "Sort, matched", "Sort, detached", f"K-Means, flat, {STRAIGHT}")
        twice = grid(pick(RATED, *FIRST), modern, (1,))  # enough to see a spread
        return [*grid(few, modern, (0,)), *twice, *grid(pick(DENSE_ROWS, NO_HARD), dense, (0,))]
    return once(
        searched() if scale == "cpu" else [],
        grid(pick(RATED, *FIRST), modern, SEEDS),
        grid(RATED, modern, SEEDS[:1]),
        grid(pick(RATED, *FIVE), modern, MORE_SEEDS),
        grid(RATED, modern, SEEDS[1:]),
        grid(DENSE_ROWS, dense, SEEDS),
        grid(pick(ROWS, *THEIRS, FLAT, SORT_TRUE), pick(COLUMNS, PRINTED), SEEDS),
    )


def searched() -> list[Cell]:
    columns = {rate: {f"rate{rate}": f"budget.cpu.lr={rate} budget.cpu.steps=702"} for rate in TRIED}
    rows = {rate: pick(ROWS, *WIDER.get(rate, SEARCHED)) for rate in TRIED}
    short = [cell for rate in TRIED for cell in grid(rows[rate], columns[rate], SEEDS[:1])]
    whole = {f"whole{rate}": f"budget.cpu.lr={rate}" for rate in WHOLE}
    return [*short, *grid(pick(ROWS, *HIGHEST), whole, SEEDS[:1])]


def reached(row: str, results: Results, length: str = "rate") -> dict[str, float]:
    """The validation accuracy of each learning rate that has been tried: for two epochs, or the `whole` training."""
    places = {rate: results.at(row, f"{length}{rate}") for rate in TRIED}
    return {rate: place.selected(100).mean for rate, place in places.items() if place}


def best_rate(row: str, results: Results) -> str:
    measured, whole = reached(row, results), reached(row, results, "whole")
    if whole:
        return WHOLE[0] if whole[WHOLE[0]] - whole[WHOLE[1]] > NOISE else WHOLE[1]
    return max(measured, key=measured.__getitem__)


REDUCED = (
    " **Reduced**: an eighth of the width (176 k parameters instead of 11 M) and six epochs, too short for crops; the "
    "last map is 4x4 as at full width."
)
INTRODUCTION = (
    "CIFAR10, test accuracy in percent, mean ± standard deviation (seeds); a hard function after the last block of a "
    "Resnet18, one recipe for all rows (SGD with Nesterov momentum, one cycle, label smoothing 0.1, crops and flips; "
    "approximators have an Adam of their own) but for the learning rate, which is searched (below). *In training "
    "alone*: parameters of the approximator. *Gradient*: its norm before the hard function over that after it, at the "
    "end of training; SGD steps in proportion, so what shortens the gradient also slows the layers before down, which "
    "the Adam of the paper's recipe does not mind. Rows "
    "of one seed share initial weights wherever shapes agree, data order and augmentation. Sort, top-k and centroids "
    "are read out flat (all of the map), as is *Baseline, flat*; signum and *K-Means* are pooled, as is *Baseline, "
    "pooled*. Before a pooled head k-means cannot be seen at all: the mean of the centroids over the places is the "
    "mean of the points. That row only tells what its gradient does."
)
TITLES = {
    MODERN: "Hard functions after block 4",
    PRINTED: "The paper's recipe: Adam 1e-4, constant",
    DENSE_NET: "A dense net (the paper's text: about ten points)",
}


def shortened(place: Place) -> str:
    before, after = (place.last(f"train/{name}") for name in ("gradient_norm", "gradient_norm_after"))
    return f"{before.mean / after.mean:.2g}" if before and after and after.mean else "–"


NUMBERS = [tables.Column("gradient", shortened), tables.PARAMETERS, tables.MORE_PARAMETERS, tables.STEP]
TABLE = tables.full(PAPER, "accuracy", ACCURACY, more=NUMBERS)


def render(results: Results) -> list[Part]:
    if not any(results):
        return []
    opening = INTRODUCTION + (REDUCED if results.scale != "paper" else "")
    parts: list[Part] = [[Heading("Classification: CIFAR10", level=1), Text(opening), Text(RULE), Text(PAIRED_RULE)]]
    for column, title in TITLES.items():
        table = tables.row_table(results.column(column), TABLE, f"CIFAR10, {title}", file=f"cifar10_{column}")
        parts.append(part(Heading(title), table))
    printed_pairs = [*((row, HEADS[row]) for row in THEIRS), (SORT, SORT_TRUE)]
    against_dense = [(row, NO_HARD) for row in DENSE_ROWS if row != NO_HARD]
    return [
        *parts,
        comparison(results, "Does a hard function help?", list(HEADS.items()), MODERN),
        comparison(results, "Which gradient?", gradients(), MODERN),
        comparison(results, "And with the paper's recipe?", printed_pairs, PRINTED),
        comparison(results, "What does the paper's ELU cost?", [(RELU, POOLED)], MODERN),
        cheapest(results),
        rates(results),
        comparison(results, "Does it help a dense net?", against_dense, DENSE_NET),
        curves(results),
    ]


def comparison(results: Results, title: str, pairs: list[tuple[str, str]], column: str) -> Part:
    apart = [pair for pair in pairs if pair[0] != pair[1]]
    lines = tables.compared(results, apart, ACCURACY, (column, ""), judge=compare_paired)
    return part(Heading(title), Table(("row", "against", "is"), lines))


def cheapest(results: Results) -> Part:
    """Of the approximators of sort, the cheapest that is not behind the paper's."""
    dense, others = results.at(SORT, MODERN), results.among([f"Sort, {way}" for way in LEARNED], MODERN)
    if not dense or len(others) < 2:
        return []
    level = [place for place in others if place is dense or not behind(place, dense)]
    least = min(level, key=lambda place: place.step_seconds)
    own, theirs = (place.parameters[0] - place.parameters[1] for place in (least, dense))
    text = (
        f"Of {len(others)} approximators of sort, {len(level)} are not behind the dense one. Of these *{least.row}* "
        f"has the cheapest step: {1000 * least.step_seconds:.0f} ms against {1000 * dense.step_seconds:.0f} ms, with "
        f"{human(own)} parameters in training alone against {human(theirs)}."
    )
    if least is not dense:
        text += f" In accuracy it is {compare_paired(least.sample(ACCURACY), dense.sample(ACCURACY))}."
    return [Text(text)]


def rates(results: Results) -> Part:
    """What was tried for each way, and what was chosen."""
    measured = {row: of_row for row in SEARCHED if (of_row := reached(row, results))}
    lines = [
        [row, *tables.tried(of_row, TRIED), *tables.tried(reached(row, results, "whole"), WHOLE), RATES[way_of(row)]]
        for row, of_row in measured.items()
    ]
    text = (
        "Validation accuracy in percent after two epochs, one seed; where the highest rate was best, also after all "
        f"six, when it must lead by more than {NOISE} points, a standard error, to be taken. What is best after a sort "
        "(after a signum for straight-through) is what this gradient is given wherever it is used."
    )
    head = ("row", *TRIED, *(f"{rate}, six epochs" for rate in WHOLE), "chosen")
    return part(Heading("Which learning rate?"), Text(text), Table(head, lines))


def behind(one: Place, two: Place) -> bool:
    """Whether the interval of a lead, seed against seed, lies below zero."""
    pair = paired(one.sample(ACCURACY), two.sample(ACCURACY))
    return pair.leads.n > 1 and pair.interval[1] < 0


def curves(results: Results) -> Part:
    drawn: Part = []
    what = ("cifar10", "Validation accuracy against steps", "CIFAR10, sort after block 4")
    rows = [FLAT, *(f"Sort, {way}" for way in TRAINED["Sort"])]
    drawn += training_curves(*what, results.among(rows, MODERN), ("step", "steps"), (VALID, "validation accuracy, %"))
    return drawn


def headline(results: Results) -> Table:
    places = {row: results.at(row, MODERN) for row in (FLAT, SORT, SORT_TRUE)}
    title = "CIFAR10, Resnet18" + (" (reduced)" if results.scale != "paper" else "")
    return tables.headline(title, places, tables.measured("test accuracy, %", ACCURACY), tables.STEP)


STUDY = Study("classification/cifar10", cells, render, headline)
