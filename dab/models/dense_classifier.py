"""A dense network for images: what a hard function is worth where no convolution helps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import nn

from dab.models.classifier import Classifier
from dab.models.code import shape_after
from dab.nets import mlp


class DenseClassifier(Classifier):
    """Dense layers, each with its activation (also the last, before the hard function), and one linear read-out.

    classes     as many as the data has
    widths      of the layers; the last one is the code that the hard function sees
    """

    def __init__(
        self,
        estimator: nn.Module,
        input_shape: tuple[int, ...],
        classes: int = 10,
        widths: Sequence[int] = (512, 512, 256),
        activation: str = "elu",
        input_shift: float = 0.5,
        input_scale: float = 4.0,
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
        if not widths:
            raise ValueError("widths needs at least one layer, the code that the hard function sees; got none")
        return (widths[-1],)
