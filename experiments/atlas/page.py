"""The atlas's section of the results page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median

from experiments.atlas.guide import advice, correction, guide, ranks, recipe
from experiments.atlas.heat_map import HeatMap
from experiments.atlas.plan import ALL, BUDGETS, HELD_BACK, ROWS, TRIED, YARDSTICK, Function, why_empty
from experiments.atlas.scores import EQUAL_CALLS, Scored, recovered, used
from experiments.atlas.solvers import calibration
from experiments.blocks import Block, Heading, Part, Table, Text, part
from experiments.results import Metric, Results

ERROR = Metric("test/error", digits=4)
# An actuator in the loop: the notebook "simulator_in_the_loop" of AdaSwarm, one seed each.
PRINTED = {"their tanh surrogate": 0.1593, "their SwarmLoss": 0.0081}
LEAST_ERROR = 1 / 192  # of a quarter step: no net before this actuator can do better

Scores = Callable[[Results, Function], Mapping[str, Scored]]
MATCHED = {
    "random points": ("match/random_cosine", "match/random_length"),
    "trained points": ("match/trained_cosine", "match/trained_length"),
}


def render(results: Results) -> list[Part]:
    if not results.records():
        return []
    return [
        introduction(results.scale),
        functions(results),
        *(maps(results)),
        guide(results),
        ranks(results),
        recipe(results),
        correction(results),
        matches(results),
        yardstick(results),
        calibration(),
        searched(results),
    ]


def introduction(scale: str) -> Part:
    budget = BUDGETS[scale]
    text = (
        f"{len(TRIED)} functions and {len(HELD_BACK)} that were held back from all trials (for *recover* alone), every "
        "estimator that applies. *Recover*: an encoder 8-64-64-units before the function "
        f"learns to match what the function makes of a hidden teacher's output; {budget['steps']:,} steps of 128, "
        "score 0 as the encoder that never learned, 1 as the teacher, at least −1. *At equal calls* every row calls "
        f"the function {budget['steps']:,} × 128 times: who asks it five times a step has a fifth of the steps. *Use*: "
        f"the function as the bottleneck of a small classifier of digits, {budget['use_steps']:,} steps; 0 with a "
        "frozen encoder, 1 without any hard function. Learning rate and knob of every row: the best of four tries of a "
        "quarter of the steps, on validation, in every cell anew. Mean ± standard deviation over seeds; in brackets "
        "the calls of the function for a sample and step. Grey: does not apply (on the page, hover for the reason)."
    )
    return [Heading("The atlas: which gradient for which function", level=1), Text(text)]


def functions(results: Results) -> Part:
    """What each of them is like."""
    lines = []
    for f in ALL:
        costs = [r["call_seconds"] for row in ROWS for r in results.at(row, f.name, "recover").records.values()]
        if costs:
            is_so = {"rises": f.monotone, "bounded": f.bounded, "every unit alike": f.alike, "no torch": f.numpy}
            words = [f"{f.pieces} pieces", *(word for word, holds in is_so.items() if holds)]
            found = "a gradient" if f.gradient else "nothing, or zero"
            shapes = " → ".join("×".join(map(str, s)) for s in (f.in_shape, f.out_shape))
            lines.append([f.title or f.name, shapes, ", ".join(words), found, f"{1e6 * min(costs):.2g}"])
    head = ("function", "shape", "traits", "autograd finds", "µs a call and sample")
    return part(Heading("The functions"), Table(head, lines))


def maps(results: Results) -> list[Part]:
    kinds: dict[str, tuple[str, Scores]] = {
        "atlas_recover": ("Recover, at equal steps", recovered),
        "atlas_calls": ("Recover, at equal calls", lambda r, f: recovered(r, f, EQUAL_CALLS)),
        "atlas_use": ("Use: a bottleneck of a classifier of digits", used),
    }
    best = {"atlas_use": "no hard function"}
    return [
        heat_map(results, name, title, scores, f"0 frozen encoder, 1 {best.get(name, 'teacher')}")
        for name, (title, scores) in kinds.items()
    ]


def heat_map(results: Results, name: str, title: str, scores: Scores, label: str) -> Part:
    found = {function: of for function in ALL if (of := scores(results, function))}
    rows = [row for row in ROWS if any(row in of for of in found.values())]
    if not found:
        return []
    columns, task = {function.name for function in found}, "use" if scores is used else "recover"
    calls = {row: fmean(of[row].calls for of in found.values() if row in of) for row in rows}
    figure = HeatMap(
        name,
        f"{title}: score of every estimator on every function",
        title,
        [function.title or function.name for function in found],
        [f"{row} ({calls[row]:.0f})" for row in rows],
        [[round(of[row].sample.mean, 4) if row in of else None for row in rows] for of in found.values()],
        [[round(of[row].sample.std, 4) if row in of else 0.0 for row in rows] for of in found.values()],
        label,
        [["" if row in of else why_empty(row, function) for row in rows] for function, of in found.items()],
        evidence=[place for place in results if place.column in columns and place.variant == task],
    )
    return [figure]


def matches(results: Results) -> Part:
    """Cosine and length of every row's gradients: the median over the functions, on some of which a row diverges."""
    lines = []
    for row in ROWS:
        records = [r for f in ALL for r in results.at(row, f.name, "recover").records.values()]
        cells = []
        for names in MATCHED.values():
            for name in names:
                values = [r["metrics"][name] for r in records if name in r["metrics"]]
                cells.append(f"{median(values):.2f}" if values else "–")
        if records:
            lines.append([row, *cells])
    head = (
        "Gradients after the training of *recover*, against the gradient of the function smoothed by noise of 0.3: the "
        "cosine of one draw, and its length in units of the reference's, at random points and at the encoder's; the "
        "median over functions and seeds."
    )
    columns = ("row", "cosine, random", "length, random", "cosine, trained", "length, trained")
    return part(Heading("Match"), Text(head), Table(columns, lines))


def yardstick(results: Results) -> Part:
    """The actuator in the loop, beside what somebody else prints."""
    places = [place for row in ROWS if (place := results.at(row, YARDSTICK.name, "mse"))]
    lines = [
        [place.row, place.sample(ERROR).text(4), f"{fmean(r['calls'] for r in place.records.values()):.0f}"]
        for place in sorted(places, key=lambda place: place.sample(ERROR).mean)
    ]
    if not lines:
        return []
    lines += [[name, f"{value:.4f} (1)", "printed"] for name, value in PRINTED.items()]
    head = (
        "A net before an actuator with saturation, dead zone and quarter steps must make it follow a ramp (AdaSwarm's "
        f"notebook and protocol, no search): squared error of what the actuator does; {LEAST_ERROR:.4f} is the least "
        "possible, 0.3367 that of an actuator at rest. Rows that draw around z count their noise in its deviations, "
        "which are small at the start: they may never see the far side of the dead zone."
    )
    return [
        Heading("A yardstick: an actuator in the loop"),
        Text(head),
        Table(("row", "squared error", "calls"), lines),
    ]


def searched(results: Results) -> Part:
    """What the searches chose, over all cells of a row."""
    lines: list[list[str]] = []
    for row in ROWS:
        records = [r for place in results if place.row == row for r in place.records.values() if "search" in r]
        if records:
            chosen = {name: Counter(r["chosen"][name] for r in records) for name in records[0]["chosen"]}
            texts = [
                f"{name} " + ", ".join(f"{value:g} ({count})" for value, count in sorted(counts.items()))
                for name, counts in chosen.items()
            ]
            lines.append([row, "; ".join(texts), str(len(records))])
    head = "What the search chose, and how often; the records have what every try reached on validation."
    blocks: tuple[Block, ...] = (Heading("The search"), Text(head))
    return part(*blocks, Table(("row", "chosen (cells)", "cells"), lines))


def headline(results: Results) -> Table:
    """The README's: what to take for which kind of function, where steps are the price and where calls are."""
    found = advice(results) if results.scale == "cpu" else []
    lines = [
        [one.kind, *_taken(one.first, one.level), *(_taken(*one.sparing) if one.sparing else ("–", "–"))]
        for one in found
    ]
    head = ("a function without gradient", "take", "score (0 frozen, 1 teacher)", "where calls are dear", "score")
    evidence = [[results.at(one.first.row, f.name, "recover") for f in one.functions] for one in found]
    return Table(head, lines, evidence=evidence)


def _taken(first: Scored, level: Sequence[Scored]) -> tuple[str, str]:
    """Who is first, with its calls and whoever is level; and its score."""
    names = [first.row if round(first.calls) < 2 else f"{first.row}, {first.calls:.0f} calls a step"]
    names += [f"level: {', '.join(one.row for one in level)}"] if level else []
    return "; ".join(names), first.sample.text(3)
