"""Networks between images and vectors: the two halves of an autoencoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dab.activations import activation as make_activation
from dab.nets import mlp

Shape = tuple[int, ...]


class CoordConv(nn.Conv2d):
    """A convolution that is also told where it is: two more channels hold the row and the column, from -1 to 1."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, padding: int):
        super().__init__(before + 2, after, kernel, stride, padding)

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        rows = torch.linspace(-1, 1, height, device=x.device, dtype=x.dtype).view(1, 1, -1, 1)
        columns = torch.linspace(-1, 1, width, device=x.device, dtype=x.dtype).view(1, 1, 1, -1)
        places = [t.expand(len(x), 1, height, width) for t in (rows, columns)]
        return super().forward(torch.cat([x, *places], 1))


class Convolutions:
    """The plan of a convolution stack: channels, kernels, strides and paddings, layer by layer.

    One number for kernels, strides or paddings stands for all layers.
    """

    def __init__(
        self,
        input_shape: Shape,
        channels: Sequence[int],
        kernels: Sequence[int],
        strides: Sequence[int],
        paddings: Sequence[int],
    ):
        count = len(channels)
        per_layer = [list(given) * count if len(given) == 1 else list(given) for given in (kernels, strides, paddings)]
        if not channels or any(len(given) != count for given in per_layer):
            raise ValueError(
                f"channels, kernels, strides and paddings need as many numbers, or one for all layers; given "
                f"{list(channels)}, {list(kernels)}, {list(strides)} and {list(paddings)}"
            )
        self.channels = [input_shape[0], *channels]
        self.layers = list(zip(*per_layer))  # (kernel, stride, padding)
        self.sides = [tuple(input_shape[1:])]
        for kernel, stride, padding in self.layers:
            side = tuple((n + 2 * padding - kernel) // stride + 1 for n in self.sides[-1])
            if min(side) < 1:
                raise ValueError(f"images of {list(input_shape)} are too small for these convolutions: {self.sides}")
            self.sides.append(side)

    @property
    def out_shape(self) -> Shape:
        return (self.channels[-1], *self.sides[-1])


def encoder(plan: Convolutions, units: int, hidden: Sequence[int], activation: str, coordinates: bool) -> nn.Sequential:
    """Convolutions, each with batch norm and activation, then dense layers to `units`.  [B, C, H, W] → [B, units]"""
    make = CoordConv if coordinates else nn.Conv2d
    layers: list[nn.Module] = []
    for (before, after), shape in zip(pairwise(plan.channels), plan.layers):
        layers += [make(before, after, *shape), nn.BatchNorm2d(after), make_activation(activation)]
    return nn.Sequential(*layers, nn.Flatten(), mlp((math.prod(plan.out_shape), *hidden, units), activation))


def mirror(plan: Convolutions, units: int, hidden: Sequence[int], activation: str) -> nn.Sequential:
    """The way back: dense layers, then transposed convolutions.  [B, units] → [B, C, H, W]"""
    sizes = (units, *reversed(hidden), math.prod(plan.out_shape))
    layers: list[nn.Module] = [mlp(sizes, activation, activate_last=True), nn.Unflatten(1, plan.out_shape)]
    steps = list(zip(pairwise(plan.channels), pairwise(plan.sides), plan.layers))[::-1]
    for (after, before), (side, small), (kernel, stride, padding) in steps:
        lost = [n - ((s - 1) * stride - 2 * padding + kernel) for n, s in zip(side, small)]  # by rounding
        layers += [nn.ConvTranspose2d(before, after, kernel, stride, padding, (lost[0], lost[1]))]
        layers += [nn.BatchNorm2d(after), make_activation(activation)]
    return nn.Sequential(*layers[:-2])


def dense_decoder(shape: Shape, units: int, hidden: Sequence[int], activation: str) -> nn.Sequential:
    """[B, units] → [B, C, H, W]"""
    return nn.Sequential(mlp((units, *hidden, math.prod(shape)), activation), nn.Unflatten(1, shape))


class Upsampling(nn.Module):
    """A dense layer to a small map, then convolutions that double it, cut to size.  [B, units] → [B, C, H, W]"""

    def __init__(self, shape: Shape, units: int, channels: Sequence[int], activation: str):
        super().__init__()
        self.size = tuple(shape[1:])
        small = (channels[0], *(math.ceil(n / 2 ** len(channels)) for n in self.size))
        layers: list[nn.Module] = [nn.Linear(units, math.prod(small)), nn.Unflatten(1, small)]
        for before, after in pairwise([*channels, shape[0]]):
            layers += [nn.BatchNorm2d(before), make_activation(activation), nn.ConvTranspose2d(before, after, 4, 2, 1)]
        self.net = nn.Sequential(*layers)

    def forward(self, code: Tensor) -> Tensor:
        return self.net(code)[..., : self.size[0], : self.size[1]]


def resnet18(channels: int, units: int, activation: str) -> nn.Module:
    """torchvision's Resnet18 with another activation and `units` outputs.  [B, C, H, W] → [B, units]"""
    from dab.data.vision import torchvision

    net = torchvision.models.resnet18(num_classes=units)
    if channels != 3:
        net.conv1 = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
    return with_activation(net, activation)


def with_activation(net: nn.Module, activation: str) -> nn.Module:
    """The same network with another activation in the place of every ReLU."""
    for module in list(net.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.ReLU):
                setattr(module, name, make_activation(activation))
    return net


def bilinear(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Images at another size; smaller ones are averaged, not sampled.  [B, C, H, W] → [B, C, *size]"""
    return F.interpolate(x, size, mode="bilinear", antialias=True)
