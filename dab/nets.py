"""The one builder of dense networks, for approximators, control variates and models."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from dab.activations import activation as activation_named


def mlp(
    sizes: Sequence[int], activation: str, activate_last: bool = False, last_at_zero: bool = False
) -> nn.Sequential:
    """Linear layers from sizes[0] to sizes[-1] with the activation between them.  [..., sizes[0]] → [..., sizes[-1]]

    activate_last   the activation follows the last layer too
    last_at_zero    the last layer starts at zero instead of at random: so does what the network computes
    """
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), activation_named(activation)]
    if last_at_zero:
        for parameter in layers[-2].parameters():
            nn.init.zeros_(parameter)
    return nn.Sequential(*(layers if activate_last else layers[:-1]))
