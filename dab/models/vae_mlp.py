"""A variational autoencoder with Bernoulli latents between two dense networks, one layer of them or more."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dab.activations import Activation
from dab.estimators.discrete import Binary
from dab.estimators.lift import lifted
from dab.hard import Bernoulli
from dab.nets import mlp
from dab.ranges import Count, ShareBelow1, ranged
from dab.surrogate import zero_penalty


class VAEMLP(nn.Module):
    """q(b | x) = Bern(sigmoid(encode(x))), p(x | b) = Bern(sigmoid(decode(b))), p(b) = Bern(sigmoid(prior)).

    The estimator is only for training, in the form of an objective estimator whatever it is (`dab.estimators.Lift`);
    without it the model draws its latents itself.

    latents         how many
    encoder         hidden sizes before the latents; none: a linear encoder
    decoder         hidden sizes after them; none: a linear decoder
    activation      after every hidden layer
    signed          latents are seen as -1 and 1 instead of 0 and 1, by the decoder and by an encoder above them
    centred         the encoder sees x minus the mean of the training set
    mean_bias       the output bias starts at the logit of that mean instead of at random
    input_dropout   share of the encoder's inputs that training blanks out (with `centred`: sets to the mean)
    learned_prior   one logit a latent is learned; otherwise the prior is a half
    layers          of latents. Above the first stands another such model, `above`: of the latents below it instead of
                    images, with nets of the same hidden sizes and an estimator of its own (a copy that goes its own
                    way). It takes the prior's place. An estimator that calls its objective k times calls the one of
                    the second layer k times k
    """

    takes_objective = True  # what the engine asks before it puts an objective estimator into a model
    mean: Tensor
    prior: Tensor

    @ranged
    def __init__(
        self,
        estimator: nn.Module,
        input_shape: tuple[int, ...],
        latents: Count = 200,
        encoder: Sequence[Count] = (200,),
        decoder: Sequence[Count] = (200,),
        activation: Activation = "relu",
        signed: bool = False,
        centred: bool = False,
        mean_bias: bool = False,
        learned_prior: bool = False,
        layers: Count = 1,
        input_dropout: ShareBelow1 = 0.0,
    ):
        super().__init__()
        self.input_shape, pixels = tuple(input_shape), math.prod(input_shape)
        self.latents, self.signed, self.centred, self.mean_bias = latents, signed, centred, mean_bias
        self.signed_input = False
        self.dropout = nn.Dropout(input_dropout)
        self.encoder = mlp((pixels, *encoder, latents), activation)
        self.estimator: nn.Module | None = objective_form(estimator)
        self.decoder = mlp((latents, *decoder, pixels), activation)
        self.register_buffer("mean", torch.zeros(pixels))
        self.above: VAEMLP | None = None
        if layers > 1:
            nets = (latents, encoder, decoder, activation, signed)
            self.above = VAEMLP(
                copy.deepcopy(estimator), (latents,), *nets, learned_prior=learned_prior, layers=layers - 1
            )
            self.above.signed_input = signed
        elif learned_prior:
            self.prior = nn.Parameter(torch.zeros(latents))
        else:
            self.register_buffer("prior", torch.zeros(latents))  # logits

    @staticmethod
    def code_shape(input_shape: tuple[int, ...], hard: nn.Module, latents: int, **_: object) -> tuple[int, ...]:
        return (latents,)

    @torch.no_grad()
    def set_mean(self, mean: Tensor) -> None:
        """Take over the mean of the training set, [*input_shape], before training starts."""
        self.mean.copy_(mean.flatten())
        if self.mean_bias:
            last = self.decoder[-1]
            assert isinstance(last, nn.Linear)
            last.bias.copy_(self.mean.clamp(0.001, 0.999).logit())  # a pixel that is always off still has a finite one

    def encode(self, x: Tensor) -> Tensor:
        """[..., *input_shape] → logits [..., latents]"""
        flat = x.flatten(-len(self.input_shape))
        if self.signed_input:
            flat = 2 * flat - 1
        return self.encoder(self.dropout(flat - self.mean if self.centred else flat))

    def decode(self, b: Tensor) -> Tensor:
        """[..., latents] in 0..1 → logits [..., pixels]"""
        return self.decoder(2 * b - 1 if self.signed else b)

    def draw(self, logits: Tensor) -> Tensor:
        """A hard sample of the latents, without gradient."""
        return Binary().sample(logits)

    def samples(self, count: int) -> Tensor:
        """Probabilities of the pixels of `count` latents from the prior.  → [count, *input_shape]"""
        b = self.draw(self.prior.expand(count, -1)) if self.above is None else self.above.samples(count).bernoulli()
        return torch.sigmoid(self.decode(b)).view(count, *self.input_shape)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of a reconstruction [B, *input_shape] from one hard sample, zeros [B]."""
        return self.decode(self.draw(self.encode(x))).view(-1, *self.input_shape), zero_penalty(x)

    def strip_(self) -> None:
        """Drop the estimator, for inference. See `dab.strip`."""
        self.estimator = None


def objective_form(estimator: nn.Module) -> nn.Module:
    """An objective estimator of Bernoulli latents, lifted if it is a layer; ValueError if it draws something else."""
    hard = getattr(estimator, "hard", None)
    is_binary = isinstance(hard, Bernoulli) or getattr(estimator, "categorical", True) is False
    if not is_binary:
        given = type(estimator).__name__ + (f" with {type(hard).__name__}" if hard is not None else "")
        raise ValueError(
            f"VAEMLP has Bernoulli latents, given {given}: use hard=bernoulli with an estimator that has a hard "
            "function, or one that draws Bernoulli samples itself (gumbel, reinmax, disarm, ...)"
        )
    return lifted(estimator)
