"""Unsupervised discrete representations: how good is an image after its code, and what does the code still know?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dab.data.dataset import Dataset, Labelled
from dab.hard import Bernoulli, Categorical
from dab.metrics.codes import code_statistics
from dab.metrics.density import bernoulli_kl
from dab.metrics.images import msssim, msssim_shrink, msssim_upsampled, psnr
from dab.metrics.probe import knn, linear_probe
from dab.models.autoencoder import Codec
from dab.precision import working_dtype
from dab.ranges import NotNegative, Positive, When, ranged
from dab.tasks.task import Grid, Task, Workers

STANDARD_SIDE = 161  # from here on MS-SSIM needs neither shrinking windows nor larger images
COLUMNS, SHOWN = 10, 50


class Seen(NamedTuple):
    """A whole split: what the hard function sees of it, the code it makes of that, and what the images show."""

    before: Tensor
    code: Tensor
    labels: Tensor | None = None

    def pairs(self, features: str) -> tuple[Tensor, Tensor]:
        """[N, units], [N]"""
        assert self.labels is not None
        return getattr(self, features).flatten(1).float(), self.labels


class RepresentationTask(Task):
    """Minimises -log p(x | code) + the estimator's penalty + kl · KL[q(code | x) || uniform].

    Metrics of a split: reconstruction (-log p(x | code) in nats; selects the weights), and at the end of a run psnr. On
    test MS-SSIM too, in the definitions that dab.metrics.images names: msssim_shrink and msssim_upsampled for small
    images, msssim for others. At the end also, by a linear classifier and by neighbours:

        probe             accuracy of a linear probe on the code; probe_before on what the hard function saw
        knn               accuracy of the 20 nearest neighbours by the code
        nominal_bits, unit_bits, dead_units, ...    of the codes of test: dab.metrics.codes

    likelihood      bernoulli (pixels are probabilities; cross-entropy) | gaussian (squared error, sigma)
    sigma           standard deviation of the gaussian
    kl              weight of the KL; only for codes that are drawn, Bernoulli or categorical (the ELBO has 1)
    probes          measure at the end what takes long: the probes and, of small images, msssim_upsampled
    """

    select = "reconstruction"
    larger_is_better = False
    model: Codec

    @ranged
    def __init__(
        self,
        model: nn.Module,
        likelihood: Literal["bernoulli", "gaussian"] = "bernoulli",
        sigma: Annotated[Positive, When("likelihood", ("gaussian",))] = 0.1,
        kl: NotNegative = 0.0,
        probes: bool = True,
    ):
        super().__init__(model)
        if not isinstance(model, Codec):
            raise ValueError(f"representations need a model with a code, given {type(model).__name__}")
        if kl and not isinstance(model.hard, Bernoulli | Categorical):
            raise ValueError(
                f"kl={kl:g} needs a code that is drawn from a distribution, given {type(model.hard).__name__}: use "
                "kl=0, or hard=bernoulli or hard=categorical"
            )
        self.likelihood, self.sigma, self.kl, self.probes = likelihood, sigma, kl, probes

    def prepare(self, data: Dataset) -> None:
        self.model.prepare(data)

    def loss(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, dict[str, Tensor]]:
        x = batch[0]
        assert self.model.estimator is not None, "this model was stripped for inference"
        z = self.model.encode(x)
        loss, logs = self.model.estimator(z, lambda code: self.cost(self.model.decode(code), x))
        reconstruction = logs.pop("objective")
        logs = {"reconstruction": reconstruction, "task_loss": reconstruction, **logs}
        if self.kl:
            divergence = self.divergence(z).mean()
            loss = loss + self.kl * divergence
            logs |= {"kl": divergence.detach(), "task_loss": reconstruction + self.kl * divergence.detach()}
        return loss, {"loss": loss.detach(), **logs}

    def cost(self, decoded: Tensor, x: Tensor) -> Tensor:
        """-log p(x | code), up to a constant.  [B, C, H, W], [B, C, H, W] → [B]"""
        decoded = decoded.to(working_dtype(decoded))  # many terms are summed: not in bfloat16
        if self.likelihood == "bernoulli":
            return F.binary_cross_entropy_with_logits(decoded, x, reduction="none").flatten(1).sum(1)
        return (decoded - x).square().flatten(1).sum(1) / (2 * self.sigma**2)

    def pixels(self, decoded: Tensor) -> Tensor:
        """The image that a decoder's output stands for, in 0..1."""
        return torch.sigmoid(decoded) if self.likelihood == "bernoulli" else decoded.clamp(0, 1)

    def divergence(self, z: Tensor) -> Tensor:
        """KL to the uniform distribution over codes.  [B, ...] → [B]"""
        z = z.to(working_dtype(z))
        if isinstance(self.model.hard, Bernoulli):
            return bernoulli_kl(z.flatten(1), z.new_zeros(()))
        p, log_p = z.softmax(-1), z.log_softmax(-1)
        return (p * (log_p + torch.tensor(float(z.shape[-1])).log())).flatten(1).sum(1)

    def measure(self, batch: tuple[Tensor, ...]) -> dict[str, Tensor]:
        return {"reconstruction": self.cost(self.model(batch[0])[0], batch[0])}

    def measure_final(self, batch: tuple[Tensor, ...], split: str) -> dict[str, Tensor]:
        x = batch[0]
        decoded, _ = self.model(x)
        image = self.pixels(decoded)
        values = {"reconstruction": self.cost(decoded, x), "psnr": psnr(image, x)}
        if split != "test":
            return values
        small = [msssim_shrink, msssim_upsampled] if self.probes else [msssim_shrink]
        definitions = [msssim] if min(x.shape[-2:]) >= STANDARD_SIDE else small
        return {**values, **{definition.__name__: definition(image, x) for definition in definitions}}

    @torch.no_grad()
    def examine(self, data: Dataset, workers: Workers) -> dict[str, float]:
        if not self.probes:
            return {}
        seen = {split: self._codes(data, split, workers) for split in ("train", "valid", "test")}
        if workers.rank:
            return {}  # the first worker writes the record
        bits, shape = cast(float, self.model.hard.bits_per_unit), getattr(self.model.hard, "unit_shape", ())
        found = {f"test/{name}": value for name, value in code_statistics(seen["test"].code, bits, shape).items()}
        if seen["test"].labels is None:
            return found
        classes = cast(Labelled, data).classes
        for name, features in (("probe", "code"), ("probe_before", "before")):
            train, valid, test = (of_split.pairs(features) for of_split in seen.values())
            result = linear_probe(train, valid, test, classes)
            found |= {f"valid/{name}": result.valid, f"test/{name}": result.test}
        return {**found, "test/knn": knn(seen["train"].pairs("code"), seen["test"].pairs("code"))}

    def _codes(self, data: Dataset, split: str, workers: Workers) -> Seen:
        parts = ((z := self.model.encode(x), self.model.hard(z), *labels) for x, *labels in data.batches(split))
        return Seen(*workers.concatenate(parts))

    def pictures(self, batches: Iterable[tuple[Tensor, ...]]) -> dict[str, Grid]:
        """Images over what is left of them, row by row."""
        x = torch.cat(list(_first(batches, SHOWN)))[:SHOWN]
        pairs = torch.stack([x, self.pixels(self.model(x)[0])], 1)  # [N, 2, C, H, W]
        rows = [part.transpose(0, 1).flatten(0, 1) for part in pairs.split(COLUMNS) if len(part) == COLUMNS]
        return {"reconstructions": Grid(torch.cat(rows), COLUMNS)} if rows else {}


def _first(batches: Iterable[tuple[Tensor, ...]], count: int) -> Iterator[Tensor]:
    """Inputs of so many batches as it takes to have `count` of them."""
    for x, *_ in batches:
        yield x
        count -= len(x)
        if count <= 0:
            return
