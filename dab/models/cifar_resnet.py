"""Resnet18 for small images, with a place for a hard function after any of its blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from dab.activations import Activation
from dab.activations import activation as make_activation
from dab.estimators.no_hard import NoHard
from dab.models.classifier import Classifier
from dab.models.code import shape_after
from dab.models.image_nets import Shape, with_activation
from dab.ranges import Count, Finite, Positive, Range, Several, ShareAbove0, When, ranged

BLOCKS = 4
Norm = Callable[[int], nn.Module]


class CifarResnet18(Classifier):
    """torchvision's residual blocks behind a 3x3 stem without max-pool; a Resnet18 for 32x32 at width 64.

    classes         as many as the data has
    width           channels of the first block; each block has twice as many as the one before
    strides         of the four blocks: 32x32 becomes 4x4 by the usual ones
    after           the block whose output the hard function sees, 1 to 4; None: there is none (estimator=no_hard)
    head            what the read-out sees: pooled (the mean over the map), flat (all of it), auto (flat where the hard
                    function has changed the shape of the last map, pooled otherwise)
    norm            batch | group (of at most 8 groups)
    norm_momentum   of the running statistics of batch norms
    channels_last   how feature maps lie in memory: the same numbers but for rounding, a quarter faster
    """

    @ranged
    def __init__(
        self,
        estimator: nn.Module,
        input_shape: Shape,
        code_shape: Shape,
        classes: Several = 10,
        width: Count = 64,
        strides: tuple[Count, Count, Count, Count] = (1, 2, 2, 2),
        after: Annotated[int, Range(at_least=1, at_most=BLOCKS)] | None = BLOCKS,
        head: Literal["auto", "pooled", "flat"] = "auto",
        activation: Activation = "elu",
        norm: Literal["batch", "group"] = "batch",
        norm_momentum: Annotated[ShareAbove0, When("norm", ("batch",))] = 0.1,
        channels_last: bool = True,
        input_shift: Finite = 0.5,
        input_scale: Positive = 4.0,
    ):
        if after is None and not isinstance(estimator, NoHard):
            raise ValueError(
                f"after=null leaves no place for {type(estimator).__name__}: use estimator=no_hard, or after=1 to 4"
            )
        place, make_norm = after or BLOCKS, _norm(norm, norm_momentum)
        hard_shape = shape_after(estimator, code_shape)
        seen = [width, *(width * 2**i for i in range(BLOCKS))]  # by each block, and by the head
        seen[place] = _channels(hard_shape, code_shape, place)
        conv = nn.Conv2d(input_shape[0], width, 3, padding=1, bias=False)
        layers: list[nn.Module] = [nn.Sequential(conv, make_norm(width), make_activation(activation))]
        layers += [_block(seen[i], width * 2**i, strides[i], make_norm, activation) for i in range(BLOCKS)]
        _initialise(layers)
        last = hard_shape if place == BLOCKS else _map_after(hard_shape, strides[place:], seen[BLOCKS])
        changed = place == BLOCKS and hard_shape != tuple(code_shape)
        read_out = _head(head, last, width * 2 ** (BLOCKS - 1), classes, changed)
        encoder, decoder = nn.Sequential(*layers[: place + 1]), nn.Sequential(*layers[place + 1 :], read_out)
        super().__init__(encoder, estimator, decoder, classes, input_shift, input_scale)
        self.channels_last = channels_last
        if channels_last:
            for half in (self.encoder, self.decoder):
                half.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @staticmethod
    def code_shape(
        input_shape: Shape, hard: nn.Module, width: int, strides: Sequence[int], after: int | None, **_: object
    ) -> Shape:
        if len(input_shape) != 3:
            raise ValueError(f"a Resnet18 needs images [C, H, W], given inputs of shape {list(input_shape)}")
        place = after or BLOCKS
        return _map_after(input_shape, strides[:place], width * 2 ** (place - 1))

    def encode(self, x: Tensor) -> Tensor:
        return super().encode(x.contiguous(memory_format=torch.channels_last) if self.channels_last else x)


def _norm(kind: str, momentum: float) -> Norm:
    if kind == "group":
        return lambda channels: nn.GroupNorm(math.gcd(channels, 8), channels)
    return partial(nn.BatchNorm2d, momentum=momentum)


def _block(before: int, after: int, stride: int, norm: Norm, activation: str) -> nn.Module:
    """Two residual blocks of torchvision's.  [B, before, H, W] → [B, after, H / stride, W / stride]"""
    from dab.data.vision import torchvision

    basic = torchvision.models.resnet.BasicBlock
    short = None
    if stride != 1 or before != after:
        short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), norm(after))
    first, second = basic(before, after, stride, short, norm_layer=norm), basic(after, after, norm_layer=norm)
    return with_activation(nn.Sequential(first, second), activation)


def _initialise(layers: Sequence[nn.Module]) -> None:
    """Convolutions as torchvision's Resnet18 starts them."""
    for module in nn.Sequential(*layers).modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def _map_after(shape: Shape, strides: Sequence[int], channels: int) -> Shape:
    """The shape of a map after blocks with these strides."""
    return channels, *(math.ceil(side / math.prod(strides)) for side in shape[1:])


def _channels(hard_shape: Shape, code_shape: Shape, place: int) -> int:
    """What the next block gets of the hard function, which may have changed the map but has to leave one."""
    if place < BLOCKS and len(hard_shape) != 3:
        raise ValueError(
            f"the hard function turns the map {list(code_shape)} of block {place} into {list(hard_shape)}, and block "
            f"{place + 1} takes maps [C, H, W] only: use after={BLOCKS}, where nothing but the read-out follows"
        )
    return hard_shape[0]


class Flat(nn.Flatten):
    """All of a map, divided by the root of the number of its places.

    A step of SGD moves what a read-out says by the sum of the squares of what it sees. Divided, that is about as much
    as for the mean over the places, and one learning rate is right for both heads.
    """

    def __init__(self, places: float):
        super().__init__()
        self.scale = places**-0.5

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.scale


def _head(kind: str, shape: Shape, channels: int, classes: int, changed: bool) -> nn.Module:
    """channels: of the last block, whatever the hard function makes of them.  [B, *shape] → [B, classes]"""
    if kind == "pooled" and changed:
        raise ValueError(
            f"head=pooled takes the mean over a map, but the hard function leaves {list(shape)}, and what stands where "
            "is all it has to say: use head=flat or head=auto"
        )
    if kind == "flat" or changed:
        return nn.Sequential(Flat(math.prod(shape) / channels), nn.Linear(math.prod(shape), classes))
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(shape[0], classes))
