"""Discrete representations: what the paper claims and leaves open."""

from __future__ import annotations

import math
from itertools import combinations

from experiments import imagenet
from experiments.imagenet import COLUMN
from experiments.imagenet import PAPER as IMAGENET
from experiments.paper.claim import FAILS, FEW, HOLDS, NOT_RUN, PARTLY, Claim, Gap, ahead, said
from experiments.representation import (
    BPP,
    DENSE,
    GUMBEL_B,
    GUMBEL_C,
    HEADLINE,
    MIDDLE,
    PROBE,
    SHRINK,
    UPSAMPLED,
)
from experiments.results import Metric, Place, Results, ranked
from experiments.statistics import compare_paired

RIVALS = (f"{GUMBEL_B}, ELBO", f"{GUMBEL_C}, ELBO")  # as the paper trained them
BITS = Metric("test/nominal_bits", digits=1)


def claims(results: Results, data: str) -> list[Claim]:
    return [ahead_of_gumbel(results, data, label.replace("`", ""), metric) for label, metric in HEADLINE.items()]


def ahead_of_gumbel(results: Results, data: str, label: str, metric: Metric) -> Claim:
    """The better of the two against the better Gumbel row, at every size that has both."""
    claim, paper = f"dab-signum or dab-binary is ahead of Gumbel: {label}", "ahead, by about 10 %"
    texts, lines, evidence, gains = [], [], [], []
    for bpp in BPP:
        bridges, rivals = (results.among(rows, f"bpp{bpp}") for rows in (DENSE[:2], RIVALS))
        if bridges and rivals:
            best, rival = (ranked(places, metric)[0] for places in (bridges, rivals))
            mean, other = best.sample(metric).mean, rival.sample(metric).mean
            texts.append(compare_paired(best.sample(metric), rival.sample(metric), metric.digits))
            lines.append(f"{mean:.{metric.digits}f} against {other:.{metric.digits}f} at {bpp:g}")
            gains.append(mean - other)
            evidence += [best, rival]
    if not texts:
        return Claim(claim, paper, "not run yet", NOT_RUN)
    word = said(texts)
    if word == FEW:  # one seed each: the signs are all there is
        signs = {gain > 0 for gain in gains}
        word = f"{HOLDS if signs == {True} else FAILS if signs == {False} else PARTLY} (one run)"
    return Claim(claim, paper, f"{'; '.join(lines)} bits a pixel ({data}, reduced net)", word, evidence)


def imagenet_claims(results: Results) -> list[Claim]:
    similar, probe = IMAGENET["DAB-Signum"]
    claim, paper = "DAB-Signum is best on ImageNet at 768 bits", f"MS-SSIM {similar.text()}, probe {probe.text()} %"
    best, *others = (
        results.at(row, COLUMN) for row in ("DAB-Signum", *(row for row in IMAGENET if row != "DAB-Signum"))
    )
    if not best:
        return [Claim(claim, paper, "needs GPUs and ImageNet", NOT_RUN)]
    pairs = [(f"against {other.row}", best, other) for other in others]
    metrics = {"MS-SSIM": imagenet.SIMILAR, "probe": imagenet.PROBE}
    return [ahead(f"{claim}: {what}", paper, pairs, metric, compare_paired) for what, metric in metrics.items()]


def gaps(results: Results) -> list[Gap]:
    return [definitions(results), kl(results), bits(results)]


def definitions(results: Results) -> Gap:
    printed = (
        "MS-SSIM as usual needs sides of more than 160 pixels; how it was taken at 28 and 32 is not said. Two "
        "definitions are reported here, the one of the authors' public code and one after enlarging."
    )
    places = results.column(MIDDLE)
    found = [place for place in places if place]
    if len(found) < 2:
        return Gap("Which MS-SSIM", printed, [])
    values = [[place.sample(metric).mean for place in found] for metric in (SHRINK, UPSAMPLED)]
    apart = [math.fabs(one - two) for one, two in zip(*values)]
    pairs = list(combinations(range(len(found)), 2))
    turned = sum((values[0][i] - values[0][j]) * (values[1][i] - values[1][j]) < 0 for i, j in pairs)
    line = (
        f"At 0.1 bits a pixel they differ by {min(apart):.2f} to {max(apart):.2f} on the same images, more than "
        f"most rows do from each other; they order {turned} of {len(pairs)} pairs of rows differently."
    )
    return Gap("Which MS-SSIM", printed, [line], found)


def kl(results: Results) -> Gap:
    printed = (
        "The Gumbel rows pay a KL to uniform codes, the bridge rows do not: objectives are compared, not gradients."
    )
    lines, places = [], []
    for bpp in BPP:
        pair: list[Place] = [results.at(row, f"bpp{bpp}") for row in (f"{GUMBEL_B}, ELBO", GUMBEL_B)]
        if all(pair):
            texts = [f"{p.sample(SHRINK).mean:.3f} and {p.sample(PROBE).mean:.1f} %" for p in pair]
            lines.append(
                f"{GUMBEL_B} at {bpp:g} bits a pixel, MS-SSIM and probe: {texts[0]} with the KL, {texts[1]} without"
            )
            places += pair
    return Gap("A KL for one side only", printed, lines, places)


def bits(results: Results) -> Gap:
    trits = 496
    printed = (
        "The paper says 786 latents in one place and 768 in another; 0.00097 bits a pixel are "
        f"{0.00097 * 512 * 512 * 3:.0f} bits. {trits} trits are {trits * math.log2(3):.0f} bits, so that DAB-Signum "
        f"had {100 * (trits * math.log2(3) / 768 - 1):.1f} % more than its rivals."
    )
    probe, chance = IMAGENET["DAB-Signum"][1].mean, 0.1  # percent
    printed += f" Its probe is 43 times chance in one caption and 40 times in another; the table's {probe:g} % are "
    printed += f"{probe / chance:.0f} times."
    found = results.among(DENSE, MIDDLE)
    texts = [f"{place.row} {place.sample(BITS).mean:.1f}" for place in found]
    lines = [f"Here units are rounded down to the budget: {', '.join(texts)} bits at 0.1 a pixel."] if found else []
    return Gap("How many bits", printed, lines, found)
