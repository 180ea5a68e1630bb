"""The sorting study: the paper's first table and its ponder figure, with the rivals trained instead of quoted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from experiments.figures import band, lines_figure
from experiments.statistics import RULE, Printed, Sample, at_least, compare, verdict
from experiments.study import Cell, Record, Records, Study, clock, grid, training_time
from experiments.tables import duration, human, latex, markdown

METRIC = "test/all_or_none"
LENGTHS = (5, 10, 15)
SEEDS = (0, 1, 2)

# What each row is called, and its command but for the length and the seed.
DENSE = {
    "Signum-Dense, dense bridge": ["experiment=sorting/signum_dense"],
    "– routing `equation`": ["experiment=sorting/signum_dense_equation"],
    "– routing `equation`, gamma 0.1": ["experiment=sorting/signum_dense_equation", "estimator.gamma=0.1"],
    "– routing `additive`": ["experiment=sorting/signum_dense_additive"],
    "– routing `additive`, gamma 1": ["experiment=sorting/signum_dense_additive", "estimator.gamma=1"],
    "– routing `additive`, gamma 0.1": ["experiment=sorting/signum_dense_additive", "estimator.gamma=0.1"],
    "– frozen random bridge": ["experiment=sorting/signum_dense_frozen"],
    "Straight-through": ["experiment=sorting/straight_through"],
    "Matched bridge, cap 2": ["experiment=sorting/matched_cap2"],
    "Matched bridge, cap 4": ["experiment=sorting/matched_cap4"],
    "Matched bridge, cap 6": ["experiment=sorting/matched_cap6"],
    "Matched bridge, cap 1 to 8": ["experiment=sorting/matched_growing"],
    "Matched bridge, cap 4 + dense": ["experiment=sorting/matched_residual"],
    "Tanh-Dense": ["experiment=sorting/tanh_dense"],
    "ELU-Dense": ["experiment=sorting/elu_dense"],
    "Paper's recipe (dense bridge)": ["experiment=sorting/paper_recipe"],
}
RECURRENT = {
    "Read-Process-Write, P 5": ["experiment=sorting/read_process_write"],
    "Ptr-Net, 1 glimpse": ["experiment=sorting/pointer_network"],
    "Signum-RNN, P 0": ["experiment=sorting/signum_lstm"],
    "Signum-RNN, P 5": ["experiment=sorting/signum_lstm", "model.ponder=5"],
    "Signum-RNN, every step": ["experiment=sorting/signum_lstm_every_step"],
    "Ptr-Net, 0 glimpses": ["experiment=sorting/pointer_network", "model.glimpses=0"],
}
# The rows that the paper prints at T = 15 beside those of AT_15; the most expensive of all, so they come last.
PRINTED_AT_15 = {
    "Signum-RNN, P 5": RECURRENT["Signum-RNN, P 5"],
    "Ptr-Net, 1 glimpse": RECURRENT["Ptr-Net, 1 glimpse"],
    "Read-Process-Write, P 10": ["experiment=sorting/read_process_write", "model.ponder=10"],
}
PONDER = {p: f"Signum-RNN, P {p}" for p in (0, 1, 2, 3, 5, 8)}
REFERENCE = {
    "Oracle (argsort)": ["experiment=sorting/oracle"],
    "Constructed, slope 100": ["experiment=sorting/constructed", "model.slope=100"],
    "Constructed, slope 1,000": ["experiment=sorting/constructed", "model.slope=1000"],
    "Constructed, slope 10,000": ["experiment=sorting/constructed", "model.slope=10000"],
}
# Fifteen numbers do not start with the demo's narrow first layers (PAPER's trials); four times the samples as well.
WIDE = ["model.widths=[512,512,512]", "trainer.steps=20000", "trainer.batch_size=256", "optimizer.lr=3e-3"]
AT_15 = (
    "Straight-through",
    "Matched bridge, cap 1 to 8",
    "Matched bridge, cap 4",
    "Signum-Dense, dense bridge",
    "Tanh-Dense",
    "ELU-Dense",
)
# Equal wall-clock: what the dense rows make of about the time that a pointer row takes at T = 10.
LONG = ["trainer.steps=40000", "trainer.batch_size=256"]
LONGER = ("Signum-Dense, dense bridge", "Straight-through", "Matched bridge, cap 1 to 8", "Tanh-Dense")
SHOWCASE = "Showcase"

# The demo's log: epoch 2168 of 2,000,000 samples.
DEMO_SAMPLES = 2168 * 2e6
PAPER = {
    ("ELU-Dense", 5): Printed(86.46, 4.7, samples=DEMO_SAMPLES),
    ("ELU-Dense", 10): Printed(0, 0, samples=DEMO_SAMPLES),
    ("ELU-Dense", 15): Printed(0, 0, samples=DEMO_SAMPLES),
    ("Tanh-Dense", 5): Printed(99.3, samples=DEMO_SAMPLES),
    ("Tanh-Dense", 10): Printed(88.3, samples=DEMO_SAMPLES),
    ("Tanh-Dense", 15): Printed(1.9, samples=DEMO_SAMPLES),
    ("Signum-Dense, dense bridge", 5): Printed(99.3, 0.25, samples=DEMO_SAMPLES),
    ("Signum-Dense, dense bridge", 10): Printed(94.2, 0.1, samples=DEMO_SAMPLES),
    ("Signum-Dense, dense bridge", 15): Printed(79.8, 0.8, samples=DEMO_SAMPLES),
    ("Signum-RNN, P 5", 5): Printed(99.3, 0.09, samples=DEMO_SAMPLES),
    ("Signum-RNN, P 5", 10): Printed(92.4, 0.36, samples=DEMO_SAMPLES),
    ("Signum-RNN, P 5", 15): Printed(87.2, 0.3, samples=DEMO_SAMPLES),
    ("Ptr-Net, 1 glimpse", 5): Printed(90),
    ("Ptr-Net, 1 glimpse", 10): Printed(28),
    ("Ptr-Net, 1 glimpse", 15): Printed(4),
    ("Read-Process-Write, P 5", 5): Printed(94),
    ("Read-Process-Write, P 5", 10): Printed(57),
    ("Read-Process-Write, P 10", 15): Printed(10),
}
# The paper's best row at each length, which the showcase is measured against.
BEST_IN_PAPER = {5: 99.3, 10: 94.2, 15: 87.2}


# What the claim "the bridge is why" stands on, row against row.
CLAIMS = (
    ("Signum-Dense, dense bridge", "Tanh-Dense"),
    ("Signum-Dense, dense bridge", "Straight-through"),
    ("Signum-Dense, dense bridge", "– frozen random bridge"),
    ("– routing `equation`", "Signum-Dense, dense bridge"),
    ("– routing `equation`, gamma 0.1", "Signum-Dense, dense bridge"),
    ("– routing `additive`", "Signum-Dense, dense bridge"),
    ("– routing `additive`, gamma 1", "Signum-Dense, dense bridge"),
    ("– routing `additive`, gamma 0.1", "Signum-Dense, dense bridge"),
    ("Matched bridge, cap 4", "Straight-through"),
    ("Matched bridge, cap 1 to 8", "Straight-through"),
    ("Matched bridge, cap 4 + dense", "Matched bridge, cap 4"),
    ("Straight-through", "Tanh-Dense"),
    ("Signum-Dense, dense bridge", "Paper's recipe (dense bridge)"),
    ("Signum-Dense, dense bridge", "Read-Process-Write, P 5"),
    ("Signum-Dense, dense bridge", "Ptr-Net, 1 glimpse"),
    ("Signum-Dense, dense bridge", "Signum-RNN, P 5"),
    ("Signum-RNN, P 5", "Signum-RNN, P 0"),
    ("Signum-RNN, every step", "Signum-RNN, P 5"),
    ("Ptr-Net, 1 glimpse", "Ptr-Net, 0 glimpses"),
)
# The dense rows' long run against what a rival makes of its 10,000 iterations, which take it longer.
EQUAL_TIME = tuple(("Signum-Dense, dense bridge", row) for row in RECURRENT)


def cells(scale: str) -> list[Cell]:
    """In the order they are worth running."""
    if scale == "smoke":
        twice = {row: DENSE[row] for row in LONGER[:2]}  # enough to see a spread
        rows = {**DENSE, **RECURRENT, **PRINTED_AT_15, **REFERENCE}
        five = _lengths((5,), "data.valid_size=2000", "data.test_size=10000")
        return [*grid(rows, five, (0,)), *grid(twice, five, (1,)), *_showcase((5,))]
    ponder = {row: ["experiment=sorting/signum_lstm", f"model.ponder={p}"] for p, row in PONDER.items()}
    ordered = [
        grid(REFERENCE, _lengths(LENGTHS), (0,)),
        _showcase(LENGTHS[::-1]),
        grid(DENSE, _lengths((10, 5)), SEEDS),
        grid(RECURRENT, _lengths((5, 10)), SEEDS),
        grid(ponder, _lengths((5, 10)), SEEDS),
        grid({row: DENSE[row] for row in LONGER}, _lengths((10,), *LONG, suffix="-long"), SEEDS),
        grid({row: DENSE[row] for row in AT_15}, _lengths((15,), *WIDE), SEEDS),
        grid(PRINTED_AT_15, _lengths((15,)), (0,)),
    ]
    return list({cell.id: cell for part in ordered for cell in part}.values())  # each cell once, at its first place


def _lengths(lengths: Sequence[int], *more: str, suffix: str = "") -> dict[str, list[str]]:
    return {f"T{length}{suffix}": [f"data.length={length}", *more] for length in lengths}


def _showcase(lengths: Sequence[int]) -> list[Cell]:
    return [Cell(SHOWCASE, f"T{t}", 0, (f"experiment=sorting/showcase_{t}",)) for t in lengths]


def render(records: Records, scale: str, folder: Path) -> str:
    plan = cells(scale)
    lengths = [t for t in LENGTHS if any(cell.column == f"T{t}" for cell in plan)]
    parts = ["# Sorting\n", INTRODUCTION, RULE + "\n"]
    for length in lengths:
        parts += [f"\n## T = {length}\n", table(records, plan, scale, length, folder)]
    parts += [findings(records, plan, lengths), reach(records, plan, lengths), figures(records, plan, folder)]
    return "\n".join(part for part in parts if part)


INTRODUCTION = (
    "All-or-none accuracy in percent on 100,000 unseen sequences, mean ± standard deviation (seeds). Every row of "
    "T = 5 and 10 gets the same 10,000 iterations of batch 128, unless its line says otherwise; rows marked *long* get "
    "40,000 of batch 256, no more than the time a pointer row takes for its 10,000. The pointer rows are smaller than "
    "their papers' (128 hidden units). Times are of training alone, one thread: processor seconds, on a machine with "
    "other work (up to a third more than on an idle one); for records that do not have them (showcase and references) "
    "by the clock on the wall.\n"
)
HEADER = ("row", "paper", "ours", "verdict", "scale", "samples", "time", "command")


def table(records: Records, plan: Sequence[Cell], scale: str, length: int, folder: Path) -> str:
    rows = [
        line(records, plan, scale, row, column)
        for row, column in dict.fromkeys((cell.row, cell.column) for cell in plan)
        if column.removesuffix("-long") == f"T{length}"
    ]
    folder.mkdir(parents=True, exist_ok=True)
    caption = f"Sorting {length} numbers, all-or-none accuracy in percent"
    (folder / f"sorting_{length}.tex").write_text(latex(HEADER, rows, caption))
    return markdown(HEADER, rows)


def line(records: Records, plan: Sequence[Cell], scale: str, row: str, column: str) -> list[str]:
    long = column.endswith("-long")
    length = int(column.removesuffix("-long")[1:])
    printed = PAPER.get((row, length))
    if row == SHOWCASE:
        printed = Printed(BEST_IN_PAPER[length], samples=DEMO_SAMPLES)
    command = next(cell for cell in plan if (cell.row, cell.column) == (row, column)).overrides
    found = records.where(plan, row, column)
    name, code = row + (" (long)" if long else ""), "`python train.py " + " ".join(command) + "`"
    paper = printed.text() if printed else "–"
    if not found:
        return [name, paper, "not run yet", "–", scale, "–", "–", code]
    ours = Sample(accuracies(found))
    samples, seconds = found[0]["samples"], sum(map(training_time, found)) / len(found)
    judged = "reference" if row in REFERENCE else verdict(ours, printed, samples)
    return [name, paper, ours.text(), judged, scale, human(samples), duration(seconds), code]


def curve(record: Record) -> list[tuple[float, float, float]]:
    """(samples, seconds of training, validation accuracy in percent) at every evaluation."""
    batch, points = record["config"]["trainer"]["batch_size"], record["curve"]
    times = points.get(clock(record), points["seconds"])
    values = zip(points["step"], times, points["valid/all_or_none"])
    return [(step * batch, seconds, 100 * value) for step, seconds, value in values]


def reach(records: Records, plan: Sequence[Cell], lengths: Sequence[int]) -> str:
    """How much the showcase needed to reach the paper's number."""
    lines = []
    for length in lengths:
        for record in records.where(plan, SHOWCASE, f"T{length}"):
            goal, points = BEST_IN_PAPER[length], curve(record)
            samples = at_least([(s, v) for s, _, v in points], goal)
            seconds = at_least([(t, v) for _, t, v in points], goal)
            if samples is not None and seconds is not None:
                share = DEMO_SAMPLES / samples
                lines.append(
                    f"- T = {length}: the showcase run passes the paper's {goal} % (on validation) after "
                    f"{human(samples)} samples and {duration(seconds)}; the demo's log implies {human(DEMO_SAMPLES)}"
                    f" samples at T = 10, {share:,.0f} times as many."
                )
    return "\n## What it takes to reach the paper's number\n\n" + "\n".join(lines) + "\n" if lines else ""


def findings(records: Records, plan: Sequence[Cell], lengths: Sequence[int]) -> str:
    """The claim "the bridge is why", row against row."""
    lines = []
    for length in lengths:
        short, long = f"T{length}", f"T{length}-long"
        lines += _compared(records, plan, f"{length}", CLAIMS, (short, short))
        lines += _compared(records, plan, f"{length}, long", CLAIMS, (long, long))
        lines += _compared(records, plan, f"{length}, equal time", EQUAL_TIME, (long, short))
    if not lines:
        return ""
    head = (
        "\n## Is the bridge why?\n\nPoints of accuracy, ± one standard error; *level* within two of them. "
        "`equation` and `additive` let the penalty pull at the layers before the signum, `additive` also lets the task "
        "move the approximator: rows with a smaller gamma than the paper's show which of the two does the harm. *Equal "
        "time* sets the long run of a dense row against a recurrent row's 10,000 iterations.\n\n"
    )
    return head + markdown(("T", "row", "against", "is"), lines)


def _compared(
    records: Records, plan: Sequence[Cell], label: str, claims: Sequence[tuple[str, str]], columns: tuple[str, str]
) -> list[list[str]]:
    lines = []
    for pair in claims:
        one, two = (accuracies(records.where(plan, row, column)) for row, column in zip(pair, columns))
        if one and two:
            lines.append([label, *map(_name, pair), compare(Sample(one), Sample(two))])
    return lines


def accuracies(found: Iterable[Record]) -> tuple[float, ...]:
    return tuple(100 * record["metrics"][METRIC] for record in found)


def _name(row: str) -> str:
    return "Dense bridge, " + row.removeprefix("– ") if row.startswith("– ") else row


def figures(records: Records, plan: Sequence[Cell], folder: Path) -> str:
    drawn = []
    if ponder_figure(records, plan, folder / "figures/ponder.png"):
        drawn += ["![Accuracy against ponder steps](figures/ponder.png)", ponder_start(records, plan)]
    for kind in ("samples", "seconds"):
        if curves_figure(records, plan, kind, folder / f"figures/sorting_{kind}.png"):
            drawn.append(f"![Accuracy against {kind}](figures/sorting_{kind}.png)")
    return "\n## Figures\n\n" + "\n\n".join(filter(None, drawn)) + "\n" if drawn else ""


def ponder_figure(records: Records, plan: Sequence[Cell], path: Path) -> bool:
    series = {}
    for length in (5, 10):
        found = {p: accuracies(records.where(plan, row, f"T{length}")) for p, row in PONDER.items()}
        points = [(p, Sample(values)) for p, values in found.items() if values]
        series[f"T = {length}"] = points if len(points) > 1 else []
    return lines_figure(path, series, "ponder steps P", "test all-or-none accuracy, %", "Signum-RNN")


def ponder_start(records: Records, plan: Sequence[Cell], level: float = 10.0) -> str:
    """When each number of ponder steps gets going: what the figure at a fixed budget does not tell."""
    starts = []
    for p, row in PONDER.items():
        curves = [curve(record) for record in records.where(plan, row, "T10")]
        found = [at_least([(s, v) for s, _, v in points], level) for points in curves]
        if found and None not in found:
            starts.append(f"P {p} {human(sum(filter(None, found)) / len(found))}")
    return (
        f"All at the one budget. Samples until validation passes {level:.0f} % at T = 10, mean of the seeds: "
        f"{', '.join(starts)}."
        if starts
        else ""
    )


def curves_figure(records: Records, plan: Sequence[Cell], kind: str, path: Path) -> bool:
    """Validation accuracy of the rows at T = 10 while they train; against time also the long runs of two of them."""
    rows = (*LONGER, "Read-Process-Write, P 5", "Ptr-Net, 1 glimpse", "Signum-RNN, P 0")
    by_time = kind == "seconds"
    shown = {row: (row, "T10") for row in rows}
    if by_time:
        shown |= {f"{row} (long)": (row, "T10-long") for row in LONGER[:2]}
    series = {}
    for name, where in shown.items():
        curves = [curve(record) for record in records.where(plan, *where)]
        series[name] = band([[(s if not by_time else t, v) for s, t, v in points] for points in curves])
    xlabel = "processor seconds of training" if by_time else "samples seen"
    xscale = "log" if by_time else "linear"
    return lines_figure(path, series, xlabel, "validation all-or-none accuracy, %", "T = 10", xscale=xscale)


def headline(records: Records) -> str:
    """The default job and the best runs, against the best of the paper's table."""
    plan, rows = cells("cpu"), []
    wanted = [("Signum-Dense, dense bridge", t, "the default job" if t == 5 else "") for t in (5, 10)]
    wanted += [(SHOWCASE, t, "best recipe") for t in LENGTHS]
    for row, length, note in wanted:
        found = records.where(plan, row, f"T{length}")
        if found:
            name = f"{row}, T = {length}" + (f" ({note})" if note else "")
            time = duration(sum(map(training_time, found)) / len(found))
            rows.append(
                [name, f"{BEST_IN_PAPER[length]}", Sample(accuracies(found)).text(), human(found[0]["samples"]), time]
            )
    return markdown(("sorting, all-or-none accuracy in %", "paper's best", "ours", "samples", "time"), rows)


STUDY = Study("sorting", cells, render, headline)
