"""The rivals of the density study: in their own setting against the numbers they print, and who prints what."""

from __future__ import annotations

from experiments import tables
from experiments.blocks import Figure, Heading, Part, Table, Text
from experiments.figures import training_curves
from experiments.numbers import human
from experiments.results import Place, Results

# Calibration: the two rivals in their own setting, against the numbers they print. Their 2 M steps with a constant
# learning rate take hours here; the same model, data and bound trained by our optimizer show where the estimators end.
RIVALS = {"REBAR": "experiment=binarized/rebar recipe=rebar", "RELAX": "experiment=binarized/relax recipe=rebar"}
QUICK = "schedule=cosine optimizer.betas=[0.9,0.999]"
QUICK += " budget.cpu.steps=100000 budget.cpu.batch_size=128 budget.cpu.lr=3e-3"
COLUMNS = {"linear": "", "linear-quick": QUICK, "linear2": "model.layers=2"}
SETTINGS = {"linear": "one layer, their optimizer", "linear-quick": "one layer, ours"}
SETTINGS |= {"linear2": "two layers, their optimizer"}
# Grathwohl et al. 2018, "Highest obtained validation ELBO", static MNIST, linear
RELAX_TABLE = {"one": {"REBAR": -114.32, "RELAX": -113.62}, "two": {"REBAR": -101.20, "RELAX": -100.85}}
PRINTED_SAMPLES = 2_000_000 * 24

# Who prints what, under which protocol: net, data, bound and selection differ, so these are no verdicts on our rows.
QUOTED = (
    ("DAB paper", "one ReLU layer", "DAB", "test, picked on test; KL on the bridge", "−109.59", "−125.19"),
    ("DAB paper, quoting RELAX", "two tanh layers", "REBAR", "validation", "−111.12", "−127.51"),
    ("DAB paper, quoting RELAX", "two tanh layers", "RELAX", "validation", "−119.19", "−128.20"),
    ("RELAX paper, left out there", "one layer, linear", "REBAR", "validation", "−114.32", "−122.44"),
    ("RELAX paper, left out there", "one layer, linear", "RELAX", "validation", "−113.62", "−122.11"),
    ("RELAX paper, left out there", "two layers, linear", "REBAR", "validation", "−101.20", "−115.83"),
    ("RELAX paper, left out there", "two layers, linear", "RELAX", "validation", "−100.85", "−115.42"),
)

INTRODUCTION = (
    "REBAR and RELAX with the linear nets and the data of their authors (`recipe=rebar`: latents as −1 and 1, "
    "centred inputs, output bias from the training mean, learned prior), best validation ELBO on static MNIST against "
    "the one printed in the RELAX paper. *Their optimizer*: Adam with beta2 0.99999, batch 24, a constant learning "
    "rate; they train for 2 M steps. *Ours*: Adam with its usual betas, batch 128, the learning rate falling to zero."
)


def layers(place: Place) -> str:
    return SETTINGS[place.column].split()[0]


TABLE = [
    tables.Column("model and optimizer", lambda place: SETTINGS[place.column], always=True),
    tables.ROW,
    tables.Column("printed", lambda place: f"{RELAX_TABLE[layers(place)][place.row]:.2f}", always=True),
    tables.Column("ours", lambda place: f"{max(place.selected().values):.2f}", empty="not run yet"),
]


def calibration(results: Results) -> Part:
    """REBAR and RELAX in their own setting, against what their authors print."""
    places = [place for column in COLUMNS for place in results.column(column)]
    table = tables.row_table(places, [*TABLE, tables.STEPS, tables.SAMPLES, tables.TIME])
    drawn = [figure for depth in RELAX_TABLE for figure in curves(places, depth)]
    return [Heading("Calibration: the rivals in their own setting"), Text(INTRODUCTION), table, *drawn]


def curves(places: list[Place], depth: str) -> list[Figure]:
    """Validation ELBO against images seen, with the printed levels; digits (scale=smoke) know nothing of those."""
    levels = {f"{row}, printed ({human(PRINTED_SAMPLES)})": level for row, level in RELAX_TABLE[depth].items()}
    frame = {"xscale": "log", "xlim": (2e5, 1.3 * PRINTED_SAMPLES)}
    frame |= {"ylim": (min(levels.values()) - 15, max(levels.values()) + 3), "levels": levels}
    of_depth = [place for place in places if layers(place) == depth]
    title = f"Linear model, {depth} layer{'s' * (depth != 'one')}"
    return training_curves(
        f"binarized_linear_{depth}",
        f"{title}: validation ELBO against images seen",
        title,
        of_depth,
        ("samples", "training images seen"),
        (None, "validation ELBO, nats"),
        lambda place: f"{place.row}, {SETTINGS[place.column]}",
        **(frame if of_depth and of_depth[0].scale != "smoke" else {}),
    )


def quoted() -> Part:
    head = (
        "The paper compares itself with two rows of the RELAX paper's validation table: its net of two tanh layers, "
        "whose public code has a decoder of 784 units and overfits. Of the linear rows, left out there, those with two "
        "layers are ahead of everything in the paper's table, and on Omniglot those with one layer too. The paper's "
        "own number takes the KL of the approximator's output, which is no bound on log p(x) for the distribution that "
        "is sampled. None of these share net, data and bound with our rows."
    )
    header = ("printed in", "net", "estimator", "bound", "MNIST", "Omniglot")
    return [Heading("What is printed elsewhere"), Text(head), Table(header, QUOTED)]
