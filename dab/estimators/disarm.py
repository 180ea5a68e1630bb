"""Antithetic pairs for Bernoulli latents: two samples from one uniform, u and 1 - u."""

import torch
from torch import Tensor

from dab.estimators.discrete import uniform
from dab.estimators.objective import Estimate, Objective, ObjectiveEstimator
from dab.hard.bits import drawn


class Arm(ObjectiveEstimator):
    """ARM (Yin & Zhou 2019): (f(b) - f(b')) (u - 1/2). Unbiased; the objective is called twice. Bernoulli alone.

    estimator = Arm()
    loss, logs = estimator(encoder(x), lambda b: F.mse_loss(decoder(b), x, reduction="none").sum(1))
    loss.backward()
    """

    def __init__(self) -> None:
        super().__init__(categorical=False)

    def estimate(self, logits: Tensor, cost: Objective) -> Estimate:
        u, p = uniform(logits), torch.sigmoid(logits)
        b, partner = drawn(p, 1 - u), drawn(p, u)
        value, other = cost(b), cost(partner)
        difference = (value - other).detach().reshape(-1, *[1] * (b.dim() - 1))
        gradient = difference * self.factor(logits, u, b, partner)
        return Estimate((value + other) / 2, gradient, {})

    def factor(self, logits: Tensor, u: Tensor, b: Tensor, partner: Tensor) -> Tensor:
        return u - 0.5


class Disarm(Arm):
    """DisARM (Dong et al. 2020; U2G, Yin et al. 2020): ARM with u averaged out, never more variance. Bernoulli alone.

    estimator = Disarm()
    loss, logs = estimator(encoder(x), lambda b: F.mse_loss(decoder(b), x, reduction="none").sum(1))
    loss.backward()
    """

    def factor(self, logits: Tensor, u: Tensor, b: Tensor, partner: Tensor) -> Tensor:
        return (b - partner) * torch.sigmoid(logits.abs()) / 2  # zero where the two samples agree
