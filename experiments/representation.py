"""The representation study: images through codes of a given size, every way of training them at equal bits.

What is run, and with which options; representation_page.py says what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from experiments.results import Metric
from experiments.study import Cell, grid, once, pick

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
CIFAR = Images("cifar10", "CIFAR10", (0.1,), SEEDS, (*PRINTED, *STRONGEST), TUNED_CIFAR)
