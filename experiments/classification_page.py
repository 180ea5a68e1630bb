"""The classification study's section of the results page."""

from __future__ import annotations

from collections.abc import Mapping

from experiments import tables
from experiments.blocks import Heading, Part, Table, Text, part
from experiments.classification import (
    ACCURACY,
    CONTROLS,
    DENSE_NET,
    DENSE_PRINTED,
    DENSE_ROWS,
    FLAT,
    HEADS,
    LEARNED,
    MODERN,
    NO_HARD,
    PAPER,
    POOLED,
    PRINTED,
    ROWS,
    SEEDS,
    SORT,
    SORT_TRUE,
    STRAIGHT,
    THEIRS,
    TRAINED,
    TRUE,
    VALID,
    VARIANTS,
    gradients,
    way_of,
)
from experiments.classification_search import planned, rates
from experiments.figures import training_curves
from experiments.numbers import human
from experiments.results import Metric, Place, Results, chosen
from experiments.statistics import PAIRED_RULE, RULE, Paired, Sample, compare_paired, paired
from experiments.step_costs import COST, EXPLAINED, cost, speed, told
from experiments.study import Study

REDUCED = (
    " **Reduced**: an eighth of the width ({parameters} parameters), six epochs and no crops; the last map is 4x4 as "
    "at full width. The dense net has {dense} parameters, twenty epochs and crops."
)
INTRODUCTION = (
    "CIFAR10, test accuracy in percent, mean ± standard deviation (seeds); a hard function after the last block of a "
    "Resnet18. A table has one recipe for all of its rows. The first: SGD with Nesterov momentum, one cycle, label "
    "smoothing 0.1, flips and at full scale crops, approximators by an Adam of their own; its learning rate alone is "
    "each way's own, searched at the reduced scale (below). The second: the Adam of the paper. *In training alone*: "
    "parameters of the approximator. *Gradient*: its norm before the hard function over that after it, at the end of "
    "training; SGD steps in proportion, so what shortens the gradient also slows the layers before down, which the "
    "Adam of the paper's recipe does not mind. *Cosine*: between what is passed on and the true gradient, where "
    "autograd knows one, in the mean over a batch at the end of training. Rows of one seed share initial weights "
    "wherever shapes agree, data order and augmentation. Sort, top-k and centroids are read out flat (all of the map), "
    "as is *Baseline, flat*; signum and *K-Means* are pooled, as is *Baseline, pooled*. Before a pooled head k-means "
    "cannot be seen at all: the mean of the centroids over the places is the mean of the points. That row only tells "
    "what its gradient does."
)
WAYS_TOLD = (
    "The ways to get a gradient. *Dense bridge*: the paper's, two hidden layers of 128 units, trained beside the "
    "classifier (*of 512*: with as many units in each; *with skip*: and a linear map from all inputs to all outputs "
    "beside them). *Fitted*: the same net, standardised and fitted inside the layer, on this batch and on past ones. "
    "*Matched*: the hard function with its edges softened, by one number that is fitted, a slope of at most 4 (*sharp "
    "matched*: from 16 up to 64). *Lines*: one small net along every row and column. *Convolutional*: two hidden "
    "layers of 3x3 convolutions. *True gradient*: what autograd finds in the hard function itself. *Straight-through*: "
    "what arrives, as it is. Two controls: a *frozen random bridge* is the dense one as it began, never trained; "
    "*detached* passes nothing on, so that the layers before stay as they began."
)
TITLES = {
    MODERN: "Hard functions after block 4",
    PRINTED: "The paper's recipe: Adam 1e-4, constant",
    DENSE_NET: "A dense net (the paper's text: about ten points)",
    DENSE_PRINTED: "A dense net by the paper's recipe",
}


def shortened(place: Place) -> str:
    before, after = (place.last(f"train/{name}") for name in ("gradient_norm", "gradient_norm_after"))
    return f"{before.mean / after.mean:.2g}" if before and after and after.mean else "–"


COSINE = tables.ending("cosine", "train/true_cosine")
NUMBERS = [tables.Column("gradient", shortened), COSINE, tables.PARAMETERS, tables.MORE_PARAMETERS, COST]
TABLE = tables.full(PAPER, "accuracy", ACCURACY, more=NUMBERS)
ORDER = [*ROWS, *DENSE_ROWS]
UNPRINTED = [column for column in TABLE if column.head not in ("paper", "verdict")]


def render(results: Results) -> list[Part]:
    if not any(results):
        return []
    opening = INTRODUCTION + reduced(results)
    texts = (opening, WAYS_TOLD, EXPLAINED, RULE, PAIRED_RULE)
    parts: list[Part] = [[Heading("Classification: CIFAR10", level=1), *map(Text, texts)]]
    for column, title in TITLES.items():
        places = sorted(results.column(column), key=lambda place: ORDER.index(place.row))
        numbers = UNPRINTED if column in (DENSE_NET, DENSE_PRINTED) else TABLE
        table = tables.row_table(places, numbers, f"CIFAR10, {title}", file=f"cifar10_{column}")
        parts.append(part(Heading(title), table))
    printed_pairs = [*((row, HEADS[row]) for row in THEIRS), (SORT, SORT_TRUE)]
    against_dense = [(row, NO_HARD) for row in DENSE_ROWS if row != NO_HARD]
    return [
        *parts,
        answer(results),
        comparison(results, "Every row against its baseline", list(HEADS.items()), MODERN),
        comparison(results, "Which gradient?", gradients(), MODERN),
        comparison(results, "And with the paper's recipe?", printed_pairs, PRINTED),
        comparison(results, "Does it help a dense net?", against_dense, DENSE_NET),
        comparison(results, "And a dense net by the paper's recipe?", against_dense, DENSE_PRINTED),
        cheapest(results),
        variants(results),
        rates(results),
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
    lines, evidence, leads = [], [], {}
    for hard, ways in TRAINED.items():
        places = results.among([f"{hard}, {way}" for way in ways if way not in CONTROLS], MODERN)
        if not places:
            continue
        most = min(len(SEEDS), max(len(place.records) for place in places))
        best = chosen(place for place in places if len(place.records) >= most)
        known = results.at(f"{hard}, {TRUE if TRUE in ways else STRAIGHT}", MODERN)
        against = [results.at(HEADS[best.row], MODERN), known]
        judged = [_against(best, other) for other in against]
        if against[0]:
            leads[hard] = paired(best.sample(ACCURACY), against[0].sample(ACCURACY))
        lines.append([hard, way_of(best.row), best.sample(ACCURACY).text(), *judged])
        evidence.append([best, *against])
    text = (
        "After each function the gradient that is best on validation, of those with the most seeds (up to "
        f"{len(SEEDS)}): against the baseline with the same head, which has no hard function, and against the true "
        "gradient (straight-through where there is none)."
    )
    head = ("function", "gradient", "accuracy, %", "against no function", "against the known gradient")
    return part(Heading("Does a hard function help, and by which gradient?"), Text(f"{text} {concluded(leads)}"),
                Table(head, lines, evidence=evidence))  # fmt: skip


def concluded(leads: Mapping[str, Paired]) -> str:
    """Who is ahead of no function, and how large a lead the intervals of the others leave room for."""
    known = {hard: lead for hard, lead in leads.items() if lead.leads.n > 2}
    if not known:
        return ""
    ahead = [f"{hard} {lead.text()}" for hard, lead in known.items() if lead.interval[0] > 0]
    rest = [f"{hard} {max(lead.interval[1], 0):.2f}" for hard, lead in known.items() if lead.interval[0] <= 0]
    opening = f"Ahead of no function: {'; '.join(ahead)}." if ahead else "**None is ahead of no function.**"
    return (
        f"{opening} The intervals leave room for leads of at most, in points: {', '.join(rest)}." if rest else opening
    )


def variants(results: Results) -> Part:
    """The recipe with something else, by the baseline: seed against seed, on validation and on test."""
    pairs = [(row, POOLED) for row in VARIANTS]
    measures = {"on validation": (ACCURACY, on_validation), "on test": (ACCURACY, Place.sample)}
    table = tables.compared_in(results, pairs, measures, (MODERN, ""), compare_paired)
    text = (
        "The baseline with something else, at its learning rate. *Plain SGD*: one cycle and momentum, without "
        "Nesterov's, weight decay or smoothed labels: the floor for a recipe. *Crops* as at full scale, shifts by up "
        "to 4 pixels. *Quick norms*: batch norms that follow three times as fast. ReLU is no choice of a recipe here: "
        "after it a signum would have two values, so that the study keeps the ELU of the paper, at its price."
    )
    return part(Heading("Is the baseline a strong one?"), Text(text), table)


def _against(one: Place, other: Place) -> str:
    if one is other:
        return "itself"
    return compare_paired(one.sample(ACCURACY), other.sample(ACCURACY)) if other else "–"


def on_validation(place: Place, metric: Metric) -> Sample:
    return place.selected(metric.factor)


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
        f"training alone, *step / plain* {told(least)}; the dense one has {theirs} and {told(dense)}. Not behind is "
        f"not proved equal: its interval leaves room for {max(-leads[least].interval[0], 0):.2f} points."
    )
    if least is not dense:
        text += f" In accuracy it is {compare_paired(least.sample(ACCURACY), dense.sample(ACCURACY))} against that."
    return [heading, Text(text)]


def curves(results: Results) -> Part:
    title = "CIFAR10, sort after block 4"
    what = ("cifar10", f"{title}: validation accuracy against steps, a line for each way to get a gradient", title)
    places = results.among([FLAT, *(f"Sort, {way}" for way in TRAINED["Sort"])], MODERN)
    drawn = training_curves(*what, places, ("step", "steps"), (VALID, "validation accuracy, %"))
    return [Heading("Sort, while training"), *drawn] if drawn else []


def headline(results: Results) -> Table:
    places = {row: results.at(row, MODERN) for row in (FLAT, SORT, SORT_TRUE)}
    title = "CIFAR10, Resnet18" + (" (reduced)" if results.scale != "paper" else "")
    return tables.headline(title, places, tables.measured("test accuracy, %", ACCURACY), COST)


STUDY = Study("classification/cifar10", planned, render, headline)
