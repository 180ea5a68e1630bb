"""The density study: every gradient estimator through 200 Bernoulli latents, same net, splits, budget and bound."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from experiments.calibration import COLUMNS, RIVALS, calibration, quoted
from experiments.figures import Band, band, lines_figure
from experiments.statistics import RULE, Printed, Sample, at_least, best_until, compare, verdict
from experiments.study import Cell, Record, Records, Study, grid, training_time, validation_curve
from experiments.tables import duration, human, latex, markdown

METRIC = "test/elbo"
SEEDS = (0, 1, 2)

# What each row is called, and its command but for the data and the seed.
DAB, PRINTED = "DAB, dense bridge", "DAB-VAE as printed, KL on the bridge"
ROWS = {
    name: [f"experiment=binarized/{file}"]
    for name, file in {
        DAB: "bridge_dense",
        "– routing `equation`": "bridge_dense_equation",
        "– routing `additive`": "bridge_dense_additive",
        PRINTED: "bridge_paper",
        "Matched bridge": "bridge_matched",
        "Straight-through": "straight_through",
        "Straight-through, logit": "straight_through_logit",
        "Gumbel (Concrete)": "gumbel",
        "Straight-through Gumbel": "st_gumbel",
        "Gumbel-Rao": "gumbel_rao",
        "ReinMax": "reinmax",
        "Score function": "score_function",
        "ARM": "arm",
        "DisARM": "disarm",
        "REBAR": "rebar",
        "RELAX": "relax",
    }.items()
}
DATA = {"mnist": [], "omniglot": ["data=binarized_omniglot"]}
TITLES = {
    "mnist": "Static binarized MNIST (50,000 / 10,000 / 10,000)",
    "omniglot": "Omniglot, our area-downsampling (18,000 / 1,280 / 13,180)",
    "digits": "scikit-learn's digits, 8×8",
}

# Long runs: the paper's estimator, ours, the best rival and the best unbiased one, with a recipe that takes this net
# further.
LONG = {
    row: [f"experiment=binarized/long_{file}"]
    for row, file in {DAB: "dense", "Matched bridge": "matched", "ReinMax": "reinmax", "REBAR": "rebar"}.items()
}
SHOWCASE = {"Showcase, REBAR": ["experiment=binarized/showcase"]}
OMNIGLOT_STEPS = "budget.cpu.steps=50000"  # a third of the images, and learned by heart sooner

OTHER_IMAGES = ("omniglot",)  # which Omniglot the paper has is not known; the usual one is not this one

# What the paper prints: 9,933 epochs of MNIST and 2,366 of Omniglot, best on the test set, not a bound (see the text).
PAPER = {
    (PRINTED, "mnist"): Printed(-109.59, runs=1, samples=9933 * 50_000),
    (PRINTED, "omniglot"): Printed(-125.19, runs=1, samples=2366 * 24_345),
}
CLAIMS = (
    (DAB, "REBAR"),
    (DAB, "RELAX"),
    (DAB, "Straight-through"),
    (DAB, "Matched bridge"),
    ("– routing `equation`", DAB),
    ("– routing `additive`", DAB),
    (PRINTED, DAB),
    ("Matched bridge", "Straight-through"),
    ("Straight-through, logit", "Straight-through"),
    ("RELAX", "REBAR"),
    ("DisARM", "ARM"),
    ("DisARM", "Score function"),
    ("Gumbel-Rao", "Straight-through Gumbel"),
    ("ReinMax", "Straight-through"),
    ("ReinMax", "DisARM"),
)


def cells(scale: str) -> list[Cell]:
    """In the order they are worth running."""
    if scale == "smoke":
        twice = {row: ROWS[row] for row in (DAB, "Straight-through")}  # enough to see a spread
        both = [*grid(ROWS, {"digits": []}, (0,)), *grid(twice, {"digits": []}, (1,))]
        return [*both, *grid(RIVALS, COLUMNS, (0,)), *grid({**LONG, **SHOWCASE}, {"digits-long": []}, (0,))]
    return [
        *grid(ROWS, {"mnist": DATA["mnist"]}, SEEDS[:1]),
        *grid(RIVALS, {column: COLUMNS[column] for column in ("linear", "linear-quick")}, (0,)),
        *grid({**LONG, **SHOWCASE}, {"mnist-long": DATA["mnist"]}, (0,)),
        *grid(ROWS, {"omniglot": DATA["omniglot"]}, SEEDS[:1]),
        *grid(ROWS, DATA, SEEDS[1:]),
        *grid(LONG, {"omniglot-long": [*DATA["omniglot"], OMNIGLOT_STEPS]}, (0,)),
        *(grid(RIVALS, {"linear2": COLUMNS["linear2"]}, (0,)) if scale == "paper" else []),  # hours a run
    ]


def render(records: Records, scale: str, folder: Path) -> str:
    plan = cells(scale)
    parts = ["# Density estimation\n", INTRODUCTION, RULE + "\n"]
    for data in TITLES:
        if any(cell.column == data for cell in plan):
            parts += [f"\n## {TITLES[data]}\n", table(records, plan, scale, data, folder)]
            parts += [
                printed_bound(records, plan, data),
                place(records, plan, data),
                equal_time(records, plan, data),
                figures(records, plan, data, folder),
            ]
            parts += [findings(records, plan, data)]
    parts += [calibration(records, plan, scale, folder), quoted()]
    return "\n".join(part for part in parts if part)


INTRODUCTION = (
    "200 Bernoulli latents, the paper's net (784 → 200 ReLU → 200, and back), a prior of one half, Adam. **ELBO** is "
    "the single-sample bound in nats (higher is better) with the KL of the distribution that is really sampled, on the "
    "test set, with the weights that were best on validation; mean ± standard deviation (seeds). Every row gets the "
    "same steps and batches; rows marked *long* train longer, with a recipe that takes this net further "
    "(`conf/experiment/binarized/_long.yaml`). **IWAE-100** is the 100-sample bound; **gap** is how much lower the "
    "ELBO is on test than on the training images; **variance** is that of the gradient for one image's logits at the "
    "end of training. Times are processor seconds of training alone, one thread, on a machine with other work.\n"
)
HEADER = (
    "row",
    "paper",
    "ELBO",
    "verdict",
    "IWAE-100",
    "KL",
    "gap",
    "active",
    "variance",
    "scale",
    "samples",
    "time",
    "command",
)


def table(records: Records, plan: Sequence[Cell], scale: str, data: str, folder: Path) -> str:
    places = dict.fromkeys((cell.row, cell.column) for cell in plan if cell.column.removesuffix("-long") == data)
    rows = [line(records, plan, scale, row, column) for row, column in places]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"binarized_{data}.tex").write_text(latex(HEADER, rows, f"Density estimation, {TITLES[data]}"))
    return markdown(HEADER, rows)


def line(records: Records, plan: Sequence[Cell], scale: str, row: str, column: str) -> list[str]:
    found = records.where(plan, row, column)
    command = next(cell for cell in plan if (cell.row, cell.column) == (row, column)).overrides
    name = row + (" (long)" if column.endswith("-long") else "")
    code = "`python train.py " + " ".join(command) + "`"
    printed = PAPER.get((row, column))
    paper = printed.text() if printed else "–"
    if not found:
        return [name, paper, "not run yet", *["–"] * 6, scale, "–", "–", code]
    ours = Sample(values(found, METRIC))
    seconds = sum(map(training_time, found)) / len(found)
    return [
        name,
        paper,
        ours.text(),
        _verdict(found, printed, column),
        f"{Sample(values(found, 'test/iwae_100')).mean:.2f}",
        f"{Sample(values(found, 'test/kl')).mean:.2f}",
        f"{Sample(values(found, 'train/elbo')).mean - ours.mean:.2f}",
        f"{Sample(values(found, 'test/active_units')).mean:.0f}",
        _variance(found),
        scale,
        human(found[0]["samples"]),
        duration(seconds),
        code,
    ]


def _verdict(found: Sequence[Record], printed: Printed | None, column: str) -> str:
    if printed is None:
        return "–"
    return (
        "not comparable: data" if column in OTHER_IMAGES else verdict(_as_printed(found), printed, found[0]["samples"])
    )


def _as_printed(found: Iterable[Record]) -> Sample:
    """What the paper's number is to be compared with: its own formula."""
    return Sample(values(found, "test/paper_bound"))


def _variance(found: Iterable[Record]) -> str:
    last = [r["curve"].get("train/gradient_variance", [None])[-1] for r in found]
    measured = tuple(value for value in last if value is not None)
    return f"{Sample(measured).mean:.3g}" if measured else "–"


def values(found: Iterable[Record], metric: str) -> tuple[float, ...]:
    return tuple(record["metrics"][metric] for record in found)


def printed_bound(records: Records, plan: Sequence[Cell], data: str) -> str:
    """The number that the paper's formula gives, and its distance to the bound."""
    found = records.where(plan, PRINTED, data)
    if not found:
        return ""
    excess = Sample(values(found, "test/paper_bound_excess")).mean
    return (
        f"\nThe paper's own formula, with the KL of the approximator's output, gives {_as_printed(found).text()} for "
        f"*{PRINTED}*, {abs(excess):.2f} nats {'above' if excess > 0 else 'below'} the true ELBO of the same weights. "
        "A verdict, where there is one, is on that number.\n"
    )


def place(records: Records, plan: Sequence[Cell], data: str) -> str:
    """Where the paper's estimator stands at the equal budget, and whether longer training brings it up."""
    means = {row: Sample(values(found, METRIC)).mean for row in ROWS if (found := records.where(plan, row, data))}
    if DAB not in means or len(means) < 2:
        return ""
    order = sorted(means, key=lambda row: -means[row])
    text = (
        f"\n**Where DAB stands.** At equal steps the dense bridge is number {order.index(DAB) + 1} of {len(order)} rows"
        f", {means[order[0]] - means[DAB]:.1f} nats behind the best ({name(order[0])})."
    )
    runs = {row: found[0] for row in LONG if (found := records.where(plan, row, f"{data}-long"))}
    return text + (_long_place(runs) if DAB in runs and len(runs) > 1 else "") + "\n"


def _long_place(runs: Mapping[str, Record]) -> str:
    best = max(runs, key=lambda row: runs[row]["best"]["value"])
    if best == DAB:
        return " Of the long runs it has the best validation ELBO."
    reached = runs[DAB]["best"]["value"]
    passed = at_least(validation_curve(runs[best], "seconds"), reached)
    train, test = ([runs[row]["metrics"][metric] for row in (DAB, best)] for metric in ("train/elbo", METRIC))
    return (
        f" Of the long runs *{best}* has the best validation ELBO, and the dense bridge does not catch up: it ends "
        f"{runs[best]['best']['value'] - reached:.1f} nats lower after {duration(training_time(runs[DAB]))}, a level "
        f"that {best} passes within {duration(passed or math.nan)} of its own run. The paper claims a smaller gap "
        f"between training and test for DAB (1–2 nats against 5–10): here {train[0] - test[0]:.1f} against "
        f"{train[1] - test[1]:.1f}, at a training ELBO of {train[0]:.1f} against {train[1]:.1f}."
    )


def equal_time(records: Records, plan: Sequence[Cell], data: str) -> str:
    """The best validation ELBO of every row after as much training as the cheapest row took; the best row first."""
    found = {row: of_row for row in ROWS if (of_row := records.where(plan, row, data))}
    if len(found) < 2:
        return ""
    time = min(min(map(training_time, of_row)) for of_row in found.values())
    then, last = ({row: _best(of_row, until) for row, of_row in found.items()} for until in (time, math.inf))
    ordered = sorted(found, key=lambda row: (then[row] is None, -(then[row] or last[row]).mean))
    rows = [[name(row), *(sample.text() if sample else "–" for sample in (then[row], last[row]))] for row in ordered]
    head = f"\nThe best validation ELBO within {duration(time)} of training, and within all of the equal steps:\n\n"
    return head + markdown(("row", "at equal time", "at equal steps"), rows)


def _best(found: Iterable[Record], seconds: float) -> Sample | None:
    reached = [best_until(validation_curve(record, "seconds"), seconds) for record in found]
    measured = tuple(value for value in reached if value is not None)
    return Sample(measured) if measured else None


def findings(records: Records, plan: Sequence[Cell], data: str) -> str:
    lines = []
    for one, two in CLAIMS:
        samples = [values(records.where(plan, row, data), METRIC) for row in (one, two)]
        if all(samples):
            lines.append([name(one), name(two), compare(Sample(samples[0]), Sample(samples[1]))])
    if not lines:
        return ""
    return "\nRow against row, nats of test ELBO, ± one standard error; *level* within two of them.\n\n" + markdown(
        ("row", "against", "is"), lines
    )


def name(row: str) -> str:
    return "DAB, " + row.removeprefix("– ") if row.startswith("– ") else row


def figures(records: Records, plan: Sequence[Cell], data: str, folder: Path) -> str:
    """Validation bound against steps and against time: of the equal budget, then of the long runs."""
    drawn = []
    for column, title in {data: TITLES[data], f"{data}-long": TITLES[data] + ", long runs"}.items():
        for x, xlabel in {"step": "steps", "seconds": "seconds of training, one thread"}.items():
            curves = {
                name(row): [validation_curve(r, x) for r in records.where(plan, row, column)]
                for row in (*ROWS, *SHOWCASE)
            }
            series, low, high = _framed({row: points for row, of_row in curves.items() if (points := band(of_row))})
            path = f"figures/binarized_{column.replace('-', '_')}_{x}.png"
            if lines_figure(folder / path, series, xlabel, "validation ELBO, nats", title, ylim=(low, high)):
                drawn.append(f"![Validation ELBO against {xlabel}]({path})")
    return "\n" + "\n\n".join(drawn) + "\n" if drawn else ""


def _framed(series: Mapping[str, Band]) -> tuple[dict[str, Band], float, float]:
    """A frame around the better half and as much again below, three times, and DAB; who never enters it says so."""
    best = {row: max(sample.mean for _, sample in points) for row, points in series.items()}
    high, middle = max(best.values(), default=0.0), median(best.values()) if best else 0.0
    low = min(high - 4 * (high - middle), best.get(DAB, high) - 4) - 1
    framed = {row + ("" if best[row] > low else " (below the frame)"): points for row, points in series.items()}
    return framed, low, high + 1


def headline(records: Records) -> str:
    """The paper's estimator, ours and the rival that is best on validation, on MNIST; then the long runs."""
    plan, rows = cells("cpu"), []
    wanted = [(row, "mnist") for row in (DAB, "Matched bridge", *_best_rival(records, plan))]
    for row, column in [*wanted, *((row, "mnist-long") for row in (*LONG, *SHOWCASE))]:
        if found := records.where(plan, row, column):
            ours, label = Sample(values(found, METRIC)), row + (" (long)" if column.endswith("-long") else "")
            time = duration(sum(map(training_time, found)) / len(found))
            rows.append([label, ours.text(), human(found[0]["samples"]), time])
    header = ("200 Bernoulli latents, static MNIST", "test ELBO, nats", "samples", "time")
    return markdown(header, rows) if rows else ""


def _best_rival(records: Records, plan: Sequence[Cell]) -> list[str]:
    rivals = [row for row, command in ROWS.items() if "/bridge_" not in command[0]]
    means = {
        row: Sample(values(found, "valid/elbo")).mean for row in rivals if (found := records.where(plan, row, "mnist"))
    }
    return [max(means, key=lambda row: means[row])] if means else []


STUDY = Study("binarized", cells, render, headline)
