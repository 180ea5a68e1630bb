"""The methods behind the rows of all studies: one name and one colour for each, in every figure and on the page.

The colours are told apart by the colour-blind too (a test simulates it); `dark` is the colour on a dark page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

PAPERS, OURS, STRAIGHT, RELAXED = "The paper's bridge", "Other bridges", "Straight-through and its kin", "Relaxations"
UNBIASED, NOISE, QUANTIZED = "Unbiased", "Perturbations", "Quantizers"
PLAIN, NETS, CONTROLS = "No hard function, or its own gradient", "Other nets", "Floors and controls"


@dataclass(frozen=True)
class Method:
    """`words` is a pattern that its rows' names match, in whole words and whatever the case."""

    name: str
    family: str
    colour: str
    dark: str
    words: str

    def is_of(self, row: str) -> bool:
        return re.search(rf"\b(?:{self.words})\b", row, re.IGNORECASE) is not None


# The first that matches is it: what says more stands before what says less.
METHODS = (
    Method("Frozen or detached", CONTROLS, "#8A8A8A", "#8F8F8F", "frozen|detached|no gradient"),
    Method("Floors", CONTROLS, "#A3875F", "#CDB48C", "oracle|constructed|pca|random directions|^threshold"),
    Method("Corrected bridge", OURS, "#7A1F5C", "#B54C90", "corrected"),
    Method("Fitted bridge", OURS, "#D05FA2", "#FFA3D6", "fitted|recipe for black boxes|recipe, function known"),
    Method("Structured bridge", OURS, "#8F5A00", "#C98A3A", "elementwise|lines|convolutional"),
    Method("Matched bridge", OURS, "#C79500", "#F2D04B", "matched"),
    Method("Gumbel", RELAXED, "#0A9A7B", "#2FD3A6", "gumbel|gumbel-rao|concrete"),
    Method("Soft form", RELAXED, "#065244", "#A6EFD9", "relaxation"),
    Method("ReinMax", STRAIGHT, "#2B9FD9", "#67C6F5", "reinmax"),
    Method("REBAR", UNBIASED, "#45308A", "#C3B5FF", "rebar"),
    Method("RELAX", UNBIASED, "#9C89D6", "#8F7AE0", "relax"),
    Method("DisARM", UNBIASED, "#6B3F1D", "#B5814F", "disarm"),
    Method("ARM", UNBIASED, "#B5804F", "#EFC9A0", "arm"),
    Method("Score function", UNBIASED, "#2E2E2E", "#DDDDDD", "score function|reinforce"),
    Method("Smoothing", NOISE, "#4E8F2F", "#93CF70", "smoothing|spsa"),
    Method("Solver's own", NOISE, "#1F6F78", "#63BEC9", "perturbed optimizer|interpolation|i-mle|identity"),
    Method("FSQ", QUANTIZED, "#4E8F2F", "#93CF70", "fsq"),
    Method("VQ", QUANTIZED, "#1F6F78", "#63BEC9", "vq"),
    Method("Straight-through", STRAIGHT, "#0B5FA5", "#3F8FE0", "straight-through"),
    Method("True gradient", PLAIN, "#1A1A1A", "#F2F2F2", "true gradient"),
    Method("No hard function", PLAIN, "#5A5A5A", "#8C8C8C", "tanh-dense|elu-dense|no hard function|no sort|baseline"),
    Method("Pointer nets", NETS, "#2F6B1E", "#6FB547", "ptr-net|read-process-write"),
    Method("Recurrent, dense bridge", NETS, "#8C2F39", "#E08590", "signum-rnn"),
    Method("Dense bridge", PAPERS, "#D1440C", "#FF8655", "dense bridge|dab-?\\w*|routing|bridge|paper's recipe"),
)
FAMILIES = (PAPERS, OURS, STRAIGHT, RELAXED, UNBIASED, QUANTIZED, NOISE, PLAIN, NETS, CONTROLS)
FEW = 4  # lines that do not crowd a small panel
OTHER = Method("", "", "#444444", "#CCCCCC", "")  # of a line that is no method's, e.g. "T = 5"
NEUTRAL = (OTHER, *(Method("", "", *pair, "") for pair in (("#0B5FA5", "#5AA9F0"), ("#D1440C", "#FF8655"))))


def method_of(row: str) -> Method | None:
    return next((method for method in METHODS if method.is_of(row)), None)


@dataclass(frozen=True)
class Look:
    """How a line looks: the colour of its method, and which of the method's lines in this figure it is."""

    method: Method
    number: int = 0


def looks(rows: Iterable[str]) -> dict[str, Look]:
    """One for each line of a figure: rows of one method share its colour and differ in their dashes."""
    found: dict[str, Look] = {}
    for row in rows:
        method = method_of(row) or NEUTRAL[sum(look.method in NEUTRAL for look in found.values()) % len(NEUTRAL)]
        found[row] = Look(method, sum(look.method is method for look in found.values()))
    return found


def by_family(rows: Iterable[str]) -> Mapping[str, list[str]]:
    """Rows that a panel shows together: those of a family, or of neighbours where that are few."""
    families: dict[str, list[str]] = {}
    for row in rows:
        method = method_of(row)
        families.setdefault(method.family if method else "Others", []).append(row)
    panels: dict[str, list[str]] = {}
    for family in (name for name in (*FAMILIES, "Others") if name in families):
        last = next(reversed(panels), "")
        if last and len(panels[last]) + len(families[family]) <= FEW:
            panels[f"{last} · {family[0].lower()}{family[1:]}"] = panels.pop(last) + families[family]
        else:
            panels[family] = families[family]
    return panels
