"""How the rows of the representation study got their learning rates and knobs: the same small search for all."""

from __future__ import annotations

from itertools import product

from experiments import tables
from experiments.blocks import Heading, Part, Table, Text, part
from experiments.representation import AT, CIFAR, FASHION, FLOORS, MIDDLE, ROWS, THRESHOLD, Images
from experiments.results import Results
from experiments.study import Cell, Study

# Two learning rates and two values of the row's own knob, one seed, the middle size,
# fewer steps, by validation. What it chose is `tuned` of the dataset in representation.py; a test compares the two.
RATES = ("optimizer.lr=1e-3", "optimizer.lr=3e-3")
KNOBS = {
    "approximator=matched": ("approximator.cap=2", "approximator.cap=4"),
    "estimator=fitted": ("estimator.lr=1e-3", "estimator.lr=3e-3"),
    "estimator=gumbel": ("estimator.temperature_end=0.3", "estimator.temperature_end=0.7"),
    "estimator=st_gumbel": ("estimator.temperature=0.5", "estimator.temperature=1"),
    "hard=signum estimator=straight_through": ("estimator.through=logit", "estimator.through=tanh"),
    "hard=binary estimator=straight_through": ("estimator.through=logit", "estimator.through=tanh"),
    "estimator=straight_through": ("trainer.clip_norm=null", "trainer.clip_norm=100"),
    "estimator=reinmax": ("estimator.temperature=1", "estimator.temperature=1.5"),
    "estimator=rebar": ("trainer.control_lr_scale=1", "trainer.control_lr_scale=10"),
    "estimator=vector_quantization": ("estimator.commitment=0.25", "estimator.commitment=1"),
    "": ("estimator.gamma=1", "estimator.gamma=10"),
}
TAUS = tuple(f"hard.tau={tau}" for tau in (0.1, 0.2, 0.35, 0.5))
SHORT = "budget.cpu.steps=500 task.probes=false"
SEARCHED = {  # on which images, for which rows
    FASHION: (*ROWS, THRESHOLD),
    CIFAR: (*CIFAR.rows, THRESHOLD),
}


def candidates(row: str) -> list[str]:
    """What the search tries for a row."""
    if row == THRESHOLD:
        return list(TAUS)  # nothing is trained
    knob = next(values for words, values in KNOBS.items() if words in ROWS[row])
    return [" ".join(pair) for pair in product(RATES, knob)]


def column(images: Images, number: int) -> str:
    return f"try{number}" if images is FASHION else f"{images.name}-try{number}"


def searched(scale: str) -> list[Cell]:
    """The cells of the search."""
    if scale == "smoke":
        return []
    return [
        Cell(row, column(images, number), 0, tuple(f"{command} {words} {AT[MIDDLE]} {SHORT} {tried}".split()))
        for images, rows in SEARCHED.items()
        for command in [f"experiment=representation/{images.name}"]
        for row, words in {**ROWS, **FLOORS}.items()
        if row in rows
        for number, tried in enumerate(candidates(row))
    ]


def tried(images: Images, row: str, results: Results) -> dict[str, float]:
    """What came of those candidates that have been tried: the selecting metric, of which less is better."""
    places = {words: results.at(row, column(images, n)) for n, words in enumerate(candidates(row))}
    return {words: place.selected().mean for words, place in places.items() if place}


def render(results: Results) -> list[Part]:
    """What was tried for each row, and what was chosen."""
    text = (
        "Validation reconstruction in nats (lower is better) after 500 steps at 0.1 bits a pixel, one seed: two "
        "learning rates (1e-3: first and second; 3e-3: third and fourth) and two values of the row's own knob for "
        "every row; four thresholds for the baseline that is not trained, whose loss is the squared error."
    )
    found = [chosen(images, results) for images in SEARCHED]
    return [
        part(Heading("Representations: the search", level=1), Text(text), *(table for table in found if table.rows))
    ]


def chosen(images: Images, results: Results) -> Table:
    lines = []
    for row in SEARCHED[images]:
        if measured := tried(images, row, results):
            best = min(measured, key=measured.__getitem__)
            lines.append([row, *tables.tried(measured, candidates(row)), f"`{best}`"])
    return Table((f"row, {images.title}", "first", "second", "third", "fourth", "chosen"), lines)


STUDY = Study("representation/search", searched, render, lambda results: Table((), ()))
