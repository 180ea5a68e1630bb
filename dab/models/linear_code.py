"""Codes that nothing was trained for: what a learned code of as many bits has to beat."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from dab.data.dataset import Dataset
from dab.keys import generator
from dab.models.autoencoder import Codec, units_within
from dab.models.image_nets import Shape, bilinear
from dab.ranges import Key, Positive, When, ranged


class LinearCode(Codec):
    """A hard function of linear measurements of an image, read by the best linear decoder; both from the training set.

    kind        pca: the leading principal components, standardised (with hard=binary hard.reference=zero, their signs)
                random: directions drawn by `draw`, from the mean of the training set
                downsampled: the image, smaller (with hard=threshold: the paper's baseline)
    draw        of the random directions

    The decoder is the least-squares fit of the training images to their codes. The one parameter is trained in vain.
    """

    basis: Tensor
    mean: Tensor
    read_out: Tensor

    @ranged
    def __init__(
        self,
        estimator: nn.Module,
        input_shape: Shape,
        code_shape: Shape,
        hard: nn.Module,
        bpp: Positive = 0.1,
        kind: Literal["pca", "random", "downsampled"] = "pca",
        draw: Annotated[Key, When("kind", ("random",))] = 0,
    ):
        super().__init__(estimator, input_shape, code_shape, hard, bpp)
        self.kind, self.draw = kind, draw
        pixels = math.prod(input_shape)
        self.scale = nn.Parameter(torch.ones(()))
        self.register_buffer("mean", torch.zeros(pixels))
        self.register_buffer("basis", torch.zeros(math.prod(code_shape), pixels))
        self.register_buffer("read_out", torch.zeros(self.units + 1, pixels))

    @staticmethod
    def code_shape(input_shape: Shape, hard: nn.Module, bpp: float, kind: str, **_: object) -> Shape:
        units = units_within(bpp * math.prod(input_shape), hard)
        if kind != "downsampled":
            return (units,)
        channels, height, width = input_shape
        rows = max(1, int(math.sqrt(units / channels * height / width)))
        return (channels, rows, max(1, int(units / channels / rows)))

    @torch.no_grad()
    def prepare(self, data: Dataset) -> None:
        """Take measurements and decoder from the training set."""
        self.mean.copy_(data.mean.flatten())
        if self.kind == "pca":
            self.basis.copy_(_components(self._centred(data), len(self.basis)))
        elif self.kind == "random":
            directions = torch.randn(self.basis.shape, generator=generator("directions", self.draw))
            self.basis.copy_(directions / directions.norm(dim=1, keepdim=True))
        training = self.training
        self.eval()
        pairs = ((self._with_one(self.code(x)), x.flatten(1)) for x, *_ in data.batches("train"))
        self.read_out.copy_(_least_squares(pairs))
        self.train(training)

    def _centred(self, data: Dataset) -> Iterator[Tensor]:
        return (x.flatten(1) - self.mean for x, *_ in data.batches("train"))

    def encode(self, x: Tensor) -> Tensor:
        if self.kind == "downsampled":
            return bilinear(x, self.before_shape[1:])  # type: ignore[arg-type]
        return (x.flatten(1) - self.mean) @ self.basis.T

    def decode(self, code: Tensor) -> Tensor:
        return self.scale * (self._with_one(code) @ self.read_out).unflatten(1, self.input_shape)

    def _with_one(self, code: Tensor) -> Tensor:
        return torch.cat([code.flatten(1), code.new_ones(len(code), 1)], 1)


def _components(batches: Iterator[Tensor], count: int) -> Tensor:
    """The leading principal directions, each scaled so that its projections have variance one.  → [count, pixels]"""
    covariance, total = torch.zeros(()), 0
    for x in batches:
        covariance, total = covariance + x.double().T @ x.double(), total + len(x)
    values, vectors = torch.linalg.eigh(covariance / total)
    if count > len(values):
        raise ValueError(f"a code of {count} units has more principal components than the {len(values)} pixels")
    leading = vectors.flip(1)[:, :count] / values.flip(0)[:count].clamp(min=1e-12).sqrt()
    return leading.T.float()


def _least_squares(pairs: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    """W of least |code W - x|², with a slight ridge: units may be constant.  [N, units], [N, pixels] → W"""
    gram = target = torch.zeros(())
    for code, x in pairs:
        code = code.double()
        gram, target = gram + code.T @ code, target + code.T @ x.double()
    ridge = 1e-6 * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    return torch.linalg.solve(gram + ridge, target).float()
