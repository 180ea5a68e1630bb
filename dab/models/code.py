"""What a model needs to know of the estimator in its slot."""

from __future__ import annotations

from torch import nn

from dab.hard import out_shape


def shape_after(estimator: nn.Module, code_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that a sample of `code_shape` has after the estimator: a hard function may change it."""
    hard = getattr(estimator, "hard", None)
    return tuple(code_shape) if hard is None else out_shape(hard, code_shape)
