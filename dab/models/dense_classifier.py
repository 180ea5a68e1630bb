"""A dense network for images: what a hard function is worth where no convolution helps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import nn

from dab.activations import Activation
from dab.models.classifier import Classifier
from dab.models.code import shape_after
from dab.nets import mlp
from dab.ranges import Counts, Finite, Positive, Several, ranged


class DenseClassifier(Classifier):
    """Dense layers, each with its activation (also the last, before the hard function), and one linear read-out.

    classes     as many as the data has
    widths      of the layers; the last one is the code that the hard function sees
    """

    @ranged
    def __init__(
        self,
        estimator: nn.Module,
        input_shape: tuple[int, ...],
        classes: Several = 10,
        widths: Counts = (512, 512, 256),
        activation: Activation = "elu",
        input_shift: Finite = 0.5,
        input_scale: Positive = 4.0,
    ):
        layers = mlp((math.prod(input_shape), *widths), activation, activate_last=True)
        units = math.prod(shape_after(estimator, (widths[-1],)))
        read_out = nn.Sequential(nn.Flatten(), nn.Linear(units, classes))
        encoder = nn.Sequential(nn.Flatten(), layers)
        super().__init__(encoder, estimator, read_out, classes, input_shift, input_scale)

    @staticmethod
    def code_shape(
        input_shape: tuple[int, ...], hard: nn.Module, widths: Sequence[int], **_: object
    ) -> tuple[int, ...]:
        return (widths[-1],)
