"""Vector quantisation: the nearest word of a codebook forward, a codebook that follows the vectors.

What passes back is the identity, or, by the *rotation trick* (Fifty et al. 2024), what rotates and scales each vector
into its word, taken as a constant: y = s R z with R = I - 2 r r' + 2 q e', where e and q are the directions of the
vector and of the word, r is the one half-way between them and s = |word| / |vector|.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dab.hard import Nearest
from dab.pooled import pooled
from dab.precision import full_precision, working_dtype
from dab.ranges import NotNegative, ShareBelow1, ranged
from dab.surrogate import call_hard, value_with_gradient, zero_penalty

_STRIDE = 7919  # between the vectors that dead words are put at: a prime, so that they come from all over the batch
_SMALL = 1e-6  # least length that is divided by, and least use of a word that a mean is taken from


class VectorQuantization(nn.Module):
    """The layer of a VQ-VAE (van den Oord et al. 2017).  [B, ..., dim] → [B, ..., dim]

    layer = VectorQuantization(dab.hard.Nearest(words=64, dim=8))
    y, penalty = layer(encoder(x).unflatten(1, (13, 8)))  # 13 words: 78 bits
    (F.mse_loss(decoder(y.flatten(1)), x) + penalty.mean()).backward()

    penalty     commitment · |z - word|², summed over the units of a sample; it moves z alone
    gradient    straight_through (the identity) | rotation (at the top of this file)
    learn       the words by: ema (each is the running mean of the vectors it is the nearest of) | loss (the penalty has
                |z - word|² once more, which moves the word alone, and the model's optimizer takes the step)
    decay       of running means: of the words, and of how often each is used
    revive      a word that is used less than this share of the average is put where a vector of the batch is; 0: never

    The first batch in training gives every word one of its vectors to start from. Later ones move the codebook before
    they are quantised, so that y is what `hard` says afterwards. What is running is a buffer: a checkpoint has it. With
    torch.distributed the workers pool their vectors (of equal number), and so have one codebook. No random number is
    drawn. Not for torch.func in training, where it may not move a codebook.
    """

    usage: Tensor  # [words], of the vectors of a batch, 1 on average
    sums: Tensor  # [words, dim], of these vectors, in proportion
    batches: Tensor

    @ranged
    def __init__(
        self,
        hard: Nearest,
        gradient: Literal["straight_through", "rotation"] = "straight_through",
        learn: Literal["ema", "loss"] = "ema",
        commitment: NotNegative = 0.25,
        decay: ShareBelow1 = 0.99,
        revive: ShareBelow1 = 0.05,
    ) -> None:
        super().__init__()
        if not isinstance(hard, Nearest):
            raise ValueError(f"vector quantisation learns the words of dab.hard.Nearest, given {type(hard).__name__}")
        self.hard = hard
        self.gradient = gradient
        self.learn = learn
        self.commitment, self.decay, self.revive = commitment, decay, revive
        hard.codebook.requires_grad_(learn == "loss")
        self.register_buffer("usage", torch.zeros(len(hard.codebook)))
        self.register_buffer("sums", torch.zeros_like(hard.codebook))
        self.register_buffer("batches", torch.zeros((), dtype=torch.long))

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        if self.training and torch.is_grad_enabled() and z.numel():
            self._move(z.detach())
        word = call_hard(self.hard, z.detach())  # [B, ..., dim], with the gradient of the codebook if it is learned so
        h = word.detach()
        if not self.training:
            return h, zero_penalty(z)
        with full_precision(z):
            x = z.to(working_dtype(z))
            soft = rotated(x, h.to(x.dtype)) if self.gradient == "rotation" else x
            penalty = self.commitment * _square(x - h)
            if self.learn == "loss":
                penalty = penalty + _square(x.detach() - word)
        return value_with_gradient(h, gradient_of=soft), penalty

    @torch.no_grad()
    def _move(self, z: Tensor) -> None:
        """Put dead words elsewhere, then let the words follow their vectors."""
        if "usage" not in self._buffers:
            raise RuntimeError("this layer was stripped for inference: call .eval() on it, or train the original model")
        with full_precision(z):
            vectors = pooled(z.to(self.sums.dtype)).reshape(-1, z.shape[-1])  # [N, dim]
            self._revive(vectors)
            mine = (self.hard.index(vectors).unsqueeze(1) == self._places()).to(vectors.dtype)  # [N, words]
            share = len(self.usage) / len(vectors)  # what one vector adds to the use of a word, 1 on average
            self.usage.lerp_(mine.sum(0) * share, 1 - self.decay)
            if self.learn == "ema":
                self.sums.lerp_(mine.T @ vectors * share, 1 - self.decay)
                used = self.usage.unsqueeze(1)
                self.hard.codebook.copy_(torch.where(used > _SMALL, self.sums / used, self.hard.codebook))
            self.batches += 1

    def _revive(self, vectors: Tensor) -> None:
        dead = (self.usage < self.revive) | (self.batches == 0)
        # By stride instead of by chance: workers agree, and a batch is in random order anyway.
        new = vectors.index_select(0, (self.batches + _STRIDE * self._places()) % len(vectors))
        self.usage.masked_fill_(dead, 1.0)
        for words in (self.hard.codebook, self.sums):
            words.copy_(torch.where(dead.unsqueeze(1), new, words))

    def _places(self) -> Tensor:
        return torch.arange(len(self.usage), device=self.usage.device)

    def strip_(self) -> None:
        """Drop what only training needs; the codebook stays. See `dab.strip`."""
        self._buffers.clear()

    def extra_repr(self) -> str:
        return (
            f"gradient={self.gradient}, learn={self.learn}, commitment={self.commitment:g}, decay={self.decay:g}, "
            f"revive={self.revive:g}"
        )


def rotated(x: Tensor, word: Tensor) -> Tensor:
    """s R x: the word itself, as a linear function of x.  [..., dim], [..., dim] → [..., dim]"""
    length, wanted = (t.detach().norm(dim=-1, keepdim=True) for t in (x, word))
    e, q = x.detach() / length.clamp(min=_SMALL), word / wanted.clamp(min=_SMALL)
    r = F.normalize(e + q, dim=-1, eps=_SMALL)
    turned = x - 2 * r * (r * x).sum(-1, keepdim=True) + 2 * q * (e * x).sum(-1, keepdim=True)
    return wanted / length.clamp(min=_SMALL) * turned


def _square(t: Tensor) -> Tensor:
    return t.square().flatten(1).sum(1)  # [B, ...] → [B]
