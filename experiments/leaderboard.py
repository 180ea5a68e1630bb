"""Who is where: every way to get a gradient, across the tasks of all studies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from experiments import binarized, classification, representation, sorting
from experiments.atlas.plan import ALL as FUNCTIONS
from experiments.atlas.plan import ROWS as ATLAS_ROWS
from experiments.atlas.scores import SCORE
from experiments.blocks import Heading, Part, Table, Text
from experiments.methods import CONTROLS, NETS, PLAIN, method_of
from experiments.results import Metric, Place, Results

FEW = 1 / 4  # of the tasks: who was tried in less has too easy a place
REFERENCE = "Straight-through"  # what a step costs is told in its steps


@dataclass(frozen=True)
class Task:
    """A column of the leaderboard: rows that had equal steps, and what they are ranked by."""

    title: str
    study: str
    rows: Iterable[str]
    column: str
    metric: Metric
    variant: str = ""
    chosen_by: int = 1  # -1 where weights are selected by what should be low

    def places(self, results: Mapping[str, Results]) -> dict[str, Place]:
        """By method; of several rows of one method the one that validation would choose."""
        found: dict[str, list[Place]] = {}
        for place in results[self.study].among(self.rows, self.column, self.variant):
            method = method_of(place.row)
            if method and method.family not in (PLAIN, NETS, CONTROLS) and not _is_variant(place.row):
                found.setdefault(method.name, []).append(place)
        return {name: max(places, key=self._preference) for name, places in found.items()}

    def _preference(self, place: Place) -> float:
        """What validation says of a place; records of the atlas keep it as a metric."""
        if "best" in next(iter(place.records.values())):
            return self.chosen_by * place.selected().mean
        return place.sample(self.metric.on("valid")).mean


def _is_variant(row: str) -> bool:
    """Rows that show what a reading of the paper does, not how good a method is."""
    return row.startswith(("–", "Paper's recipe")) or row == binarized.PRINTED or row.endswith(", ELBO")


FASHION, CODES, CIFAR = "representation/fashion_mnist", "representation/cifar10", "classification/cifar10"
TASKS = (
    Task("sort 5", "sorting", sorting.DENSE, "T5", sorting.ACCURACY),
    Task("sort 10", "sorting", sorting.DENSE, "T10", sorting.ACCURACY),
    Task("sort 15", "sorting", sorting.DENSE, "T15", sorting.ACCURACY),
    Task("MNIST, nats", "binarized", binarized.ROWS, "mnist", binarized.ELBO),
    Task("Omniglot, nats", "binarized", binarized.ROWS, "omniglot", binarized.ELBO),
    Task("Fashion, MS-SSIM", FASHION, representation.ROWS, representation.MIDDLE, representation.SHRINK, chosen_by=-1),
    Task("Fashion, probe %", FASHION, representation.ROWS, representation.MIDDLE, representation.PROBE, chosen_by=-1),
    Task("CIFAR10, MS-SSIM", CODES, representation.ROWS, representation.MIDDLE, representation.SHRINK, chosen_by=-1),
    Task("CIFAR10, probe %", CODES, representation.ROWS, representation.MIDDLE, representation.PROBE, chosen_by=-1),
    Task("CIFAR10, sort %", CIFAR, [row for row in classification.ROWS if row.startswith("Sort,")],
         classification.MODERN, classification.ACCURACY),
    Task("CIFAR10, signum %", CIFAR, [row for row in classification.ROWS if row.startswith("Signum,")],
         classification.MODERN, classification.ACCURACY),
    *(Task(f"atlas: {f.title or f.name}", "atlas", ATLAS_ROWS, f.name, SCORE, "recover") for f in FUNCTIONS),
)  # fmt: skip


@dataclass(frozen=True)
class Standing:
    """A method: its place, mean and step in every task that it was tried in."""

    method: str
    ranks: Mapping[str, tuple[int, int]]  # by task: place, of how many
    places: Mapping[str, Place]
    cost: float | None  # steps of straight-through that one of its own takes, in the mean over the tasks with both

    @property
    def rank(self) -> float:
        """The mean of the shares of the others that are ahead: 0 is always first, 1 always last."""
        return fmean((place - 1) / max(of - 1, 1) for place, of in self.ranks.values())


def standings(results: Mapping[str, Results]) -> list[Standing]:
    """The best first, after them those of few tasks; a task that only one was tried in does not count."""
    ranks: dict[str, dict[str, tuple[int, int]]] = {}
    places: dict[str, dict[str, Place]] = {}
    costs: dict[str, list[float]] = {}
    for task in TASKS:
        found = task.places(results)
        if len(found) < 2:
            continue
        order = sorted(found, key=lambda name: -found[name].sample(task.metric).mean)
        straight = found.get(REFERENCE)
        for number, name in enumerate(order, 1):
            ranks.setdefault(name, {})[task.title] = (number, len(order))
            places.setdefault(name, {})[task.title] = found[name]
            if straight and _has_clock(straight) and task.study != "atlas":
                costs.setdefault(name, []).append(found[name].step_seconds / straight.step_seconds)
    made = [Standing(name, ranks[name], places[name], fmean(costs[name]) if name in costs else None) for name in ranks]
    few = FEW * len({task for one in made for task in one.ranks})
    return sorted(made, key=lambda standing: (len(standing.ranks) < few, standing.rank))


def _has_clock(place: Place) -> bool:
    return all("train_seconds" in record for record in place.records.values())


HEAD = (
    "Every way to get a gradient through a hard function, over all tasks where rivals had the same net, data and "
    "steps: place, mean and seeds in each. *Behind* is the share of the rivals that are ahead, in the mean over the "
    "tasks (0: always first, 1: always last); *step* the time of a training step in steps of straight-through "
    "(– where only the atlas has tried it). Of several rows of one method validation chooses, so that one with more "
    "rows had more tries; of codes it chooses by the reconstruction, also where they are ranked by the probe. A method "
    "was tried where it applies, so few were tried everywhere; those of less than a quarter of the tasks stand last. "
    "What autograd knows by itself (the true gradient of a sort) is no rival: it is in the tables of the studies."
)


def leaderboard(results: Mapping[str, Results]) -> Part:
    found = standings(results)
    tried = [task for task in TASKS if any(task.title in one.places for one in found)]
    tasks, functions = ([task for task in tried if (task.study == "atlas") is are] for are in (False, True))
    rows = []
    for one in found:
        cells = [_cell(one, task) for task in tasks] + ([_together(one, functions)] if functions else [])
        cost = "–" if one.cost is None else f"{one.cost:.1f}"
        rows.append([one.method, f"{one.rank:.2f}", str(len(one.ranks)), cost, *cells])
    evidence = [list(one.places.values()) for one in found]
    if not rows:
        return []
    heads = [task.title for task in tasks] + (["atlas, mean place"] if functions else [])
    table = Table(("method", "behind", "tasks", "step", *heads), rows, evidence=evidence)
    return [Heading("Leaderboard", level=1), Text(HEAD), table]


def _together(one: Standing, tasks: Sequence[Task]) -> str:
    """The mean place over the functions of the atlas, and how many these are."""
    places = [one.ranks[task.title][0] for task in tasks if task.title in one.ranks]
    return f"{fmean(places):.1f} ({len(places)} functions)" if places else "–"


def _cell(one: Standing, task: Task) -> str:
    if task.title not in one.places:
        return "–"
    sample = one.places[task.title].sample(task.metric)
    place = one.ranks[task.title][0]
    return f"{'**1.**' if place == 1 else f'{place}.'} {sample.mean:.{task.metric.digits}f} ({sample.n})"
