"""Bounds on log p(x) for Bernoulli latents, in nats, one value per sample.

Everything is computed from logits, summed over the last dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

ACTIVE = (
    0.01  # the variance of a posterior mean over the data above which its unit carries something (Burda et al. 2016)
)


def log_bernoulli(x: Tensor, logits: Tensor) -> Tensor:
    """log Bern(x; sigmoid(logits)).  x, logits: [..., D] → [...]"""
    return (x * logits).sum(-1) - F.softplus(logits).sum(-1)


def bernoulli_kl(logits: Tensor, prior: Tensor) -> Tensor:
    """KL[Bern(sigmoid(logits)) || Bern(sigmoid(prior))].  [..., D], [D] → [...]"""
    return kl_of_probability(torch.sigmoid(logits), logits, prior)


def kl_of_probability(p: Tensor, logits: Tensor, prior: Tensor) -> Tensor:
    """The same where both sigmoid(logits) = p and the logits are at hand."""
    return (p * (logits - prior) - F.softplus(logits) + F.softplus(prior)).sum(-1)


def bernoulli_entropy(logits: Tensor) -> Tensor:
    """Of Bern(sigmoid(logits)).  [..., D] → [...]"""
    return (F.softplus(logits) - torch.sigmoid(logits) * logits).sum(-1)


def importance_bounds(
    log_weights: Callable[[int], Tensor], counts: Sequence[int], at_once: int = 1
) -> dict[int, Tensor]:
    """log mean_K exp(log w) for every K in `counts`, each from the first K of the same draws (Burda et al. 2016).

    log_weights(k) draws k more: log p(x, b) - log q(b | x).  → [k, B]
    """
    bounds: dict[int, Tensor] = {}
    total, done = None, 0
    for count in sorted(counts):
        while done < count:
            size = min(at_once, count - done)
            part = log_weights(size).double().logsumexp(0)  # [B]
            total = part if total is None else torch.logaddexp(total, part)
            done += size
        assert total is not None
        bounds[count] = total - math.log(count)
    return bounds


def active_units(mean: Tensor, mean_square: Tensor) -> float:
    """How many units have a posterior mean that varies over the data, from its two moments.  [D], [D]"""
    return float((mean_square - mean.square() > ACTIVE).sum())
