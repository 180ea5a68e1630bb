"""The classification study's section of the results page."""

from __future__ import annotations

from experiments import tables
from experiments.blocks import Heading, Part, Table, Text, part
from experiments.classification import (
    ACCURACY,
    ALL_SEARCHED,
    CONTROLS,
    DENSE_NET,
    DENSE_ROWS,
    DIVERGES,
    FLAT,
    HEADS,
    LEARNED,
    MODERN,
    NO_HARD,
    NOISE,
    PAPER,
    POOLED,
    PRINTED,
    RATES,
    SEEDS,
    SORT,
    SORT1D_SEARCHED,
    SORT_TRUE,
    STRAIGHT,
    THEIRS,
    TRAINED,
    TRIED,
    TRUE,
    VALID,
    VARIANTS,
    WHOLE,
    cells,
    gradients,
    rate_of,
    reached,
    way_of,
)
from experiments.figures import training_curves
from experiments.numbers import human
from experiments.results import Place, Results, chosen
from experiments.statistics import PAIRED_RULE, RULE, compare_paired, paired
from experiments.step_costs import COST, EXPLAINED, cost, speed, told
from experiments.study import Study

REDUCED = (
    " **Reduced**: an eighth of the width ({parameters} parameters), six epochs and no crops; the last map is 4x4 as "
    "at full width. The dense net has {dense} parameters, twenty epochs and crops."
)
INTRODUCTION = (
    "CIFAR10, test accuracy in percent, mean ± standard deviation (seeds); a hard function after the last block of a "
    "Resnet18, one recipe for all rows (SGD with Nesterov momentum, one cycle, label smoothing 0.1, crops and flips; "
    "approximators have an Adam of their own) but for the learning rate, which is searched at the reduced scale "
    "(below). *In training alone*: parameters of the approximator. *Gradient*: its norm before the hard function over "
    "that after it, at the end of training; SGD steps in proportion, so what shortens the gradient also slows the "
    "layers before down, which the Adam of the paper's recipe does not mind. *Cosine*: between what is passed on and "
    "the true gradient, where autograd knows one, in the mean over a batch at the end of training. Rows of one seed "
    "share initial weights wherever shapes agree, data order and augmentation. Sort, top-k and centroids are read out "
    "flat (all of the map), as is *Baseline, flat*; signum and *K-Means* are pooled, as is *Baseline, pooled*. Before "
    "a pooled head k-means cannot be seen at all: the mean of the centroids over the places is the mean of the points."
    " That row only tells what its gradient does. *Matched* has a slope of at most 4, *sharp matched* one from 16 up "
    "to 64."
)
TITLES = {
    MODERN: "Hard functions after block 4",
    PRINTED: "The paper's recipe: Adam 1e-4, constant",
    DENSE_NET: "A dense net (the paper's text: about ten points)",
}


def shortened(place: Place) -> str:
    before, after = (place.last(f"train/{name}") for name in ("gradient_norm", "gradient_norm_after"))
    return f"{before.mean / after.mean:.2g}" if before and after and after.mean else "–"


COSINE = tables.ending("cosine", "train/true_cosine")
NUMBERS = [tables.Column("gradient", shortened), COSINE, tables.PARAMETERS, tables.MORE_PARAMETERS, COST]
TABLE = tables.full(PAPER, "accuracy", ACCURACY, more=NUMBERS)


def render(results: Results) -> list[Part]:
    if not any(results):
        return []
    opening = INTRODUCTION + reduced(results)
    parts: list[Part] = [
        [Heading("Classification: CIFAR10", level=1), Text(opening), Text(EXPLAINED), Text(RULE), Text(PAIRED_RULE)]
    ]
    for column, title in TITLES.items():
        table = tables.row_table(results.column(column), TABLE, f"CIFAR10, {title}", file=f"cifar10_{column}")
        parts.append(part(Heading(title), table))
    printed_pairs = [*((row, HEADS[row]) for row in THEIRS), (SORT, SORT_TRUE)]
    against_dense = [(row, NO_HARD) for row in DENSE_ROWS if row != NO_HARD]
    return [
        *parts,
        answer(results),
        comparison(results, "Every row against its baseline", list(HEADS.items()), MODERN),
        comparison(results, "Which gradient?", gradients(), MODERN),
        comparison(results, "And with the paper's recipe?", printed_pairs, PRINTED),
        comparison(results, "The recipe", [(row, POOLED) for row in VARIANTS], MODERN),
        cheapest(results),
        rates(results),
        comparison(results, "Does it help a dense net?", against_dense, DENSE_NET),
        curves(results),
        speed() if results.scale == "cpu" else [],
    ]


def reduced(results: Results) -> str:
    plain, dense = results.at(POOLED, MODERN), results.at(NO_HARD, DENSE_NET)
    if results.scale != "cpu" or not (plain and dense):
        return ""
    return REDUCED.format(parameters=human(plain.parameters[0]), dense=human(dense.parameters[0]))


def answer(results: Results) -> Part:
    """Of every function the gradient that validation would choose: against no function, and against the known one."""
    lines, evidence = [], []
    for hard, ways in TRAINED.items():
        places = results.among([f"{hard}, {way}" for way in ways if way not in CONTROLS], MODERN)
        if not places:
            continue
        most = min(len(SEEDS), max(len(place.records) for place in places))
        best = chosen(place for place in places if len(place.records) >= most)
        known = results.at(f"{hard}, {TRUE if TRUE in ways else STRAIGHT}", MODERN)
        against = [results.at(HEADS[best.row], MODERN), known]
        judged = [_against(best, other) for other in against]
        lines.append([hard, way_of(best.row), best.sample(ACCURACY).text(), *judged])
        evidence.append([best, *against])
    text = (
        "After each function the gradient that is best on validation, of those with the most seeds (up to "
        f"{len(SEEDS)}): against the baseline with the same head, which has no hard function, and against the true "
        "gradient (straight-through where there is none)."
    )
    head = ("function", "gradient", "accuracy, %", "against no function", "against the known gradient")
    return part(Heading("Does a hard function help, and by which gradient?"), Text(text),
                Table(head, lines, evidence=evidence))  # fmt: skip


def _against(one: Place, other: Place) -> str:
    if one is other:
        return "itself"
    return compare_paired(one.sample(ACCURACY), other.sample(ACCURACY)) if other else "–"


def comparison(results: Results, title: str, pairs: list[tuple[str, str]], column: str) -> Part:
    apart = [pair for pair in pairs if pair[0] != pair[1]]
    return part(Heading(title), tables.comparison(results, apart, ACCURACY, (column, ""), judge=compare_paired))


def cheapest(results: Results) -> Part:
    """Of the approximators of sort, the cheapest that loses nothing: against the gradient that needs none. Those with
    seeds enough to judge.
    """
    true, dense = (results.at(row, MODERN) for row in (SORT_TRUE, SORT))
    tried = results.among([f"Sort, {way}" for way in LEARNED], MODERN)
    leads = {place: paired(place.sample(ACCURACY), true.sample(ACCURACY)) for place in tried if true}
    judged = [place for place, pair in leads.items() if pair.leads.n > 1]
    if not dense or len(judged) < 2:
        return []
    level = [place for place in judged if leads[place].interval[1] >= 0]
    heading = Heading("The cheapest approximator that loses nothing")
    if not level:
        return [
            heading,
            Text(f"All {len(judged)} approximators of sort that were judged are behind the true gradient."),
        ]
    least = min(level, key=cost)
    own, theirs = (human(place.parameters[0] - place.parameters[1]) for place in (least, dense))
    text = (
        f"Of the {len(tried)} approximators of sort {len(judged)} have the seeds to be judged; behind the true "
        f"gradient: {len(judged) - len(level)}. The cheapest of the others is *{least.row}*: {own} parameters in "
        f"training alone, *step / plain* {told(least)}; the dense one has {theirs} and {told(dense)}."
    )
    if least is not dense:
        text += f" In accuracy it is {compare_paired(least.sample(ACCURACY), dense.sample(ACCURACY))} against that."
    return [heading, Text(text)]


def rates(results: Results) -> Part:
    """What was tried for each way, and what was chosen."""
    measured = {row: of_row for row in ALL_SEARCHED if (of_row := reached(row, results))}
    whole = [rate for rate in TRIED if any(rate in rates for rates in WHOLE.values())]
    lines = [
        [row, *_tried(row, of_row), *tables.tried(reached(row, results, "whole"), whole), rate_of(row)]
        for row, of_row in measured.items()
    ]
    text = (
        "Validation accuracy in percent after two epochs (the dense net: six of twenty), one seed; where that was in "
        "doubt, after all six, which then decide. A higher rate must lead by more than "
        f"{NOISE} points, about a standard error. What is best after a sort (after a signum for straight-through) is "
        "what this gradient is given wherever it is used; the paper's own way, the dense bridge, has a search after "
        f"every function, and after a signum at every place. No rate above {RATES['flat']}, the one of the baselines, "
        "is chosen; what is beyond the best of a row's rates, or far from it, was not tried (–). *Diverges later*: "
        "with another seed, after the epochs of the search; it is not chosen."
    )
    head = ("row", *TRIED, *(f"{rate}, six epochs" for rate in whole), "chosen")
    return part(Heading("Which learning rate?"), Text(text), Table(head, lines)) + one_rate(results)


def one_rate(results: Results) -> Part:
    """What the paper's 25 points would be, had straight-through no rate of its own."""
    rows = SORT1D_SEARCHED[:2]
    bridge, straight = (reached(row, results, "whole") for row in rows)
    leads = {rate: value - straight[rate] for rate, value in bridge.items() if rate in straight}
    own = [rate_of(row) for row in rows]
    if own[0] not in leads or own[1] not in straight:
        return []
    side = [
        f"at {rate} {bridge[rate]:.2f} against {straight[rate]:.2f} %, {'ahead' if lead > 0 else 'behind'} by "
        f"{abs(lead):.2f}"
        for rate, lead in leads.items()
    ]
    text = (
        "After one sort over all units the learning rate decides how far the bridge is ahead of straight-through, or "
        f"behind it (validation, one seed, all six epochs): {'; '.join(side)}; each at its own, {own[0]} and {own[1]}, "
        f"{bridge[own[0]]:.2f} against {straight[own[1]]:.2f} %. A comparison at one rate for both, chosen for the "
        "bridge, says more about the rate than about the gradient."
    )
    return [Text(text)]


def _tried(row: str, reached: dict[str, float]) -> list[str]:
    texts = zip(TRIED, tables.tried(reached, TRIED))
    return [_diverging(text) if rate in DIVERGES.get(row, ()) else text for rate, text in texts]


def _diverging(text: str) -> str:
    return "diverges" if text == "–" else f"{text}, diverges later"


def curves(results: Results) -> Part:
    drawn: Part = []
    what = ("cifar10", "Validation accuracy against steps", "CIFAR10, sort after block 4")
    rows = [FLAT, *(f"Sort, {way}" for way in TRAINED["Sort"])]
    drawn += training_curves(*what, results.among(rows, MODERN), ("step", "steps"), (VALID, "validation accuracy, %"))
    return drawn


def headline(results: Results) -> Table:
    places = {row: results.at(row, MODERN) for row in (FLAT, SORT, SORT_TRUE)}
    title = "CIFAR10, Resnet18" + (" (reduced)" if results.scale != "paper" else "")
    return tables.headline(title, places, tables.measured("test accuracy, %", ACCURACY), COST)


STUDY = Study("classification/cifar10", cells, render, headline)
