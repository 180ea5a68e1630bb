"""An image, a discrete code of a given number of bits, and the image again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from torch import Tensor, nn

from dab.activations import Activation
from dab.data.dataset import Dataset
from dab.estimators.lift import lifted
from dab.models.code import shape_after
from dab.models.image_nets import Convolutions, Shape, Upsampling, dense_decoder, encoder, mirror, resnet18
from dab.ranges import Count, CountOr0, Counts, NotEmpty, Positive, When, ranged
from dab.surrogate import zero_penalty


def units_within(bits: float, hard: nn.Module) -> int:
    """How many units of a hard function fit into so many bits."""
    per_unit = getattr(hard, "bits_per_unit", None)
    if per_unit is None:
        raise ValueError(f"{type(hard).__name__} has no bits per unit, so that no code can be sized by it")
    count = int(bits / per_unit + 1e-9)  # 78.4 bits are 78 units; rounding errors are not
    if count < 1:
        raise ValueError(f"{bits:.3g} bits are less than one unit of {type(hard).__name__} ({per_unit:.3g} bits)")
    return count


class Codec(nn.Module):
    """What the task of representations needs of a model: encode, code, decode.

    hard            the function that makes the code of what the encoder says
    bpp             bits for each pixel of each channel; the code has as many whole units as fit
    """

    takes_objective = True  # what the engine asks before it puts an objective estimator into a model

    def __init__(self, estimator: nn.Module, input_shape: Shape, code_shape: Shape, hard: nn.Module, bpp: float):
        super().__init__()
        self.input_shape, self.before_shape = tuple(input_shape), tuple(code_shape)
        self.estimator: nn.Module | None = lifted(estimator)
        self.hard = hard
        self.units = math.prod(shape_after(estimator, code_shape))
        self.bits = units_within(bpp * math.prod(input_shape), hard) * float(hard.bits_per_unit)  # type: ignore[arg-type]

    def prepare(self, data: Dataset) -> None:
        """Look at the data, before training starts."""

    def encode(self, x: Tensor) -> Tensor:
        """[B, C, H, W] → what the hard function sees, [B, *code_shape]"""
        raise NotImplementedError

    def decode(self, code: Tensor) -> Tensor:
        """[B, ...] → [B, C, H, W], before what makes pixels of it: the task's likelihood knows"""
        raise NotImplementedError

    def code(self, x: Tensor) -> Tensor:
        """The discrete code of images, without gradient.  [B, C, H, W] → [B, ...]"""
        return self.hard(self.encode(x)).detach()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.decode(self.code(x)), zero_penalty(x)

    def strip_(self) -> None:
        """Drop the estimator, for inference. See `dab.strip`."""
        self.estimator = None


CONVOLVES = When("encoder", ("conv", "coordconv"))  # a resnet18 has its own sizes, and no mirror


class Autoencoder(Codec):
    """A convolutional encoder, a discrete code and a decoder; nothing leads around the code.

    encoder         conv | coordconv (every convolution is told where it is) | resnet18 (torchvision's)
    decoder         mirror (the convolutions backwards) | upsampling (convolutions that double) | dense
    channels, kernels, strides, paddings     of the convolutions; one number stands for all layers
    hidden          dense layers between the convolutions and the code; backwards in a mirror
    decoder_hidden  dense layers of a dense decoder, channels of an upsampling one
    """

    @ranged
    def __init__(
        self,
        estimator: nn.Module,
        input_shape: Shape,
        code_shape: Shape,
        hard: nn.Module,
        bpp: Positive = 0.1,
        encoder: Literal["conv", "coordconv", "resnet18"] = "conv",
        decoder: Literal["mirror", "upsampling", "dense"] = "mirror",
        channels: Annotated[Counts, CONVOLVES] = (16, 32),
        kernels: Annotated[Counts, CONVOLVES] = (4,),
        strides: Annotated[Counts, CONVOLVES] = (2,),
        paddings: Annotated[Sequence[CountOr0], NotEmpty(), CONVOLVES] = (1,),
        hidden: Annotated[Sequence[Count], CONVOLVES] = (256,),
        decoder_hidden: Annotated[Sequence[Count], When("decoder", ("upsampling", "dense"))] = (),
        activation: Activation = "elu",
    ):
        super().__init__(estimator, input_shape, code_shape, hard, bpp)
        if encoder == "resnet18" and decoder == "mirror":
            raise ValueError("a resnet18 has no mirror: use decoder=upsampling or decoder=dense")
        if decoder == "upsampling" and not decoder_hidden:
            raise ValueError("an upsampling decoder needs decoder_hidden, its channels, for example [256,128,64,32]")
        plan = Convolutions(input_shape, channels, kernels, strides, paddings)
        self.encoder = self._encoder(encoder, plan, hidden, activation)
        self.decoder = self._decoder(decoder, plan, hidden, decoder_hidden, activation)

    @staticmethod
    def code_shape(input_shape: Shape, hard: nn.Module, bpp: float, **_: object) -> Shape:
        return (units_within(bpp * math.prod(input_shape), hard), *getattr(hard, "unit_shape", ()))

    def _encoder(self, kind: str, plan: Convolutions, hidden: Sequence[int], activation: str) -> nn.Module:
        units = math.prod(self.before_shape)
        if kind == "resnet18":
            return resnet18(self.input_shape[0], units, activation)
        return encoder(plan, units, hidden, activation, coordinates=kind == "coordconv")

    def _decoder(
        self, kind: str, plan: Convolutions, hidden: Sequence[int], own: Sequence[int], activation: str
    ) -> nn.Module:
        if kind == "mirror":
            return mirror(plan, self.units, hidden, activation)
        if kind == "dense":
            return dense_decoder(self.input_shape, self.units, own, activation)
        return Upsampling(self.input_shape, self.units, own, activation)

    def encode(self, x: Tensor) -> Tensor:
        return self.encoder(x).unflatten(1, self.before_shape)

    def decode(self, code: Tensor) -> Tensor:
        return self.decoder(code.flatten(1))
