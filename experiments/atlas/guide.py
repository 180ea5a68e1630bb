"""The guide: what to take for which kind of function. Every sentence names the records that it is made from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from experiments.atlas.plan import ALL, CORRECTED, HELD_BACK, OURS, UNBIASED, Function
from experiments.atlas.scores import EQUAL_CALLS, SCORE, Scored, is_level, order, recovered, together
from experiments.blocks import Bullets, Heading, Part, Table, Text, part
from experiments.results import Results
from experiments.statistics import PAIRED_RULE, compare_paired

Kind = Callable[[Function], bool]
KINDS: Mapping[str, Kind] = {
    "The shape changes and autograd finds nothing": lambda f: not f.keeps_shape and not f.gradient,
    "The shape changes and autograd finds a gradient": lambda f: not f.keeps_shape and f.gradient,
    "The shape stays and autograd finds a gradient": lambda f: f.keeps_shape and f.gradient,
    "Every unit by itself, rising": lambda f: f.alike and f.monotone,
    "Every unit by itself, rising and falling": lambda f: f.alike and not f.monotone,
    "A choice or an order among the units (solvers)": lambda f: f.solver,
    "The shape stays, units are mixed, no bounds, no gradient": lambda f: (
        f.keeps_shape and not (f.alike or f.bounded or f.gradient)
    ),
}
TRAITS: Mapping[str, Kind] = {
    "all": lambda f: True,
    "keeps the shape": lambda f: f.keeps_shape,
    "changes it": lambda f: not f.keeps_shape,
    "rises": lambda f: f.monotone,
    "constant pieces": lambda f: f.pieces == "constant",
    "linear pieces": lambda f: f.pieces == "linear",
    "no bounds": lambda f: not f.bounded,
    "no torch": lambda f: f.numpy,
}
RULE = (
    "What is first is so by the mean score over the functions of its kind at equal steps, among the rows that apply to "
    "all of them; *level* is who stays within two standard errors of it (over seeds)."
)


@dataclass(frozen=True)
class Advice:
    """What the records say of one kind of function."""

    kind: str
    functions: Sequence[Function]
    ranked: Sequence[Scored]  # at equal steps, the best first
    frugal: Sequence[Scored]  # at equal calls

    @property
    def first(self) -> Scored:
        return self.ranked[0]

    @property
    def level(self) -> list[Scored]:
        return _level(self.ranked)

    @property
    def sparing(self) -> tuple[Scored, list[Scored]] | None:
        """The first at equal calls, and who is level with it."""
        return (self.frugal[0], _level(self.frugal)) if self.frugal else None

    def sentence(self) -> str:
        names = ", ".join(f.title or f.name for f in self.functions)
        words = f"**{self.kind}** ({names}) → *{self.first.row}*, {_written(self.first)}"
        if self.level:
            words += f"; level with it: {', '.join(f'*{one.row}* ({one.sample.mean:.2f})' for one in self.level)}"
        elif len(self.ranked) > 1:
            words += f"; next is *{self.ranked[1].row}* ({self.ranked[1].sample.mean:.2f})"
        if self.frugal and self.frugal[0].row != self.first.row:
            words += f". With as many calls as others have steps: *{self.frugal[0].row}* "
            words += f"({self.frugal[0].sample.mean:.2f})"
        return f"{words}. Cells: {', '.join(self._cells())}."

    def _cells(self) -> list[str]:
        rows = dict.fromkeys([one.row for one in (self.first, *self.ranked[1:2], *self.level, *self.frugal[:1])])
        names = ",".join(f.name for f in self.functions)
        return [f"`{re.sub('[^a-z0-9]+', '-', row.lower())}.{{{names}}}-recover`" for row in rows]


def _level(ranked: Sequence[Scored]) -> list[Scored]:
    return [one for one in ranked[1:] if is_level(one, ranked[0])]


def _written(one: Scored) -> str:
    times = "call" if round(one.calls) == 1 else "calls"
    return f"score {one.sample.text(2)}, {one.calls:.0f} {times} a sample and step"


def advice(results: Results) -> list[Advice]:
    """For every kind that has whole comparisons."""
    found = []
    for kind, holds in KINDS.items():
        steps = {f: scored for f in ALL if holds(f) and (scored := recovered(results, f))}
        frugal = [recovered(results, f, EQUAL_CALLS) for f in steps]
        ranked = order(together(list(steps.values())).values())
        if ranked:
            found.append(Advice(kind, list(steps), ranked, order(together(frugal).values())))
    return found


def guide(results: Results) -> Part:
    sentences = [one.sentence() for one in advice(results)]
    return part(Heading("What to take"), Text(RULE), Bullets(sentences))


def ranks(results: Results) -> Part:
    """The mean place of every row on functions with a trait, and on how many it was tried."""
    places: dict[str, dict[Function, int]] = {}
    for function in ALL:
        for place, one in enumerate(order(recovered(results, function).values()), 1):
            places.setdefault(one.row, {})[function] = place
    rows = []
    for row, of_row in places.items():
        cells = []
        for holds in TRAITS.values():
            found = [place for function, place in of_row.items() if holds(function)]
            cells.append(f"{sum(found) / len(found):.1f} ({len(found)})" if found else "–")
        rows.append([row, *cells])
    rows.sort(key=lambda cells: float(cells[1].split()[0]))
    head = "The mean place among the rows tried, on all functions with a trait, and how many these were:"
    return part(Heading("Places by trait"), Text(head), Table(("row", *TRAITS), rows))


def recipe(results: Results) -> Part:
    """How our recipe does on every function, apart for those that were held back from trials."""
    rows = []
    for function in ALL:
        scored = recovered(results, function, EQUAL_CALLS)
        if OURS not in scored or len(scored) < 2:
            continue
        ours, (first, *_) = scored[OURS], order(scored.values())
        straight = scored.get("straight-through")
        rows.append(
            [
                function.title or function.name,
                "held back" if function in HELD_BACK else "tried",
                ours.sample.text(3),
                f"{first.row} {first.sample.text(3)}",
                "first" if ours.row == first.row else "level" if is_level(ours, first) else "behind",
                f"{ours.sample.mean - straight.sample.mean:+.3f}" if straight else "does not apply",
            ]
        )
    head = f"The {OURS} on every function, at equal calls; *level* within two standard errors of the first:"
    columns = ("function", "was", "score", "first", "is", "against straight-through")
    return part(Heading("The recipe"), Text(head), Table(columns, rows))


def correction(results: Results) -> Part:
    """Which form of the correction deserves to be the default, and whether any is worth its calls."""
    rows = []
    for one, two in ((CORRECTED, UNBIASED), (CORRECTED, OURS), (UNBIASED, OURS)):
        for price, metric in (("steps", SCORE), ("calls", EQUAL_CALLS)):
            of_functions = [scored for f in ALL if {one, two} <= (scored := recovered(results, f, metric)).keys()]
            if of_functions:
                means = together(of_functions)
                ahead = sum(scored[one].sample.mean > scored[two].sample.mean for scored in of_functions)
                lead = compare_paired(means[one].sample, means[two].sample, 3)
                rows.append([one, two, f"equal {price}", lead, f"{ahead} of {len(of_functions)}"])
    head = f"Mean scores over all functions. {PAIRED_RULE}"
    columns = ("row", "against", "at", "is", "ahead on functions")
    return part(Heading("Does the correction earn its calls?"), Text(head), Table(columns, rows))
