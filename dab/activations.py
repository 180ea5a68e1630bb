"""Activations by name."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

from torch import nn

from dab.choice import one_of
from dab.ranges import OneOf

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "leaky_relu": partial(nn.LeakyReLU, 0.3),
    "identity": nn.Identity,
}

Activation = Annotated[str, OneOf(tuple(ACTIVATIONS))]


def activation(name: str) -> nn.Module:
    """A new activation module: tanh, relu, elu, gelu, leaky_relu (slope 0.3, as in the DisARM paper) or identity."""
    return ACTIVATIONS[one_of("activation", name, ACTIVATIONS)]()
