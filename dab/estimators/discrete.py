"""The two families of discrete latents, as the estimators need them: samples, scores, relaxations.

A sample comes from perturbed logits, b = hard(z) with z = logits + noise, and every step but `hard` is differentiable.
Nothing here takes the logarithm of a probability or the logit of a relaxed sample, so logits may be of any size. In
float32 the uniforms have 24 bits: states rarer than about 1e-7 are never drawn.
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from dab.hard.bits import drawn, or_nan


def uniform(like: Tensor) -> Tensor:
    """Uniforms in the open interval (0, 1), of the shape and dtype (float32 or float64) of `like`."""
    tiny = torch.finfo(like.dtype).eps / 2  # rand may return 0, whose logarithm is not finite
    u = torch.rand(like.shape, dtype=like.dtype, device=like.device)
    return F.hardtanh_(u, tiny, 1 - tiny)  # clamp_, in a form that vmap knows


class Family(Protocol):
    """Everything maps [B, ...] to [B, ...]; `logits` may carry further leading dimensions."""

    def probability(self, logits: Tensor) -> Tensor:
        """The mean of a sample."""

    def perturbed(self, logits: Tensor) -> Tensor:
        """z: logits with noise, so that hard(z) is a sample. Differentiable."""

    def hard(self, z: Tensor) -> Tensor:
        """The sample that z stands for."""

    def conditional(self, logits: Tensor, b: Tensor) -> Tensor:
        """A fresh z, given that hard(z) = b. Differentiable with respect to the logits."""

    def relax(self, z: Tensor, temperature: Tensor | float) -> Tensor:
        """The soft version of hard(z)."""

    def score(self, logits: Tensor, b: Tensor) -> Tensor:
        """The gradient of log q(b) with respect to the logits."""

    def sample(self, logits: Tensor) -> Tensor:
        """A hard sample, without gradient."""


class Binary:
    """b ~ Bern(sigmoid(logits)), every entry by itself."""

    def probability(self, logits: Tensor) -> Tensor:
        return torch.sigmoid(logits)

    def perturbed(self, logits: Tensor) -> Tensor:
        u = uniform(logits)
        return logits + u.log() - torch.log1p(-u)

    def hard(self, z: Tensor) -> Tensor:
        return or_nan(z > 0, z)

    def conditional(self, logits: Tensor, b: Tensor) -> Tensor:
        # The logistic noise cut off at zero, by its inverse distribution function: for b = 1 the odds of z are
        # (1 + v exp(logit)) / (1 - v); b = 0 is its mirror image.
        v, sign = uniform(logits), 2 * b - 1
        return sign * (F.softplus(sign * logits + v.log()) - torch.log1p(-v))

    def relax(self, z: Tensor, temperature: Tensor | float) -> Tensor:
        return torch.sigmoid(z / temperature)

    def score(self, logits: Tensor, b: Tensor) -> Tensor:
        return b - torch.sigmoid(logits)

    def sample(self, logits: Tensor) -> Tensor:
        return drawn(torch.sigmoid(logits.detach()), uniform(logits))


class Categorical:
    """b ~ Cat(softmax(logits)), one-hot over the last dimension.  [B, G, K]"""

    def probability(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1)

    def perturbed(self, logits: Tensor) -> Tensor:
        return logits.log_softmax(-1) - _exponential(logits).log()

    def hard(self, z: Tensor) -> Tensor:
        return or_nan(F.one_hot(z.argmax(-1), z.shape[-1]), z.amax(-1, keepdim=True))

    def conditional(self, logits: Tensor, b: Tensor) -> Tensor:
        # exp(-z) are exponentials with the rates softmax(logits): the smallest has rate one, and the others
        # exceed it by exponentials of their own rates.
        log_e = _exponential(logits).log()
        first = (b * log_e).sum(-1, keepdim=True)  # [..., 1] of the class drawn
        others = torch.logaddexp(log_e - logits.log_softmax(-1), first)
        return -torch.where(b > 0, first, others)

    def relax(self, z: Tensor, temperature: Tensor | float) -> Tensor:
        return (z / temperature).softmax(-1)

    def score(self, logits: Tensor, b: Tensor) -> Tensor:
        return b - logits.softmax(-1)

    def sample(self, logits: Tensor) -> Tensor:
        return self.hard(self.perturbed(logits.detach()))


def family(categorical: bool) -> Family:
    return Categorical() if categorical else Binary()


def check_logits(logits: Tensor, categorical: bool) -> None:
    wanted = "[B, G, K]" if categorical else "[B, D]"
    least = 3 if categorical else 2
    if not isinstance(logits, Tensor) or not logits.is_floating_point() or logits.dim() < least:
        given = f"{logits.dtype} {list(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(
            f"logits must be a floating-point tensor {wanted} with categorical={categorical}, given {given}: "
            "reshape them, or change categorical"
        )


def _exponential(like: Tensor) -> Tensor:
    return -uniform(like).log()
