"""A plain function as a hard function."""

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class Function(nn.Module):
    """Calls `function` with the options it was made with.  [B, ...] → [B, ...]"""

    function: Callable[..., Tensor]
    bits_per_unit = None

    def __init__(self, **options: Any) -> None:
        inspect.signature(type(self)).bind(**options)
        super().__init__()
        self.options = options

    def forward(self, z: Tensor) -> Tensor:
        return type(self).function(z, **self.options)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.options.items())


@functools.cache
def module_of(function: Callable[..., Tensor]) -> type[Function]:
    """The class of modules that call `function`; its options are the function's but for the first, the tensor."""
    parameters = list(inspect.signature(function).parameters.values())
    first, options = parameters[:1], parameters[1:]
    if not first or first[0].kind not in (first[0].POSITIONAL_ONLY, first[0].POSITIONAL_OR_KEYWORD):
        raise ValueError(f"{function.__name__} must take the tensor as its first argument")
    hints = typing.get_type_hints(function)

    def __init__(self: Function, **given: Any) -> None:
        Function.__init__(self, **given)

    options = [option for option in options if option.kind in (option.POSITIONAL_OR_KEYWORD, option.KEYWORD_ONLY)]
    __init__.__annotations__ = {option.name: hints[option.name] for option in options if option.name in hints}
    signature = inspect.Signature([option.replace(kind=option.KEYWORD_ONLY) for option in options])
    content = {"function": staticmethod(function), "__init__": __init__, "__signature__": signature}
    return type(function.__name__, (Function,), {**content, "__module__": function.__module__})
