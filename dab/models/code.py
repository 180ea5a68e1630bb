"""What a model needs to know of the estimator in its slot."""

from __future__ import annotations

import math

from torch import nn

from dab.hard import out_shape


def width_after(estimator: nn.Module, code_shape: tuple[int, ...]) -> int:
    """How many units come out of the estimator for a sample of `code_shape`: a hard function may change the shape."""
    hard = getattr(estimator, "hard", None)
    return math.prod(code_shape if hard is None else out_shape(hard, code_shape))
