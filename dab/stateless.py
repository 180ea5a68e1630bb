"""A module with other tensors in the place of its own."""

from typing import Any

from torch import Tensor, nn
from torch.func import functional_call


def parameters_by_name(module: nn.Module) -> dict[str, Tensor]:
    """Every parameter of every distinct module, under one name for each module that holds it.

    `named_parameters` names a tied parameter once, so that the other module would keep its own; and if a module is
    used in two places, `functional_call` with tied names puts the first replacement back in place of the original.
    """
    return dict(
        named
        for prefix, part in module.named_modules()
        for named in part.named_parameters(prefix, recurse=False, remove_duplicate=False)
    )


def buffers_by_name(module: nn.Module) -> dict[str, Tensor]:
    """The same for buffers."""
    return dict(
        named
        for prefix, part in module.named_modules()
        for named in part.named_buffers(prefix, recurse=False, remove_duplicate=False)
    )


def call_with(module: nn.Module, tensors: dict[str, Tensor], *inputs: Any) -> Any:
    """module(*inputs) with `tensors`, named as above, in the place of its own."""
    return functional_call(module, tensors, inputs, tie_weights=False)
