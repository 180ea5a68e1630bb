"""The representation study: images through codes of a given size, every way of training them at equal bits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from itertools import product

from experiments import tables
from experiments.blocks import Bullets, Heading, Part, Table, Text, part
from experiments.figures import Lines, across, kept, shown
from experiments.results import Metric, Results, ranked
from experiments.statistics import PAIRED_RULE, compare_paired, paired
from experiments.study import ROOT, Cell, Study, grid, once, pick

SHRINK, UPSAMPLED = Metric("test/msssim_shrink", digits=4), Metric("test/msssim_upsampled", digits=4)
PROBE, BEFORE = Metric("test/probe", 100), Metric("test/probe_before", 100)
NEAR, PSNR = Metric("test/knn", 100), Metric("test/psnr")
HEADLINE = {"MS-SSIM, `shrink`": SHRINK, "linear probe, %": PROBE}
SEEDS = (0, 1, 2)
BPP = (0.025, 0.05, 0.1, 0.2, 0.3)
AT = {f"bpp{bpp}": f"model.bpp={bpp}" for bpp in BPP}
MIDDLE = "bpp0.1"

# What each row is called, and its command but for the data, the size and the seed. Codes that are drawn are read at
# their most likely value: the code of an image is one, whatever trained it.
BERNOULLI = "hard=bernoulli hard.evaluate=threshold"
CATEGORICAL = "hard=categorical hard.evaluate=mode"
ELBO = "task.kl=1"
GUMBEL_B, GUMBEL_C = "Gumbel, Bernoulli", "Gumbel, 8-way"
DENSE = ("DAB-Signum", "DAB-Binary", "DAB-Bernoulli")
MATCHED = ("Matched, signum", "Matched, binary", "Matched, Bernoulli")
EIGHT = "Matched, 8-way"  # the largest of eight: what Gumbel's categorical code is at test time
FITTED = ("Fitted, signum", "Fitted, binary", "Fitted, Bernoulli")
STRAIGHT = ("Straight-through, signum", "Straight-through, binary", "Straight-through, Bernoulli")
HARD = ("hard=signum", "hard=binary", BERNOULLI)
PRINTED = {
    **dict(zip(DENSE, HARD)),
    f"{GUMBEL_B}, ELBO": f"{BERNOULLI} estimator=gumbel {ELBO}",
    f"{GUMBEL_C}, ELBO": f"{CATEGORICAL} estimator=gumbel {ELBO}",
}
FAIR = {
    GUMBEL_B: f"{BERNOULLI} estimator=gumbel",
    GUMBEL_C: f"{CATEGORICAL} estimator=gumbel",
    f"Straight-through {GUMBEL_B}": f"{BERNOULLI} estimator=st_gumbel",
    **{row: f"{hard} approximator=matched" for row, hard in zip(MATCHED, HARD)},
    EIGHT: "hard=argmax approximator=matched",
    **{row: f"{hard} estimator=straight_through" for row, hard in zip(STRAIGHT, HARD)},
    **{row: f"{hard} estimator=fitted approximator=elementwise" for row, hard in zip(FITTED, HARD)},
    "ReinMax": f"{BERNOULLI} estimator=reinmax",
    "REBAR": f"{BERNOULLI} estimator=rebar",
    "FSQ, 5 levels": "hard=levels estimator=straight_through",
    "FSQ, 8 levels": "hard=levels hard.levels=8 estimator=straight_through",
    "VQ, 64 words": "hard=nearest estimator=vector_quantization",
    "VQ, rotation trick": "hard=nearest estimator=vector_quantization estimator.gradient=rotation",
}
UNTRAINED = "estimator=straight_through model=linear_code task.likelihood=gaussian trainer.steps=1 optimizer.lr=0"
SIGN = "hard=binary hard.reference=zero"
THRESHOLD, PCA = "Threshold", "PCA + sign"
FLOORS = {
    THRESHOLD: f"{UNTRAINED} model.kind=downsampled hard=threshold",
    PCA: f"{UNTRAINED} model.kind=pca {SIGN}",
    "Random directions + sign": f"{UNTRAINED} model.kind=random {SIGN}",
}
ROWS = {**PRINTED, **FAIR}
GUMBEL = (f"{GUMBEL_B}, ELBO", f"{GUMBEL_C}, ELBO", GUMBEL_B, GUMBEL_C, f"Straight-through {GUMBEL_B}")
BRIDGES = (*DENSE, *MATCHED, EIGHT, *FITTED)
# Over all sizes, beside the paper's rows: those that the search found best, and every Gumbel row.
STRONGEST = (MATCHED[0], EIGHT, GUMBEL_B, GUMBEL_C, f"Straight-through {GUMBEL_B}", "FSQ, 5 levels")

# What the search (representation_search.py) has chosen for each row, on FashionMNIST and on CIFAR10.
TUNED = {
    "Threshold": "hard.tau=0.35",
    "DAB-Signum": "optimizer.lr=3e-3 estimator.gamma=1",
    "DAB-Binary": "optimizer.lr=3e-3 estimator.gamma=10",
    "DAB-Bernoulli": "optimizer.lr=3e-3 estimator.gamma=1",
    "Gumbel, Bernoulli, ELBO": "optimizer.lr=3e-3 estimator.temperature_end=0.3",
    "Gumbel, 8-way, ELBO": "optimizer.lr=3e-3 estimator.temperature_end=0.3",
    "Gumbel, Bernoulli": "optimizer.lr=3e-3 estimator.temperature_end=0.7",
    "Gumbel, 8-way": "optimizer.lr=3e-3 estimator.temperature_end=0.7",
    "Straight-through Gumbel, Bernoulli": "optimizer.lr=3e-3 estimator.temperature=1",
    "Matched, signum": "optimizer.lr=3e-3 approximator.cap=4",
    "Matched, binary": "optimizer.lr=3e-3 approximator.cap=2",
    "Matched, Bernoulli": "optimizer.lr=3e-3 approximator.cap=2",
    "Matched, 8-way": "optimizer.lr=3e-3 approximator.cap=4",
    "Straight-through, signum": "optimizer.lr=3e-3 estimator.through=tanh",
    "Straight-through, binary": "optimizer.lr=3e-3 estimator.through=tanh",
    "Straight-through, Bernoulli": "optimizer.lr=3e-3 trainer.clip_norm=100",
    "Fitted, signum": "optimizer.lr=3e-3 estimator.lr=3e-3",
    "Fitted, binary": "optimizer.lr=3e-3 estimator.lr=3e-3",
    "Fitted, Bernoulli": "optimizer.lr=3e-3 estimator.lr=3e-3",
    "ReinMax": "optimizer.lr=3e-3 estimator.temperature=1.5",
    "REBAR": "optimizer.lr=3e-3 trainer.control_lr_scale=10",
    "FSQ, 5 levels": "optimizer.lr=3e-3 trainer.clip_norm=100",
    "FSQ, 8 levels": "optimizer.lr=3e-3 trainer.clip_norm=100",
    "VQ, 64 words": "optimizer.lr=3e-3 estimator.commitment=0.25",
    "VQ, rotation trick": "optimizer.lr=3e-3 estimator.commitment=0.25",
}

TUNED_CIFAR = {
    "Threshold": "hard.tau=0.5",
    "DAB-Signum": "optimizer.lr=1e-3 estimator.gamma=10",
    "DAB-Binary": "optimizer.lr=1e-3 estimator.gamma=10",
    "DAB-Bernoulli": "optimizer.lr=3e-3 estimator.gamma=1",
    "Gumbel, Bernoulli, ELBO": "optimizer.lr=3e-3 estimator.temperature_end=0.3",
    "Gumbel, 8-way, ELBO": "optimizer.lr=1e-3 estimator.temperature_end=0.3",
    "Gumbel, Bernoulli": "optimizer.lr=3e-3 estimator.temperature_end=0.3",
    "Gumbel, 8-way": "optimizer.lr=1e-3 estimator.temperature_end=0.3",
    "Straight-through Gumbel, Bernoulli": "optimizer.lr=3e-3 estimator.temperature=0.5",
    "Matched, signum": "optimizer.lr=1e-3 approximator.cap=2",
    "Matched, 8-way": "optimizer.lr=1e-3 approximator.cap=2",
    "FSQ, 5 levels": "optimizer.lr=1e-3 trainer.clip_norm=100",
}

# Beside the study: what explains one of its numbers, or shows that something works.
BESIDE = "beside"
WIDE, ONE = f"{DENSE[1]}, 0.3 bits a pixel, 512 hidden units", "Gumbel, one choice of 78"
AUTHORS = f"{DENSE[1]}, 0.1 bits a pixel, the authors' stack, three epochs"
ASIDE = {
    WIDE: f"hard=binary approximator.hidden=[512,512] {TUNED[DENSE[1]]} model.bpp=0.3",
    ONE: f"{CATEGORICAL} hard.classes=78 estimator=gumbel {TUNED[GUMBEL_C]} model.bpp=0.0081",
    AUTHORS: "hard=binary model=autoencoder_paper budget.cpu.steps=1290 model.bpp=0.1",
}


@dataclass(frozen=True, eq=False)
class Images:
    """A dataset of the study: what is run on it, and at which sizes of the code."""

    name: str
    title: str
    sizes: tuple[float, ...]
    seeds: tuple[int, ...]
    rows: tuple[str, ...]  # at every size
    tuned: dict[str, str]  # what the search has chosen
    middle: tuple[str, ...] = ()  # further rows at the middle size
    aside: tuple[str, ...] = ()  # further rows of their own size

    @property
    def commands(self) -> dict[str, str]:
        base = f"experiment=representation/{self.name}"
        return {row: f"{base} {words} {self.tuned.get(row, '')}" for row, words in {**FLOORS, **ROWS, **ASIDE}.items()}

    @property
    def columns(self) -> dict[str, str]:
        return pick(AT, *(f"bpp{size}" for size in self.sizes))

    def cells(self, scale: str) -> list[Cell]:
        """In the order they are worth running."""
        if scale == "smoke":
            few = pick(self.commands, PCA, DENSE[1], MATCHED[1], GUMBEL_B, f"{GUMBEL_C}, ELBO")
            columns = pick(AT, MIDDLE, "bpp0.3")
            return [*grid(few, columns, (0,)), *grid(pick(few, DENSE[1]), columns, (1,))]
        first, rest, middle = self.seeds[:1], self.seeds[1:], pick(AT, MIDDLE)
        aside = self.aside if scale == "cpu" else ()  # they explain what the reduced study finds
        everywhere, there = pick(self.commands, *self.rows), pick(self.commands, *self.rows, *self.middle)
        return once(
            grid(pick(self.commands, *FLOORS), self.columns, first),
            grid(there, middle, first),
            grid(everywhere, self.columns, first),
            grid(everywhere, self.columns, rest),
            grid(there, middle, rest),
            grid(pick(self.commands, *aside), {BESIDE: ""}, first),
            grid(pick(self.commands, *(row for row in aside if row != AUTHORS)), {BESIDE: ""}, rest),
        )


FASHION = Images(
    "fashion_mnist",
    "FashionMNIST",
    BPP,
    SEEDS,
    (*PRINTED, *STRONGEST),
    TUNED,
    middle=tuple(row for row in FAIR if row not in STRONGEST),
    aside=tuple(ASIDE),
)
CIFAR = Images("cifar10", "CIFAR10", (0.1,), SEEDS[:2], (*PRINTED, *STRONGEST), TUNED_CIFAR)


INTRODUCTION = (
    "Images through a discrete code of `bpp` bits for each pixel of each channel and nothing beside it; one reduced "
    "convolution stack, equal steps, bits and reconstruction loss for all rows. **MS-SSIM** of 10,000 test images "
    "after the code, in the authors' definition (`shrink`) and upsampled to 176 pixels; **probe**: a linear classifier "
    "on the frozen codes, **before**: on what the hard function saw; **kNN**: 20 neighbours; **at most**: a bound on "
    "the entropy of the whole code, in bits (a tree of pairs, fitted to half of the codes). Mean ± standard deviation "
    "(seeds). Rows marked *ELBO* also pay the KL to uniform codes, as the paper's Gumbel rows do. *Threshold*, *PCA* "
    "and *random directions* are not trained: a smaller image, and signs of linear measurements, with the best linear "
    "decoder. Learning rate and one knob of every row were chosen on validation by the same small search."
)
AS_BEFORE = (
    "The same for colour images, at one size of the code: rows, columns and the **reduced** stack are those of "
    "FashionMNIST, with squared error for its Bernoulli likelihood and a search of learning rates of its own."
)
TABLE = [
    tables.ROW,
    tables.measured("MS-SSIM, shrink", SHRINK),
    tables.measured("upsampled", UPSAMPLED),
    tables.measured("probe, %", PROBE),
    tables.mean("before, %", BEFORE),
    tables.mean("kNN, %", NEAR),
    tables.mean("PSNR", PSNR),
    tables.mean("bits", Metric("test/nominal_bits", digits=1)),
    tables.mean("at most", Metric("test/at_most_bits", digits=1)),
    tables.mean("dead", Metric("test/dead_units", digits=0)),
    tables.TIME,
    tables.COMMAND,
]


def render(images: Images, results: Results) -> list[Part]:
    if not any(results):
        return []
    note = ", here scikit-learn's digits" if results.scale == "smoke" else ""
    opening: Part = [Heading(f"Representations: {images.title}{note}", level=1)]
    caption = f"Codes of 0.1 bits a pixel, {images.title}"
    table = tables.row_table(results.column(MIDDLE), TABLE, caption, file=f"representation_{images.name}")
    opening.append(Text(INTRODUCTION if images is FASHION else AS_BEFORE))
    at_middle = [Heading(f"{images.title} at 0.1 bits a pixel"), table, *pictures(images, results)]
    return [opening, at_middle, sizes(images, results), verdicts(images, results), beside(images, results)]


def pictures(images: Images, results: Results) -> Part:
    """Test images over what is left of them (scripts/figure_reconstructions.py)."""
    alt = "Test images, and what is left of them after the codes of every row"
    return [*kept(ROOT / "docs", f"reconstructions_{images.name}", alt)] if results.scale == "cpu" else []


def sizes(images: Images, results: Results) -> Part:
    """The paper's figure: both metrics over the size of the code."""
    drawn: Part = []
    for (label, metric), name in zip(HEADLINE.items(), ("msssim", "probe")):
        rows = (*images.rows, *FLOORS)
        at = {row: {b: results.at(row, f"bpp{b}") for b in images.sizes} for row in rows}
        series = {row: across(places, metric) for row, places in at.items()}
        made = [place for places in at.values() for place in places.values()]
        alt, ylabel = f"{label.replace('`', '')} against bits per pixel", label.replace("`", "")
        what = (f"{images.name}_{name}", alt, images.title, "bits per pixel", ylabel, series)
        drawn += shown(Lines(*what, evidence=made))
    return [Heading("Over the size of the code"), *drawn, *codecs(images)] if drawn else []


def codecs(images: Images) -> Part:
    """Where real codecs would stand on the axis: at the smallest files they can make."""
    path = ROOT / "results" / "codecs" / f"{images.name}.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text())
    marks = [
        f"{name.upper()} {codec['bpp']:.2f} bits a pixel, {codec['bpp_without_header']:.2f} without its header, "
        f"with an MS-SSIM of {codec['msssim_shrink']:.4f}"
        for name, codec in found["codecs"].items()
    ]
    return [Text(f"The smallest files of real codecs, on average of {found['images']:,} images: {'; '.join(marks)}.")]


def verdicts(images: Images, results: Results) -> Part:
    """Is some bridge ahead of every Gumbel row, and how far is the best row above the floor?"""
    lines = []
    for bpp, (label, metric) in product(images.sizes, HEADLINE.items()):
        bridges, rivals = (results.among(rows, f"bpp{bpp}") for rows in (BRIDGES, GUMBEL))
        if not bridges or not rivals:
            continue
        best, rival = (ranked(places, metric)[0] for places in (bridges, rivals))
        is_ahead = compare_paired(best.sample(metric), rival.sample(metric), metric.digits)
        lines.append([f"{bpp}", label, best.row, rival.row, is_ahead])
    head = ("bpp", "metric", "best bridge", "best Gumbel row", "the bridge is")
    both = [Bullets([line for bpp in images.sizes if (line := in_both(results, bpp))])] if lines else []
    return part(
        Heading("Is a bridge ahead of Gumbel?"),
        Text(PAIRED_RULE),
        Table(head, lines),
        *both,
        above_floors(images, results),
    )


def above_floors(images: Images, results: Results) -> Bullets:
    """How far the best row of all is above the best of those that are not trained."""
    lines = []
    for bpp, (label, metric) in product(images.sizes, {**HEADLINE, "MS-SSIM, upsampled": UPSAMPLED}.items()):
        trained, floors = (results.among(rows, f"bpp{bpp}") for rows in (ROWS, FLOORS))
        if trained and floors:
            top, floor = (ranked(places, metric)[0] for places in (trained, floors))
            gain = top.sample(metric).mean - floor.sample(metric).mean
            where = f"{abs(gain):.{metric.digits}f} {'above' if gain > 0 else '**below**'} *{floor.row}*"
            lines.append(f"{bpp} bits a pixel, {label}: the best row, *{top.row}*, is {where}.")
    return Bullets(lines)


def in_both(results: Results, bpp: float) -> str:
    """Which bridges are ahead of every Gumbel row in both metrics at once, by their means and beyond doubt."""
    bridges, rivals = (results.among(rows, f"bpp{bpp}") for rows in (BRIDGES, GUMBEL))
    if not bridges or not rivals:
        return ""
    best = {metric: ranked(rivals, metric)[0].sample(metric) for metric in HEADLINE.values()}
    leads = {place.row: [paired(place.sample(m), other) for m, other in best.items()] for place in bridges}
    ahead = [row for row, pairs in leads.items() if all(pair.leads.n and pair.leads.mean > 0 for pair in pairs)]
    beyond = [row for row in ahead if all(pair.leads.n > 1 and not pair.is_level for pair in leads[row])]
    names = [", ".join(f"*{row}*" for row in rows) or "none" for rows in (ahead, beyond)]
    return f"{bpp} bits a pixel, ahead in both metrics at once: {names[0]} by the mean, {names[1]} beyond the interval."


def beside(images: Images, results: Results) -> Part:
    """Rows that stand for themselves; of one of them, what it explains."""
    wide, narrow, before = results.at(WIDE, BESIDE), results.at(DENSE[1], "bpp0.3"), results.at(DENSE[1], "bpp0.2")
    caption = f"Beside the study, {images.title}"
    table = tables.row_table(results.column(BESIDE), TABLE, caption, file=f"representation_{images.name}_beside")
    if not (wide and narrow and before):
        return part(Heading("Beside the study"), table)
    gains = []
    for label, metric in HEADLINE.items():
        now, then = (place.sample(metric) for place in (narrow, before))
        gain = compare_paired(wide.sample(metric), now, metric.digits)
        values = f"{now.text(metric.digits)} at 0.3 bits a pixel, {then.text(metric.digits)} at 0.2"
        gains.append(f"{label}: {values}; at 0.3 the row with 512 hidden units is {gain}.")
    text = (
        f"The approximator of *{DENSE[1]}* is as wide as the paper's, 128. The Jacobian of a code of 235 units through "
        "it has 128 directions at most, so that the largest code gains less than the others do. One choice for the "
        "whole code (the paper's *gumbel-discrete* may have been that) has as many outputs as the others have bits at "
        "0.1 bits a pixel, but holds no more than 6.3 bits."
    )
    return part(Heading("Beside the study"), Text(text), Bullets(gains), table)


def headline(images: Images, results: Results) -> Table:
    """The best bridge and the best Gumbel row, at 0.1 bits a pixel."""
    places = [place for rows in (BRIDGES, GUMBEL) for place in ranked(results.among(rows, MIDDLE), PROBE)[:1]]
    columns = [tables.measured(label, metric) for label, metric in HEADLINE.items()]
    return tables.headline(f"{images.title}, 0.1 bits a pixel", {place.name: place for place in places}, *columns)


def study(images: Images) -> Study:
    name = f"representation/{images.name}"
    return Study(name, images.cells, partial(render, images), partial(headline, images))


STUDIES = (study(FASHION), study(CIFAR))
