"""Sorting: what the paper claims and leaves open."""

from __future__ import annotations

from experiments.numbers import duration, human
from experiments.paper.claim import FAILS, HOLDS, NOT_RUN, Claim, Gap, ahead, reached
from experiments.results import Place, Results
from experiments.sorting import (
    ACCURACY,
    DAB,
    DEMO_SAMPLES,
    PAPER,
    POINTER,
    PONDER,
    PRINTED_AT_15,
    READ,
    SHOWCASE,
    STRAIGHT,
    VALID,
)

TANH, ELU, FROZEN = "Tanh-Dense", "ELU-Dense", "– frozen random bridge"


def claims(results: Results) -> list[Claim]:
    at, long = results.at, results.at(DAB, "T10", "long")
    samples = f"in {human(long.samples)} samples" if long else ""
    return [
        reached("A hard signum with a bridge sorts five numbers", PAPER[DAB, "T5"], at(DAB, "T5"), ACCURACY, " %"),
        reached("… and ten", PAPER[DAB, "T10"], long, ACCURACY, " %", samples),
        reached("… and fifteen (Signum-Dense)", PAPER[DAB, "T15"], at(DAB, "T15"), ACCURACY, " %"),
        reached("… and fifteen (Signum-RNN)", PAPER[PONDER[5], "T15"], at(PONDER[5], "T15"), ACCURACY, " %"),
        ahead("The hard layer is ahead of the same net with a Tanh", _against(DAB, TANH, "T10"),
              [("T = 5", at(DAB, "T5"), at(TANH, "T5")), ("T = 10", at(DAB, "T10"), at(TANH, "T10")),
               ("T = 10, long", long, at(TANH, "T10", "long")), ("T = 15", at(DAB, "T15"), at(TANH, "T15"))], ACCURACY),
        fails_without(at(ELU, "T10")),
        ahead("It is ahead of pointer networks", _against(DAB, POINTER, "T10"),
              [("equal samples", at(DAB, "T10"), at(POINTER, "T10")), ("equal time", long, at(POINTER, "T10"))],
              ACCURACY),
        ahead("It is ahead of Read-Process-Write", _against(DAB, READ, "T10"),
              [("equal samples", at(DAB, "T10"), at(READ, "T10")), ("equal time", long, at(READ, "T10"))], ACCURACY),
        ahead("Ponder steps help the recurrent net, until about five", "a rising curve",
              [(f"T = {t}, P 5 against 0", at(PONDER[5], f"T{t}"), at(PONDER[0], f"T{t}")) for t in (5, 10)], ACCURACY),
        ahead("The *learned* Jacobian is what helps", "implied, not tried",
              [(f"T = {t}, against {what}", at(DAB, f"T{t}"), at(row, f"T{t}"))
               for what, row in (("a random one", FROZEN), ("the identity", STRAIGHT)) for t in (5, 10, 15)], ACCURACY),
        free(at(DAB, "T10"), at(STRAIGHT, "T10")),
    ]  # fmt: skip


def _against(one: str, two: str, column: str) -> str:
    return f"{PAPER[one, column].mean:g} against {PAPER[two, column].mean:g} %"


def fails_without(place: Place) -> Claim:
    claim, paper = "Without it (ELU) ten numbers cannot be sorted at all", f"{PAPER[ELU, 'T10'].mean:g} %"
    if not place:
        return Claim(claim, paper, "not run yet", NOT_RUN)
    sample = place.sample(ACCURACY)
    return Claim(claim, paper, f"{sample.spread()} %", HOLDS if sample.mean < 1 else FAILS, [place])


def free(bridge: Place, straight: Place) -> Claim:
    """The approximator is dropped after training."""
    claim, paper = "The bridge costs nothing at inference", "dropped after training"
    if not (bridge and straight):
        return Claim(claim, paper, "not run yet", NOT_RUN)
    (training, kept), (_, without) = bridge.parameters, straight.parameters
    ours = f"{human(kept)} parameters as without it; {human(training - kept)} more in training, and "
    ours += f"{bridge.step_seconds / straight.step_seconds:.1f} times the step of straight-through"
    return Claim(claim, paper, ours, HOLDS if kept == without else FAILS, [bridge, straight])


def gaps(results: Results) -> list[Gap]:
    return [routing(results), gamma(results), straight_through(results), budgets(results), placement(results)]


def routing(results: Results) -> Gap:
    printed = (
        "The objective lets the penalty pull at the layer before the hard function; the code in the appendix, where "
        "the two ways of the penalty cancel, does not; most people would write a third."
    )
    rows = {"as in the code (`released`)": DAB, "as in the objective": "– routing `equation`"}
    rows |= {"as most would write it": "– routing `additive`"}
    return Gap("Who receives which gradient", printed, *_at_both(results, rows))


def gamma(results: Results) -> Gap:
    printed = "Gamma is 10 for sorting, 2 to 70 elsewhere; how much it matters is not said."
    rows = {f"with `{routing}`, gamma {g}": f"– routing `{routing}`, gamma {g}" for routing, g in
            (("equation", "0.1"), ("additive", "1"), ("additive", "0.1"))}  # fmt: skip
    with_ten = {f"with `{routing}`, gamma 10": f"– routing `{routing}`" for routing in ("equation", "additive")}
    return Gap("How much gamma matters", printed, *_at_both(results, with_ten | rows))


def straight_through(results: Results) -> Gap:
    printed = "For sorting the paper does not try the cheapest rival, the identity in place of the Jacobian."
    return Gap(
        "Whether straight-through would do",
        printed,
        *_at_both(results, {"with the bridge": DAB, "with straight-through": STRAIGHT}),
    )


def placement(results: Results) -> Gap:
    printed = "Where in the recurrent net the hard function acts, once or at every step, is not said."
    rows = {"once, on the last output": PONDER[5], "at every step": "Signum-RNN, every step"}
    return Gap("Where the hard function stands in the LSTM", printed, *_at_both(results, rows))


def _at_both(results: Results, rows: dict[str, str]) -> tuple[list[str], list[Place]]:
    """The rows at five and at ten numbers: in words, and as places."""
    lines, places = [], []
    for t in (5, 10):
        found = {label: place for label, row in rows.items() if (place := results.at(row, f"T{t}"))}
        if found:
            texts = [f"{place.sample(ACCURACY).text(unit=' %')} {label}" for label, place in found.items()]
            lines.append(f"T = {t}: {', '.join(texts)}.")
        places += found.values()
    return lines, places


def budgets(results: Results) -> Gap:
    printed = (
        "The rivals' numbers are quoted from papers that trained for 10,000 iterations; the demo's log implies "
        f"{human(DEMO_SAMPLES)} samples for its own."
    )
    lines, places = [], []
    for row in (POINTER, READ, *(row for row in PRINTED_AT_15 if row != PONDER[5])):
        for column in ("T5", "T10", "T15"):
            place = results.at(row, column)
            if place and (row, column) in PAPER and place not in places:
                places.append(place)
                text = f"{row} at {column.replace('T', 'T = ')}, trained here: {place.sample(ACCURACY).text(unit=' %')}"
                lines.append(f"{text}, quoted there: {PAPER[row, column].text()} %.")
    for t, goal in ((t, PAPER[SHOWCASE, f"T{t}"].mean) for t in (5, 10, 15)):
        for samples, seconds in results.at(SHOWCASE, f"T{t}").passing(goal, VALID):
            places.append(results.at(SHOWCASE, f"T{t}"))
            spent = f"{human(samples)} samples and {duration(seconds)} with our best recipe, *{SHOWCASE}*"
            lines.append(f"The paper's {goal} % at T = {t} takes {spent}.")
    return Gap("Unequal budgets", printed, lines, places)
