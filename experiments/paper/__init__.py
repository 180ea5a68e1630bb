"""Does the paper hold, and what does it leave open? Beside each study what it says of either, from its records.

claim.py                claims, gaps and the rule of their verdicts
sorting.py, density.py, representation.py, classification.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from experiments.blocks import Bullets, Heading, Part, Text
from experiments.paper import classification, density, representation, sorting
from experiments.paper.claim import RULE, Claim, Gap, claim_table
from experiments.results import Results

CLAIMS: Mapping[str, Callable[[Results], list[Claim]]] = {
    "sorting": sorting.claims,
    "binarized": density.claims,
    "representation/fashion_mnist": partial(representation.claims, data="FashionMNIST"),
    "representation/cifar10": partial(representation.claims, data="CIFAR10"),
    "imagenet": representation.imagenet_claims,
    "classification/cifar10": classification.claims,
    "classification/ablation": classification.case_claims,
}
GAPS: Mapping[str, Callable[[Results], list[Gap]]] = {
    "sorting": sorting.gaps,
    "binarized": density.gaps,
    "representation/fashion_mnist": representation.gaps,
    "classification/cifar10": classification.gaps,
    "classification/ablation": classification.case_gaps,
}


def claims(results: Mapping[str, Results]) -> dict[str, list[Claim]]:
    """By study."""
    return {name: of_study(results[name]) for name, of_study in CLAIMS.items()}


def gaps(results: Mapping[str, Results]) -> dict[str, list[Gap]]:
    return {name: of_study(results[name]) for name, of_study in GAPS.items()}


def does_it_hold(results: Mapping[str, Results]) -> Part:
    table = claim_table(claim for of_study in claims(results).values() for claim in of_study)
    return [Heading("Does the paper hold?", level=1), Text(RULE), table]


def left_open(results: Mapping[str, Results]) -> list[Part]:
    parts: list[Part] = [[Heading("What the paper leaves open", level=1)]]
    for name, of_study in gaps(results).items():
        for gap in of_study:
            waiting = f"Not run yet: `python -m experiments {name}`."
            parts.append([Heading(gap.title), Text(gap.printed), Bullets(gap.found or [waiting])])
    return parts
