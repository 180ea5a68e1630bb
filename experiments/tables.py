"""Tables of places: what a column says of a place, rows of places, rows against rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from experiments.blocks import Part, Table, Text, part
from experiments.numbers import duration, human
from experiments.results import Metric, Place, Results
from experiments.statistics import PaperNumbers, Sample, compare, verdict

Name = Callable[[str], str]  # a row as it is called away from its table


@dataclass(frozen=True)
class Column:
    """What the table says of a place: `text`, or `empty` while there is nothing; `always` needs no records."""

    head: str
    text: Callable[[Place], str]
    empty: str = "–"
    always: bool = False


ROW = Column("row", lambda place: place.name, always=True)
SCALE = Column("scale", lambda place: place.scale, always=True)
STEPS = Column("steps", lambda place: human(place.steps))
SAMPLES = Column("samples", lambda place: human(place.samples))
TIME = Column("time", lambda place: duration(place.seconds))
PARAMETERS = Column("parameters", lambda place: human(place.parameters[1]))
MORE_PARAMETERS = Column("in training alone", lambda place: human(place.parameters[0] - place.parameters[1]))
COMMAND = Column("command", lambda place: f"`{place.command}`", always=True)


def measured(head: str, metric: Metric) -> Column:
    """Mean ± standard deviation (seeds)."""
    return Column(head, lambda place: place.sample(metric).text(metric.digits), empty="not run yet")


def mean(head: str, metric: Metric) -> Column:
    """The mean alone."""
    return Column(head, lambda place: f"{place.sample(metric).mean:.{metric.digits}f}")


def ending(head: str, name: str) -> Column:
    """The mean of the last value of a training curve's column."""
    return Column(head, lambda place: f"{last.mean:.3g}" if (last := place.last(name)) else "–")


def paper(numbers: PaperNumbers, head: str = "paper") -> Column:
    """What the paper prints for the row and the column, whichever variant."""
    texts = {where: number.text() for where, number in numbers.items()}
    return Column(head, lambda place: texts.get((place.row, place.column), "–"), always=True)


def judged(numbers: PaperNumbers, metric: Metric, notes: Mapping[str, str] = {}) -> Column:
    """The verdict on the paper's number, or the note of a row that is not to be judged."""

    def text(place: Place) -> str:
        number = numbers.get((place.row, place.column))
        if number is None:
            return notes.get(place.row, "–")
        return verdict(place.sample(metric), number, place.samples)

    return Column("verdict", text)


def full(
    numbers: PaperNumbers,
    head: str,
    metric: Metric,
    judge: Metric | None = None,
    notes: Mapping[str, str] = {},
    more: Sequence[Column] = (),
) -> list[Column]:
    """The columns of a results table: paper and ours, verdict (on `judge`, if that is another metric), what it took."""
    values = [paper(numbers), measured(head, metric), judged(numbers, judge or metric, notes), *more]
    return [ROW, *values, SCALE, SAMPLES, TIME, COMMAND]


def row_table(places: Iterable[Place], columns: Sequence[Column], caption: str = "", file: str = "") -> Table:
    """One row for each place."""
    places = list(places)
    rows = [[c.text(place) if place or c.always else c.empty for c in columns] for place in places]
    return Table([column.head for column in columns], rows, caption, file, [[place] for place in places])


def headline(title: str, places: Mapping[str, Place], *columns: Column) -> Table:
    """The README's table of a study: labelled places, those that have records."""
    labels = {place: label for label, place in places.items() if place}
    return row_table(labels, [Column(title, lambda place: labels[place]), *columns, SAMPLES, TIME])


def summary(headlines: Sequence[Table]) -> Table:
    """The headlines of all studies in one table. What a number measures stands in front of it, or in the title."""
    rows = []
    for table in headlines:
        for row in table.rows:
            label, *cells = row
            by_head = dict(zip(table.header[1:], cells))
            paper, time, _ = (by_head.pop(head, "–") for head in ("paper's best", TIME.head, SAMPLES.head))
            ours = [cell if head == "ours" else f"{head} {cell}" for head, cell in by_head.items()]
            rows.append([table.header[0] if row is table.rows[0] else "", label, paper, "; ".join(ours), time])
    return Table(("what", "row", "paper's best", "ours", "time"), rows)


def calling(family: str) -> Name:
    """Rows that start with a dash belong to the row above them; alone they need its name."""
    return lambda row: f"{family}, {row.removeprefix('– ')}" if row.startswith("– ") else row


At = tuple[str, str]  # column and variant


def tried(measured: Mapping[str, float], candidates: Sequence[str]) -> list[str]:
    """What each candidate of a search has reached."""
    return [f"{measured[one]:.2f}" if one in measured else "–" for one in candidates]


def compared(
    results: Results,
    pairs: Iterable[tuple[str, str]],
    metric: Metric,
    at: At,
    against: At | None = None,
    name: Name = str,
    judge: Callable[[Sample, Sample, int], str] = compare,
    of: Callable[[Place, Metric], Sample] = Place.sample,
) -> list[list[str]]:
    """[row, against, is] for each pair of rows that have records, the second one at `against` if that is elsewhere.

    `judge` is `compare`, or `compare_paired` where rows share their seeds; `of` may be another way to measure a place.
    """
    lines = []
    for pair in pairs:
        one, two = results.at(pair[0], *at), results.at(pair[1], *(against or at))
        if one and two:
            lines.append([*map(name, pair), judge(of(one, metric), of(two, metric), metric.digits)])
    return lines


def comparison(
    results: Results,
    pairs: Iterable[tuple[str, str]],
    metric: Metric,
    at: At,
    name: Name = str,
    judge: Callable[[Sample, Sample, int], str] = compare,
) -> Table:
    """Row against row in one column, with what each line is made from."""
    pairs = [pair for pair in pairs if all(results.at(row, *at) for row in pair)]
    evidence = [[results.at(row, *at) for row in pair] for pair in pairs]
    return Table(("row", "against", "is"), compared(results, pairs, metric, at, None, name, judge), evidence=evidence)


def compared_in(
    results: Results,
    pairs: Iterable[tuple[str, str]],
    measures: Mapping[str, tuple[Metric, Callable[[Place, Metric], Sample]]],
    at: At,
    judge: Callable[[Sample, Sample, int], str],
) -> Table:
    """Row against row in several measures, a column for each: by its head the metric, and how a place has it."""
    pairs = list(pairs)
    columns = [compared(results, pairs, metric, at, judge=judge, of=of) for metric, of in measures.values()]
    return Table(
        ("row", "against", *measures), [[*lines[0][:2], *(line[-1] for line in lines)] for lines in zip(*columns)]
    )


def against(results: Results, pairs: Iterable[tuple[str, str]], metric: Metric, at: At, what: str, name: Name) -> Part:
    """Row against row in one column; `what` is measured."""
    head = f"Row against row, {what}, ± one standard error; *level* within two of them."
    return part(Text(head), comparison(results, pairs, metric, at, name))


def equal_time(places: Sequence[Place], metric: Metric, what: str, name: Name = str) -> Part:
    """The best validation value of every row after as much training as the cheapest row took; the best row first."""
    if len(places) < 2:
        return []
    time = min(min(place.times.values()) for place in places)
    then, last = ({place: place.best_within(until, metric) for place in places} for until in (time, math.inf))

    def order(place: Place) -> tuple[bool, float]:
        shown = then[place] or last[place]
        return then[place] is None, -shown.mean if shown else math.inf

    def text(sample: Sample | None) -> str:
        return sample.text(metric.digits) if sample else "–"

    ordered = sorted(places, key=order)
    rows = [[name(place.row), text(then[place]), text(last[place])] for place in ordered]
    head = f"The best validation {what} within {duration(time)} of training, and within all of the equal steps:"
    return [
        Text(head),
        Table(("row", "at equal time", "at equal steps"), rows, evidence=[[place] for place in ordered]),
    ]
