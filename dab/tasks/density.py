"""Density estimation: a lower bound on log p(x), trained through discrete latents by whichever estimator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Literal

import torch
from torch import Tensor

from dab.bridge import Bridge
from dab.data.dataset import Dataset
from dab.estimators.lift import Lift
from dab.estimators.probe import gradient_statistics
from dab.keys import seed_device
from dab.metrics.density import (
    active_units,
    bernoulli_entropy,
    bernoulli_kl,
    importance_bounds,
    kl_of_probability,
    log_bernoulli,
)
from dab.models.vae_mlp import VAEMLP
from dab.precision import working_dtype
from dab.ranges import Count, Several, Share, When, ranged
from dab.tasks.task import Grid, Task

ROWS = 4096  # rows decoded at once for an importance bound
SHOWN = 100  # images on a grid


class DensityTask(Task):
    """Minimises -ELBO from one sample: -log p(x | b) + KL[q(b | x) || p(b)] + the estimator's penalty.

    The KL is analytic, from the logits that the latents are drawn from. Metrics, in nats:

        elbo              the single-sample bound; selects the weights
        reconstruction    -log p(x | b)
        kl                elbo = -(reconstruction + kl)
        active_units      latents whose posterior mean varies over the split
        iwae_K            the K-sample importance bound; only at the end of a run
        gradient_variance of the estimate for the logits of one image, summed over the latents; while training

    With several layers of latents (model.layers) kl is what all of them cost together, from one sample where there is
    no analytic one; active_units and the estimator's own logs are the lowest layer's, and so is gradient_variance,
    given the draws of the layers above.

    kl              encoder, or bridge: as the paper prints it, the KL of the approximator's output taken for a
                    probability. That is no bound on log p(x): it is reported as paper_bound, and its distance to the
                    true one as paper_bound_excess; elbo is the true one all the same
    kl_warmup       the share of training over which the KL's weight in the loss rises from zero to one (0: always one).
                    More latents find a use before the KL can switch them off; what is reported never has a weight
    iwae_samples    the Ks
    iwae_splits     the splits it is computed for: a second a thousand images, roughly
    variance_draws  draws for the gradient variance, at every evaluation; 0: not measured
    """

    select = "elbo"
    final_splits = ("train", "valid", "test")
    model: VAEMLP
    kl_weight: Tensor

    @ranged
    def __init__(
        self,
        model: VAEMLP,
        kl: Literal["encoder", "bridge"] = "encoder",
        iwae_samples: Sequence[Count] = (100,),
        iwae_splits: Annotated[Sequence[Literal["train", "valid", "test"]], When("iwae_samples")] = ("test",),
        variance_draws: Several | Literal[0] = 10,
        kl_warmup: Share = 0.0,
    ):
        super().__init__(model)
        if not isinstance(model, VAEMLP):
            raise ValueError(f"density estimation needs model=vae_mlp, given {type(model).__name__}")
        if kl_warmup and model.above is not None:
            raise ValueError(f"kl_warmup must be 0 with several layers of latents, given {kl_warmup}")
        self.kl_warmup = kl_warmup
        self.register_buffer("kl_weight", torch.ones(()), persistent=False)
        self.kl = kl
        if kl == "bridge":
            self._approximator()  # complain now
            if model.above is not None:
                raise ValueError("kl=bridge is the paper's, for one layer of latents: use it with model.layers=1")
        self.iwae_samples, self.variance_draws = tuple(iwae_samples), variance_draws
        self.iwae_splits = list(iwae_splits)

    def prepare(self, data: Dataset) -> None:
        self.model.set_mean(data.mean)

    def loss(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, dict[str, Tensor]]:
        (x,) = batch
        assert self.model.estimator is not None, "this model was stripped for inference"
        logits = self.model.encode(x)
        value, logs = self.model.estimator(logits, cost(self.model, x))
        kl = (latent_cost(self.model, logits) if self.kl == "encoder" else self._bridge_kl(logits)).mean()
        loss, objective = value + self.kl_weight * kl, logs.pop("objective")
        parts = {"reconstruction": objective, "kl": kl.detach()} if self.model.above is None else {}
        return loss, {"loss": loss.detach(), "task_loss": objective + kl.detach(), **parts, **logs}

    def set_progress(self, fraction: float) -> None:
        """The KL's weight at this fraction (0..1) of training."""
        self.kl_weight.fill_(min(fraction / self.kl_warmup, 1.0) if self.kl_warmup else 1.0)

    def _bridge_kl(self, logits: Tensor) -> Tensor:
        p = self._approximator()(_full(logits)).clamp(1e-6, 1 - 1e-6)
        return kl_of_probability(p, p.logit(), self.model.prior)

    def _approximator(self) -> Callable[[Tensor], Tensor]:
        layer = self.model.estimator.layer if isinstance(self.model.estimator, Lift) else None
        if not isinstance(layer, Bridge) or layer.approximator is None:
            raise ValueError("kl=bridge takes the output of a bridge's approximator: use it with estimator=bridge")
        return layer.approximator

    def measure(self, batch: tuple[Tensor, ...]) -> dict[str, Tensor]:
        (x,) = batch
        logits = _full(self.model.encode(x))
        reconstruction, kl = one_sample(self.model, x, logits)
        values = {"elbo": -(reconstruction + kl), "reconstruction": reconstruction, "kl": kl}
        if self.kl == "bridge" and self.model.estimator is not None:  # a stripped model has no approximator
            excess = kl - self._bridge_kl(logits)
            values |= {"paper_bound": values["elbo"] + excess, "paper_bound_excess": excess}
        mean = torch.sigmoid(logits).double()
        return {**values, "posterior": mean, "posterior_square": mean.square()}

    def measure_final(self, batch: tuple[Tensor, ...], split: str) -> dict[str, Tensor]:
        values = self.measure(batch)
        return {**values, **self._importance(batch[0])} if split in self.iwae_splits else values

    def _importance(self, x: Tensor) -> dict[str, Tensor]:
        logits = _full(self.model.encode(x))

        def log_weights(count: int) -> Tensor:
            return log_weight(self.model, x, logits.expand(count, -1, -1))

        bounds = importance_bounds(log_weights, self.iwae_samples, at_once=max(1, ROWS // len(x)))
        return {f"iwae_{count}": bound for count, bound in bounds.items()}

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        units = active_units(means.pop("posterior"), means.pop("posterior_square"))
        return {**super().summary(means), "active_units": units}

    @property
    def diagnoses(self) -> bool:
        return self.variance_draws > 0

    def diagnose(self, batch: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """The variance of the estimate, over fresh draws for one batch. No gradient is left anywhere."""
        (x,) = batch
        assert self.model.estimator is not None
        logits = self.model.encode(x).detach().requires_grad_()
        found = gradient_statistics(self.model.estimator, logits, cost(self.model, x), self.variance_draws)
        # Of the batch mean: an image's own gradient is B times as large, and there are B of them to average.
        return {"gradient_variance": found.variance.sum() * len(x)}

    def pictures(self, batches: Iterable[tuple[Tensor, ...]]) -> dict[str, Grid]:
        """Samples from the prior; images over their reconstructions, row by row of ten."""
        x = torch.cat([x for (x,) in batches])
        x = x[torch.linspace(0, len(x) - 1, SHOWN // 2).long()]  # from all over the split, which may be ordered
        rows = torch.stack([x, torch.sigmoid(self.model(x)[0])], 1)  # [N, 2, 1, H, W]
        pairs = [rows[i : i + 10].transpose(0, 1) for i in range(0, len(rows), 10)]
        reconstructions = torch.cat([p.flatten(0, 1) for p in pairs])
        return {"samples": Grid(self.model.samples(SHOWN)), "reconstructions": Grid(reconstructions)}

    @classmethod
    def example(cls, input_shape: tuple[int, ...]) -> str:
        return "4"

    def predict(self, words: Sequence[str]) -> str:
        if len(words) != 1 or not words[0].isdecimal() or not 1 <= len(words[0]) <= 4 or int(words[0]) == 0:
            raise ValueError(f"give one number from 1 to 9999, how many samples to draw; got {' '.join(words)!r}")
        images = self.model.samples(int(words[0])).flatten(0, -3)  # [N, H, W]
        return "\n\n".join(
            "\n".join("".join(" .+#"[int(3.99 * p)] * 2 for p in row) for row in image) for image in images
        )


def cost(model: VAEMLP, x: Tensor) -> Callable[[Tensor], Tensor]:
    """b [B, D] → what is left to pay once b is drawn: -log p(x | b), and a bound on -log p(b) from the layers above.

    Every call of one cost draws the same numbers for the layers above: then what an estimator compares differs by b
    alone. That keeps unbiased estimators unbiased, for any fixed numbers and so on average over them.
    """
    if model.above is None:
        return lambda b: -_log_likelihood(model, x, b)
    above, seed = model.above, int(torch.randint(2**62, ()))

    def of(b: Tensor) -> Tensor:
        with torch.random.fork_rng([b.device] if b.is_cuda else []):
            seed_device(seed, b.device)
            return -_log_likelihood(model, x, b) + bound(above, b)

    return of


def bound(model: VAEMLP, x: Tensor) -> Tensor:
    """A bound on -log p(x) [B], with the gradient estimate of the model's own estimator."""
    assert model.estimator is not None
    logits = model.encode(x)
    return model.estimator.each(logits, cost(model, x))[0] + latent_cost(model, logits)  # type: ignore[operator]


def latent_cost(model: VAEMLP, logits: Tensor) -> Tensor:
    """What q pays before b is drawn: its KL to the prior; below other layers, which price b themselves, -entropy."""
    return bernoulli_kl(_full(logits), model.prior) if model.above is None else -bernoulli_entropy(_full(logits))


def one_sample(model: VAEMLP, x: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """-log p(x | b) and what the latents cost, at one hard sample and without an estimator.  → [B], [B]"""
    b = model.draw(logits)
    reconstruction, latents = -_log_likelihood(model, x, b), latent_cost(model, logits)
    if model.above is not None:
        latents = latents + sum(one_sample(model.above, b, _full(model.above.encode(b))))
    return reconstruction, latents


def log_weight(model: VAEMLP, x: Tensor, logits: Tensor) -> Tensor:
    """log p(x, b) - log q(b | x) at one hard sample, over all layers.  logits: [..., D] → [...]"""
    b, above = model.draw(logits), model.above
    prior = log_bernoulli(b, model.prior) if above is None else log_weight(above, b, _full(above.encode(b)))
    return _log_likelihood(model, x, b) + prior - log_bernoulli(b, logits)


def _log_likelihood(model: VAEMLP, x: Tensor, b: Tensor) -> Tensor:
    return log_bernoulli(x.flatten(-len(model.input_shape)), _full(model.decode(b)))


def _full(logits: Tensor) -> Tensor:
    return logits.to(working_dtype(logits))  # hundreds of terms are summed: not in bfloat16
