"""The records of a study, loaded once, and what one asks of them: every table, comparison and figure starts here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from experiments.statistics import Band, Curve, Sample, at_least, band, best_until
from experiments.study import Cell, Record, Records

Axis = Literal["step", "samples", "seconds"]


@dataclass(frozen=True)
class Metric:
    """A number of a record, e.g. "test/elbo": times `factor` (100 makes it percent), written with `digits`."""

    name: str
    factor: float = 1.0
    digits: int = 2

    def on(self, split: str) -> Metric:
        """The same of another split."""
        return replace(self, name=f"{split}/{self.name.partition('/')[2]}")


@dataclass(frozen=True, eq=False)
class Place:
    """Where a row and a column of a study meet: one command, trained with several seeds. False while it is empty."""

    row: str
    column: str
    variant: str
    scale: str
    overrides: Sequence[str] = ()
    records: Mapping[int, Record] = field(default_factory=dict)  # by seed, in the order of the plan
    files: Mapping[int, Path] = field(default_factory=dict)  # where these are, by seed

    def __bool__(self) -> bool:
        return bool(self.records)

    @property
    def name(self) -> str:
        return f"{self.row} ({self.variant})" if self.variant else self.row

    @property
    def command(self) -> str:
        return " ".join(["python train.py", *self.overrides])

    def values(self, metric: Metric) -> dict[int, float]:
        """By seed."""
        for record in self.records.values():
            if metric.name not in record["metrics"]:
                known = ", ".join(record["metrics"])
                raise KeyError(f"{self.name}, {self.column} has no {metric.name}; its records have {known}")
        return {seed: metric.factor * record["metrics"][metric.name] for seed, record in self.records.items()}

    def sample(self, metric: Metric) -> Sample:
        return Sample.of(self.values(metric))

    def selected(self, factor: float = 1.0) -> Sample:
        """What the metric that selects the weights was at its best, on validation."""
        return Sample.of({seed: factor * record["best"]["value"] for seed, record in self.records.items()})

    @property
    def selects(self) -> Metric:
        return Metric(self._first["best"]["metric"])

    def last(self, name: str) -> Sample | None:
        """The end of a column of the training curve, over the seeds that measured it there."""
        ends = {seed: record["curve"].get(name, [None])[-1] for seed, record in self.records.items()}
        measured = {seed: value for seed, value in ends.items() if value is not None}
        return Sample.of(measured) if measured else None

    @property
    def samples(self) -> int:
        return self._first["samples"]

    @property
    def parameters(self) -> tuple[int, int]:
        """In training and at inference."""
        return self._first["parameters"]["training"], self._first["parameters"]["inference"]

    @property
    def step_seconds(self) -> float:
        """Mean time of a training step."""
        return self.seconds / self.steps

    @property
    def steps(self) -> int:
        return self._first["steps"]

    @property
    def seconds(self) -> float:
        """Mean time of training alone."""
        return sum(self.times.values()) / len(self.records)

    @property
    def times(self) -> dict[int, float]:
        return {seed: training_time(record) for seed, record in self.records.items()}

    @property
    def _first(self) -> Record:
        return next(iter(self.records.values()))

    def curves(self, x: Axis, metric: Metric | None = None) -> dict[int, Curve]:
        """(x, metric) at every evaluation, by seed; the metric is the one that selects the weights if none is given."""
        return {seed: _curve(record, x, metric) for seed, record in self.records.items()}

    def band(self, x: Axis, metric: Metric | None = None) -> Band:
        return band(self.curves(x, metric))

    def reached(self, level: float, x: Axis, metric: Metric | None = None) -> dict[int, float]:
        """Where each curve first passes `level`; seeds that never do are not there."""
        passed = {seed: at_least(curve, level) for seed, curve in self.curves(x, metric).items()}
        return {seed: at for seed, at in passed.items() if at is not None}

    def passing(self, level: float, metric: Metric | None = None) -> list[tuple[float, float]]:
        """Samples and seconds until `level`, of every seed that passes it."""
        samples, seconds = (self.reached(level, x, metric) for x in ("samples", "seconds"))
        return [(samples[seed], seconds[seed]) for seed in samples if seed in seconds]

    def best_within(self, seconds: float, metric: Metric | None = None) -> Sample | None:
        """The best of the validation curves until then."""
        best = {seed: best_until(curve, seconds) for seed, curve in self.curves("seconds", metric).items()}
        measured = {seed: value for seed, value in best.items() if value is not None}
        return Sample.of(measured) if measured else None


class Results:
    """All places of a plan with their records, each file read once."""

    def __init__(self, records: Records, plan: Iterable[Cell], scale: str):
        self.scale = scale
        self.plan = list(plan)
        cells: dict[tuple[str, str, str], list[Cell]] = defaultdict(list)
        for cell in self.plan:
            cells[cell.row, cell.column, cell.variant].append(cell)
        self._places = {where: self._place(records, of_place) for where, of_place in cells.items()}

    def _place(self, records: Records, cells: Sequence[Cell]) -> Place:
        one, loaded = cells[0], {cell.seed: records.of(cell) for cell in cells}
        found = {seed: record for seed, record in loaded.items() if record is not None}
        files = {cell.seed: file for cell in cells if (file := records.file(cell))}
        return Place(one.row, one.column, one.variant, self.scale, one.overrides, found, files)

    def __iter__(self) -> Iterator[Place]:
        """In the order of the plan."""
        return iter(self._places.values())

    def at(self, row: str, column: str, variant: str = "") -> Place:
        """An empty place where nothing is planned."""
        return self._places.get((row, column, variant), Place(row, column, variant, self.scale))

    def among(self, rows: Iterable[str], column: str, variant: str = "") -> list[Place]:
        """The places of these rows that have records."""
        return [place for row in rows if (place := self.at(row, column, variant))]

    def column(self, name: str) -> list[Place]:
        """Every place of a column, all variants, run or not."""
        return [place for place in self if place.column == name]

    def of(self, cell: Cell) -> Record | None:
        return self.at(cell.row, cell.column, cell.variant).records.get(cell.seed)

    def missing(self) -> list[Cell]:
        """What is planned and has no record."""
        return [cell for cell in self.plan if self.of(cell) is None]

    def records(self) -> list[Record]:
        return [record for place in self for record in place.records.values()]


def ranked(places: Iterable[Place], metric: Metric) -> list[Place]:
    """The best first, by the mean."""
    return sorted(places, key=lambda place: -place.sample(metric).mean)


def chosen(places: Iterable[Place]) -> Place:
    """The place one would choose by validation alone."""
    return max(places, key=lambda place: place.selected().mean)


def clock(record: Record) -> str:
    """Which clock says what a run cost: the processor's where one thread did it all, else the one on the wall."""
    if "train_seconds" not in record:  # the atlas has no other
        return "cpu_seconds"
    alone = record["device"] == "cpu" and record["threads"] == record["world"] == 1
    return "cpu_seconds" if alone and "cpu_seconds" in record else "train_seconds"


def training_time(record: Record) -> float:
    """Seconds of training alone."""
    return record[clock(record)]


def _curve(record: Record, x: Axis, metric: Metric | None) -> Curve:
    metric, points = metric or Metric(record["best"]["metric"]), record["curve"]
    if x == "seconds":  # the first records have only the clock on the wall
        xs = points.get(clock(record), points.get("seconds", ()))
    else:
        xs = [step * (record["samples"] / record["steps"] if x == "samples" else 1) for step in points["step"]]
    return [(at, metric.factor * value) for at, value in zip(xs, points[metric.name])]
