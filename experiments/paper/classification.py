"""Classification: what the paper claims and leaves open."""

from __future__ import annotations

import math

from experiments import ablation
from experiments.classification import (
    ACCURACY,
    BRIDGE,
    DENSE_NET,
    DENSE_PRINTED,
    DENSE_SIGNUM,
    DENSE_SORT,
    FLAT,
    MODERN,
    NO_HARD,
    POOLED,
    SORT,
    SORT_TRUE,
    STRAIGHT,
    THEIRS,
)
from experiments.paper.claim import NOT_RUN, Claim, Gap, ahead, said
from experiments.results import Place, Results
from experiments.statistics import compare_paired


def reduced(results: Results) -> str:
    return "" if results.scale == "paper" else "(reduced net)"


def claims(results: Results) -> list[Claim]:
    at = results.at
    dense, recipes = (DENSE_SIGNUM, DENSE_SORT), {"SGD": DENSE_NET, "paper's recipe": DENSE_PRINTED}
    bridge, flat, pooled = at(SORT, MODERN), at(FLAT, MODERN), at(POOLED, MODERN)
    return [
        ahead(
            "A sort inside a Resnet18 helps on CIFAR10",
            f"{THEIRS[SORT][0]} ± {THEIRS[SORT][1]} against {THEIRS[POOLED][0]} ± {THEIRS[POOLED][1]} %",
            [
                ("dense bridge, against a flat read-out", bridge, flat),
                ("against a pooled one", bridge, pooled),
                ("true gradient, against a flat read-out", at(SORT_TRUE, MODERN), flat),
            ],
            ACCURACY,
            compare_paired,
            note=reduced(results),
        ),
        ahead(
            "In a dense net a hard function helps",
            "+10 points",
            [
                (f"{row.removeprefix('Dense net, ')}, {recipe}", at(row, column), at(NO_HARD, column))
                for recipe, column in recipes.items()
                for row in dense
            ],
            ACCURACY,
            compare_paired,
            by=10,
            note="" if results.scale == "paper" else "(twenty epochs)",
        ),
    ]


def case_claims(results: Results) -> list[Claim]:
    at = results.at
    return [
        ahead(
            "With one sort over all units the bridge is ahead of straight-through",
            "+25 points",
            [
                (recipe, *(at(f"Sort1d, {way}{said_so}", ablation.SORT1D) for way in (BRIDGE, STRAIGHT)))
                for recipe, said_so in (("SGD", ""), ("paper's recipe", ", paper's recipe"))
            ],
            ACCURACY,
            compare_paired,
            by=25,
            note=reduced(results),
        ),
        ahead(
            "Signum trains well only after the last block",
            "after block 4 alone",
            [
                (f"{way}, block 4 against {n}", *(at(f"After block {m}, {way}", ablation.PLACEMENT) for m in (4, n)))
                for way in ablation.PLACED_WAYS
                for n in (1, 2, 3)
            ],
            ACCURACY,
            compare_paired,
            note=reduced(results),
        ),
        conditioned(results),
    ]


def conditioned(results: Results) -> Claim:
    """How far from sorted at the end of training: with a penalty that reaches the layer before, with one that cannot,
    and before any training. A shorter distance alone may come from values that differ less: sorted ones have fewer
    inverted pairs too.
    """
    claim, paper = "The penalty makes the layer before produce partly sorted values", "a falling distance"
    others = (ablation.RELEASED, ablation.UNTRAINED)
    places = [results.at(row, ablation.CONDITIONING) for row in (*ablation.EQUATION, *others)]
    texts, judged = [], []
    for what, metric in (("distance", ablation.EMD), ("inverted pairs", ablation.INVERTED)):
        ends = [end for place in places if (end := place.last(metric.name))]
        if len(ends) < len(places):
            return Claim(claim, paper, "not run yet", NOT_RUN)
        reaching, apart = ends[: -len(others)], ends[-len(others) :]
        judged += [compare_paired(other, equation, metric.digits) for equation in reaching for other in apart]
        told = [" and ".join(end.text(metric.digits) for end in reaching), *(end.text(metric.digits) for end in apart)]
        texts.append(f"{what} {' against '.join(told)}")
    text = (
        "`equation` at two weights, where it reaches that layer, against `released`, where it cannot, against the "
        f"weights as they began: {'; '.join(texts)} {reduced(results)}".rstrip()
    )
    return Claim(claim, paper, text, said(judged), places)


def gaps(results: Results) -> list[Gap]:
    return [gain(results), head(results), exact(results)]


def case_gaps(results: Results) -> list[Gap]:
    printed = (
        "The earth mover's distance between the input and the output of a sort is said to fall. As sets of values the "
        "two are equal, so that it must be over places: here each line, shifted and scaled to a mass of one. And by "
        "the printed code the penalty, which is said to be the reason, cannot reach the layer before."
    )
    found = [(place, end) for place in results.column(ablation.CONDITIONING) if (end := place.last(ablation.EMD.name))]
    lines = [f"{place.row}: {end.text(3)} at the end of training." for place, end in found]
    return [Gap("A distance between equal sets", printed, lines, [place for place, _ in found])]


def gain(results: Results) -> Gap:
    (sort, spread), (base, other) = THEIRS[SORT], THEIRS[POOLED]
    error = math.hypot(spread, other) / math.sqrt(5)
    printed = (
        f"Sort's gain over the baseline, {sort} against {base} %, is {sort - base:.2f} points with a standard error of "
        f"{error:.2f}."
    )
    return Gap("A gain below its spread", printed, *_compared(results, [(SORT, FLAT), (SORT, POOLED)]))


def head(results: Results) -> Gap:
    printed = "Sort and top-k are read out flat and doubled, the baseline pooled: are heads compared, or functions?"
    return Gap("Which head", printed, *_compared(results, [(FLAT, POOLED)]))


def exact(results: Results) -> Gap:
    printed = "Sort and top-k are piecewise linear: autograd knows their gradient. The paper never compares with it."
    return Gap("The gradient that is already there", printed, *_compared(results, [(SORT, SORT_TRUE)]))


def _compared(results: Results, pairs: list[tuple[str, str]]) -> tuple[list[str], list[Place]]:
    lines: list[str] = []
    places: list[Place] = []
    for one, two in ((results.at(a, MODERN), results.at(b, MODERN)) for a, b in pairs):
        if one and two:
            is_so = compare_paired(one.sample(ACCURACY), two.sample(ACCURACY))
            lines.append(
                f"{one.row} against {two.row}, points, seed against seed: {is_so} {reduced(results)}".strip() + "."
            )
            places += [one, two]
    return lines, places
