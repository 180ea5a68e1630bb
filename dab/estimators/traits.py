"""What a layer estimator tells of itself: how often it calls the hard function, and whether its value is hard.

calls           of the hard function for every sample of a training step, forward and backward
hard_forward    False: in training y is a smoothed value; in evaluation it is always hard
"""

from typing import NamedTuple

from torch import nn


class Calls(NamedTuple):
    forward: int
    backward: int = 0


def calls_of(layer: nn.Module) -> Calls:
    """What the layer says, or one call forward: the value itself."""
    return getattr(layer, "calls", Calls(1))


def hard_forward(layer: nn.Module) -> bool:
    return getattr(layer, "hard_forward", True)
