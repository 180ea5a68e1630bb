"""Activations by name."""

from torch import nn

from dab.choice import one_of

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "identity": nn.Identity,
}


def activation(name: str) -> nn.Module:
    """A new activation module: tanh, relu, elu, gelu or identity."""
    return ACTIVATIONS[one_of("activation", name, ACTIVATIONS)]()
