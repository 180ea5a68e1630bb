"""The representation study's sections of the results page."""

from __future__ import annotations

import json
from functools import partial
from itertools import product

from experiments import tables
from experiments.blocks import Bullets, Heading, Part, Table, Text, part
from experiments.figures import Lines, across, kept, shown
from experiments.representation import (
    BEFORE,
    BESIDE,
    BRIDGES,
    CIFAR,
    DENSE,
    FASHION,
    FLOORS,
    GUMBEL,
    HEADLINE,
    MIDDLE,
    NEAR,
    PROBE,
    PSNR,
    ROWS,
    SHRINK,
    UPSAMPLED,
    WIDE,
    Images,
)
from experiments.results import Metric, Results, ranked
from experiments.statistics import PAIRED_RULE, compare_paired, paired
from experiments.study import ROOT, Study

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
    lines, evidence = [], []
    for bpp, (label, metric) in product(images.sizes, HEADLINE.items()):
        bridges, rivals = (results.among(rows, f"bpp{bpp}") for rows in (BRIDGES, GUMBEL))
        if not bridges or not rivals:
            continue
        best, rival = (ranked(places, metric)[0] for places in (bridges, rivals))
        is_ahead = compare_paired(best.sample(metric), rival.sample(metric), metric.digits)
        lines.append([f"{bpp}", label, best.row, rival.row, is_ahead])
        evidence.append([best, rival])
    head = ("bpp", "metric", "best bridge", "best Gumbel row", "the bridge is")
    both = [Bullets([line for bpp in images.sizes if (line := in_both(results, bpp))])] if lines else []
    return part(
        Heading("Is a bridge ahead of Gumbel?"),
        Text(PAIRED_RULE),
        Table(head, lines, evidence=evidence),
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
