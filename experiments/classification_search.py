"""How the rows of the classification study got their learning rates: the same search for all.

Two epochs, one seed, by validation, at the reduced scale alone; what came near the best is then decided by all six
epochs. A higher rate must lead by more than the standard error of the accuracy of 5,000 images, and none is above what
is best without a hard function. What it chose is `rate_of` in classification.py; a test compares the two.
"""

from __future__ import annotations

from experiments import tables
from experiments.blocks import Heading, Part, Table, Text, part
from experiments.classification import (
    BRIDGE,
    BRIDGES,
    DENSE_NETS,
    DENSE_SORT,
    DENSE_STRAIGHT,
    FLAT,
    ONE_SORT,
    PLACES,
    POOLED,
    RATES,
    ROWS,
    SKIP,
    SORT,
    SORT_TRUE,
    STRAIGHT,
    TRAINED,
    TRUE,
    cells,
    lr,
    rate_of,
)
from experiments.results import Results
from experiments.study import Cell, grid, once, pick

NOISE = 0.5
USUAL = ("0.4", "0.15", "0.05")
HIGHEST = (POOLED, FLAT, SORT_TRUE, "Sort, matched")  # what was best there
STRAIGHTS = tuple(f"{hard}, {STRAIGHT}" for hard in ("Signum", "K-Means, flat"))
AFTER_SORT = tuple(f"Sort, {way}" for way in TRAINED["Sort"] if way != "fitted with skip")
FIRST_BLOCK, *LATER_BLOCKS = PLACES
SORT1D = tuple(f"Sort1d, {way}" for way in (BRIDGE, STRAIGHT, TRUE))
# Two epochs; the dense nets six, of twenty. Wider where the best was at the edge.
SHORT = dict.fromkeys((POOLED, FLAT, *AFTER_SORT, *STRAIGHTS, *BRIDGES, *PLACES), USUAL)
SHORT |= dict.fromkeys((*HIGHEST, "Sort, lines"), ("0.8", *USUAL)) | {"Sort, fitted": ("0.6", *USUAL)}
SHORT |= dict.fromkeys((SORT, f"Centroids, {BRIDGE}", FIRST_BLOCK), (*USUAL, "0.02"))
SHORT |= {f"Topk 2, {BRIDGE}": (*USUAL, "0.02", "0.005"), f"Signum, {SKIP}": USUAL[:2]}
SHORT |= {f"{hard}, {SKIP}": USUAL[1:] for hard in ("K-Means, flat", "Topk 2", "Centroids")}
SHORT |= dict(zip(SORT1D, ((*USUAL[1:], "0.02"), (*USUAL[1:], "0.02", "0.005"), (*USUAL, "0.02"))))
SHORT |= {row: (*USUAL[1:], "0.02") for row in DENSE_NETS if not row.endswith("detached")}
SHORT |= {DENSE_STRAIGHT: ("0.1", "0.05", "0.02"), DENSE_SORT: (*USUAL[1:], "0.02", "0.005")}
# All six epochs.
WHOLE = dict.fromkeys(HIGHEST, ("0.8", "0.4")) | dict.fromkeys((*STRAIGHTS, *LATER_BLOCKS), USUAL[:2])
WHOLE |= dict.fromkeys((SORT, f"Centroids, {BRIDGE}"), USUAL[1:])
WHOLE |= {FIRST_BLOCK: USUAL, f"Topk 2, {BRIDGE}": (*USUAL[1:], "0.02")}
WHOLE |= {SORT1D[0]: (*USUAL[1:], "0.02"), SORT1D[1]: ("0.05", "0.02", "0.005")}
TRIED = sorted({rate for rates in SHORT.values() for rate in rates}, key=float, reverse=True)
# At these, which leave no record; at 0.1 after the epochs of the search, and with one seed of three.
DIVERGES = {DENSE_STRAIGHT: ("0.15", "0.1"), "Sort, fitted": ("0.8",)}


def planned(scale: str) -> list[Cell]:
    """The study's cells, and first those of the search."""
    return once(searched() if scale == "cpu" else [], cells(scale))


def searched() -> list[Cell]:
    """With one seed, each row's trials of a learning rate."""
    commands = ROWS | PLACES | ONE_SORT | DENSE_NETS
    trials: list[Cell] = []
    for row, rates in SHORT.items():
        steps = f"budget.cpu.steps={2106 if row in DENSE_NETS else 702}"
        trials += grid(pick(commands, row), {f"rate{rate}": f"budget.cpu.lr={rate} {steps}" for rate in rates}, (0,))
    for row, rates in WHOLE.items():
        trials += grid(pick(commands, row), {f"whole{rate}": lr(rate) for rate in rates}, (0,))
    return trials


def reached(row: str, results: Results, length: str = "rate") -> dict[str, float]:
    """The validation accuracy of each learning rate that has been tried: for two epochs, or the `whole` training."""
    places = {rate: results.at(row, f"{length}{rate}") for rate in TRIED}
    return {rate: place.selected(100).mean for rate, place in places.items() if place}


def best_rate(row: str, results: Results) -> str:
    """The lowest that is within a standard error of the best, of those that never diverge."""
    measured = reached(row, results, "whole") or reached(row, results)
    measured = {rate: value for rate, value in measured.items() if rate not in DIVERGES.get(row, ())}
    return min((rate for rate, value in measured.items() if value >= max(measured.values()) - NOISE), key=float)


def rates(results: Results) -> Part:
    """What was tried for each way, and what was chosen."""
    measured = {row: of_row for row in SHORT if (of_row := reached(row, results))}
    whole = [rate for rate in TRIED if any(rate in rates for rates in WHOLE.values())]
    lines = [
        [row, *_tried(row, of_row), *tables.tried(reached(row, results, "whole"), whole), rate_of(row)]
        for row, of_row in measured.items()
    ]
    text = (
        "Validation accuracy in percent after two epochs (the dense net: six of twenty), one seed; then, of what came "
        f"near the best or is built on, after all six, which decide{reversals(results)}. A higher rate must lead by "
        f"more than {NOISE} points, about a standard error. What is best after a sort (after a signum for "
        "straight-through) is what this gradient is given wherever it is used; the paper's own way, the dense bridge, "
        "has a search after every function, and after a signum at every place; with skip it has the better of two "
        f"rates after those other than a sort. No rate above {RATES['flat']}, the one of the baselines, is chosen; "
        "what is beyond the best of a row's rates, or far from it, was not tried (–). *Diverges later*: with another "
        "seed, after the epochs of the search; it is not chosen. Away from the reduced scale the rates were not "
        "searched: there each way has the same share of the baseline's rate."
    )
    head = ("row", *TRIED, *(f"{rate}, six epochs" for rate in whole), "chosen")
    return part(Heading("Which learning rate?"), Text(text), Table(head, lines)) + one_rate(results)


def reversals(results: Results) -> str:
    """How often a whole training preferred another rate than a short one, of the same rates."""
    both = [(reached(row, results), reached(row, results, "whole")) for row in WHOLE]
    both = [({rate: short[rate] for rate in whole if rate in short}, whole) for short, whole in both]
    both = [(short, whole) for short, whole in both if len(short) == len(whole) > 1]
    turned = sum(max(short, key=short.__getitem__) != max(whole, key=whole.__getitem__) for short, whole in both)
    return f" (in {turned} of {len(both)} rows otherwise than two epochs would have)" if both else ""


def one_rate(results: Results) -> Part:
    """What the paper's 25 points would be, had straight-through no rate of its own."""
    rows = SORT1D[:2]
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
    explained = max(*leads.values(), 0.0)
    text = (
        "After one sort over all units (a case study, below) the learning rate decides how far the bridge is ahead of "
        f"straight-through, or behind it (validation, one seed, all six epochs): {'; '.join(side)}; each at its own, "
        f"{own[0]} and {own[1]}, {bridge[own[0]]:.2f} against {straight[own[1]]:.2f} %. A comparison at one rate for "
        "both, chosen for the bridge, says more about the rate than about the gradient. It makes at most "
        f"{explained:.2f} of the paper's 25 points here; the rest has no explanation in our runs."
    )
    return [Text(text)]


def _tried(row: str, reached: dict[str, float]) -> list[str]:
    texts = zip(TRIED, tables.tried(reached, TRIED))
    return [_diverging(text) if rate in DIVERGES.get(row, ()) else text for rate, text in texts]


def _diverging(text: str) -> str:
    return "diverges" if text == "–" else f"{text}, diverges later"
