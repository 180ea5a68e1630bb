"""Noise for perturbations, and its score: minus the gradient of the logarithm of its density."""

import math

import torch
from torch import Tensor

from dab.estimators.discrete import uniform


def draw(family: str, like: Tensor) -> Tensor:
    """Noise of unit scale.  [...] → [...]"""
    return torch.randn_like(like) if family == "gaussian" else -(-uniform(like).log()).log()


def score(family: str, noise: Tensor) -> Tensor:
    return noise if family == "gaussian" else 1 - (-noise).exp()


def sum_of_gamma(like: Tensor, k: int, terms: int = 10) -> Tensor:
    """Noise of which k together have about the law of one Gumbel (Niepert et al. 2021).  [...] → [...]

    For solvers whose outputs have k ones: perturbing their k summands then perturbs the sum as a Gumbel would. `terms`
    of the series are taken.
    """
    shape = torch.full_like(like, 1 / k)
    gammas = [torch._standard_gamma(shape) * (k / i) for i in range(1, terms + 1)]
    return (torch.stack(gammas).sum(0) - math.log(terms)) / k
