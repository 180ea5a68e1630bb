"""Inference copies: what only training needs is left out."""

import copy
from typing import TypeVar

from torch import nn

Model = TypeVar("Model", bound=nn.Module)


def strip(model: Model) -> Model:
    """A copy of `model` in evaluation mode without approximators: same outputs, fewer parameters, exportable.

    Every module with a `strip_()` method is asked to drop what only training needs. The model itself is not changed.
    """
    stripped = copy.deepcopy(model).eval()
    for module in list(stripped.modules()):
        drop = getattr(module, "strip_", None)
        if callable(drop):
            drop()
    return stripped
