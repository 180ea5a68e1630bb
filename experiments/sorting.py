"""The sorting study: the paper's first table and its ponder figure, with the rivals trained instead of quoted."""

from __future__ import annotations

from itertools import product

from experiments import sentences, tables
from experiments.blocks import Bullets, Heading, Part, Table, Text, part
from experiments.figures import Lines, across, shown, training_curves
from experiments.numbers import duration, human
from experiments.results import Metric, Results
from experiments.statistics import RULE, printed
from experiments.study import Cell, Study, grid, once, pick

ACCURACY = Metric("test/all_or_none", factor=100)
VALID = ACCURACY.on("valid")
SAMPLES, SECONDS = ("samples", "samples seen"), ("seconds", "processor seconds of training")
LENGTHS, SEEDS = (5, 10, 15), (0, 1, 2)
COLUMNS = {f"T{t}": f"data.length={t}" for t in LENGTHS}

# What each row is called, and its command but for the length and the seed.
DAB, STRAIGHT, SHOWCASE = "Signum-Dense, dense bridge", "Straight-through", "Showcase"
AUTO, KNOWN = "Recipe for black boxes", "Recipe, function known"  # the second looks for an approximator by itself
READ, POINTER, GROWING = "Read-Process-Write, P 5", "Ptr-Net, 1 glimpse", "Matched bridge, cap 1 to 8"
DENSE = {
    DAB: "experiment=sorting/signum_dense",
    "– routing `equation`": "experiment=sorting/signum_dense_equation",
    "– routing `equation`, gamma 0.1": "experiment=sorting/signum_dense_equation estimator.gamma=0.1",
    "– routing `additive`": "experiment=sorting/signum_dense_additive",
    "– routing `additive`, gamma 1": "experiment=sorting/signum_dense_additive estimator.gamma=1",
    "– routing `additive`, gamma 0.1": "experiment=sorting/signum_dense_additive estimator.gamma=0.1",
    "– frozen random bridge": "experiment=sorting/signum_dense_frozen",
    STRAIGHT: "experiment=sorting/straight_through",
    **{f"Matched bridge, cap {cap}": f"experiment=sorting/matched_cap{cap}" for cap in (2, 4, 6)},
    GROWING: "experiment=sorting/matched_growing",
    "Matched bridge, cap 4 + dense": "experiment=sorting/matched_residual",
    AUTO: "experiment=sorting/signum_dense estimator=auto",
    KNOWN: "experiment=sorting/signum_dense estimator=auto approximator=auto",
    "Tanh-Dense": "experiment=sorting/tanh_dense",
    "ELU-Dense": "experiment=sorting/elu_dense",
    "Paper's recipe (dense bridge)": "experiment=sorting/paper_recipe",
}
PONDER = {p: f"Signum-RNN, P {p}" for p in (0, 1, 2, 3, 5, 8)}
PONDERING = {row: f"experiment=sorting/signum_lstm model.ponder={p}" for p, row in PONDER.items()}
RECURRENT = {
    READ: "experiment=sorting/read_process_write",
    POINTER: "experiment=sorting/pointer_network",
    **pick(PONDERING, PONDER[0], PONDER[5]),
    "Signum-RNN, every step": "experiment=sorting/signum_lstm_every_step",
    "Ptr-Net, 0 glimpses": "experiment=sorting/pointer_network model.glimpses=0",
}
# The rows that the paper prints at T = 15 beside those of AT_15; the most expensive of all, so they come last.
PRINTED_AT_15 = pick(RECURRENT, PONDER[5], POINTER)
PRINTED_AT_15 |= {"Read-Process-Write, P 10": "experiment=sorting/read_process_write model.ponder=10"}
REFERENCE = {
    "Oracle (argsort)": "experiment=sorting/oracle",
    **{f"Constructed, slope {s:,}": f"experiment=sorting/constructed model.slope={s}" for s in (100, 1000, 10000)},
}
# Fifteen numbers do not start with the demo's narrow first layers (PAPER's trials); four times the samples as well.
WIDE = "model.widths=[512,512,512] trainer.steps=20000 trainer.batch_size=256 optimizer.lr=3e-3"
AT_15 = (STRAIGHT, GROWING, "Matched bridge, cap 4", DAB, "Tanh-Dense", "ELU-Dense")
# Equal wall-clock: what the dense rows make of about the time that a pointer row takes at T = 10.
LONG = "trainer.steps=40000 trainer.batch_size=256"
LONGER = (DAB, STRAIGHT, GROWING, "Tanh-Dense")

DEMO_LENGTH = 10
DEMO_SAMPLES = 2168 * 2e6  # the demo's log: epoch 2168 of 2,000,000 samples
THEIRS = {
    "ELU-Dense": ((86.46, 4.7), (0, 0), (0, 0)),
    "Tanh-Dense": (99.3, 88.3, 1.9),
    DAB: ((99.3, 0.25), (94.2, 0.1), (79.8, 0.8)),
    PONDER[5]: ((99.3, 0.09), (92.4, 0.36), (87.2, 0.3)),
    SHOWCASE: (99.3, 94.2, 87.2),  # measured against the best of their table
}
QUOTED = {POINTER: (90, 28, 4), READ: (94, 57, None), "Read-Process-Write, P 10": (None, None, 10)}
PAPER = printed(COLUMNS, THEIRS, samples=DEMO_SAMPLES) | printed(COLUMNS, QUOTED)

# What the claim "the bridge is why" stands on, row against row.
CLAIMS = (
    *product([DAB], ["Tanh-Dense", STRAIGHT, "– frozen random bridge"]),
    *product([row for row in DENSE if row.startswith("– routing")], [DAB]),
    *product(["Matched bridge, cap 4", GROWING], [STRAIGHT]),
    ("Matched bridge, cap 4 + dense", "Matched bridge, cap 4"),
    *product([AUTO, KNOWN], [DAB, STRAIGHT]),
    (STRAIGHT, "Tanh-Dense"),
    *product([DAB], ["Paper's recipe (dense bridge)", READ, POINTER, PONDER[5]]),
    (PONDER[5], PONDER[0]),
    ("Signum-RNN, every step", PONDER[5]),
    (POINTER, "Ptr-Net, 0 glimpses"),
)
# The dense rows' long run against what a rival makes of its 10,000 iterations, which take it longer.
EQUAL_TIME = tuple((DAB, row) for row in RECURRENT)


def cells(scale: str) -> list[Cell]:
    """In the order they are worth running."""
    showcase = {f"T{t}": f"experiment=sorting/showcase_{t}" for t in reversed(LENGTHS)}
    if scale == "smoke":
        rows = {**DENSE, **RECURRENT, **PRINTED_AT_15, **REFERENCE}
        five = pick(COLUMNS, "T5", more="data.valid_size=2000 data.test_size=10000")
        twice = grid(pick(DENSE, *LONGER[:2]), five, (1,))  # enough to see a spread
        return [*grid(rows, five, (0,)), *twice, *grid({SHOWCASE: ""}, pick(showcase, "T5"), (0,))]
    return once(
        grid(REFERENCE, COLUMNS, (0,)),
        grid({SHOWCASE: ""}, showcase, (0,)),
        grid(DENSE, pick(COLUMNS, "T10", "T5"), SEEDS),
        grid(RECURRENT, pick(COLUMNS, "T5", "T10"), SEEDS),
        grid(PONDERING, pick(COLUMNS, "T5", "T10"), SEEDS),
        grid(pick(DENSE, *LONGER), pick(COLUMNS, "T10", more=LONG), SEEDS, variant="long"),
        grid(pick(DENSE, *AT_15), pick(COLUMNS, "T15", more=WIDE), SEEDS),
        grid(PRINTED_AT_15, pick(COLUMNS, "T15"), (0,)),
    )


INTRODUCTION = (
    "All-or-none accuracy in percent on 100,000 unseen sequences, mean ± standard deviation (seeds). Every row of "
    "T = 5 and 10 gets the same 10,000 iterations of batch 128, unless its line says otherwise; rows marked *long* get "
    "40,000 of batch 256, no more than the time a pointer row takes for its 10,000. The pointer rows are smaller than "
    "their papers' (128 hidden units). Times are of training alone, one thread: processor seconds, on a machine with "
    "other work (up to a third more than on an idle one); for records that do not have them (showcase and references) "
    "by the clock on the wall."
)
WHY = (
    "Points of accuracy, ± one standard error; *level* within two of them. `equation` and `additive` let the penalty "
    "pull at the layers before the signum, `additive` also lets the task move the approximator: rows with a smaller "
    "gamma than the paper's show which of the two does the harm. *Equal time* sets the long run of a dense row against "
    "a recurrent row's 10,000 iterations."
)
STARTS = "All at the one budget. Samples until validation passes 10 % at T = 10, mean of the seeds:"
NAME = tables.calling("Dense bridge")
TABLE = tables.full(PAPER, "ours", ACCURACY, notes=dict.fromkeys(REFERENCE, "reference"))


def render(results: Results) -> list[Part]:
    parts: list[Part] = [[Heading("Sorting", level=1), Text(INTRODUCTION), Text(RULE)]]
    for t in LENGTHS:
        caption = f"Sorting {t} numbers, all-or-none accuracy in percent"
        table = tables.row_table(results.column(f"T{t}"), TABLE, caption, file=f"sorting_{t}")
        parts.append(part(Heading(f"T = {t}"), table))
    return [*parts, findings(results), reach(results), figures(results)]


def findings(results: Results) -> Part:
    """The claim "the bridge is why", row against row."""
    kinds = (("", CLAIMS, "", ""), (", long", CLAIMS, "long", "long"), (", equal time", EQUAL_TIME, "long", ""))
    lines = [
        [f"{t}{label}", *line]
        for t in LENGTHS
        for label, pairs, one, two in kinds
        for line in tables.compared(results, pairs, ACCURACY, (f"T{t}", one), (f"T{t}", two), NAME)
    ]
    return part(Heading("Is the bridge why?"), Text(WHY), Table(("T", "row", "against", "is"), lines))


def reach(results: Results) -> Part:
    """How much the showcase needed to reach the paper's number."""
    lines = [
        f"T = {t}: the showcase run passes the paper's {goal} % (on validation) after {human(samples)} samples and "
        f"{duration(seconds)}" + (demo(samples) if t == DEMO_LENGTH else "") + "."
        for t, goal in zip(LENGTHS, THEIRS[SHOWCASE])
        for samples, seconds in results.at(SHOWCASE, f"T{t}").passing(goal, VALID)
    ]
    return part(Heading("What it takes to reach the paper's number"), Bullets(lines))


def demo(samples: float) -> str:
    return f"; the demo's log implies {human(DEMO_SAMPLES)} samples, {DEMO_SAMPLES / samples:,.0f} times as many"


def figures(results: Results) -> Part:
    at = {t: {p: results.at(row, f"T{t}") for p, row in PONDER.items()} for t in (5, 10)}
    series = {f"T = {t}": across(places, ACCURACY) for t, places in at.items()}
    pondered = [place for of_length in at.values() for place in of_length.values()]
    alt, ylabel = "Accuracy against ponder steps", "test all-or-none accuracy, %"
    drawn: Part = [*shown(Lines("ponder", alt, "Signum-RNN", "ponder steps P", ylabel, series, evidence=pondered))]
    if starts := sentences.starts({f"P {p}": place for p, place in at[10].items()}, 10, VALID):
        drawn.append(Text(f"{STARTS} {starts}."))
    short = results.among((*LONGER, READ, POINTER, PONDER[0]), "T10")
    both, y = [*short, *results.among(LONGER[:2], "T10", "long")], (VALID, "validation all-or-none accuracy, %")
    drawn += training_curves("sorting_samples", "Accuracy against samples", "T = 10", short, SAMPLES, y)
    drawn += training_curves("sorting_seconds", "Accuracy against seconds", "T = 10", both, SECONDS, y, xscale="log")
    return [Heading("Figures"), *drawn] if drawn else []


def headline(results: Results) -> Table:
    """The default job, the same for T = 10 and our best recipe at T = 15, against the best of the paper's table."""
    places = {f"{DAB}, T = 5 (the default job)": results.at(DAB, "T5")}
    places[f"{DAB}, T = 10, eight times the samples"] = results.at(DAB, "T10", "long")
    places[f"{SHOWCASE}, T = 15 (best recipe)"] = results.at(SHOWCASE, "T15")
    best = tables.Column("paper's best", lambda place: PAPER[SHOWCASE, place.column].text())
    return tables.headline("sorting, all-or-none accuracy in %", places, best, tables.measured("ours", ACCURACY))


STUDY = Study("sorting", cells, render, headline)
