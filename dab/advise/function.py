"""A callable by name, torch or numpy, as a hard function; what is wrong with it, in a line."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dab.keys import generator, seed_device

ROWS = 8  # of a batch that is only looked at


class FunctionError(ValueError):
    """The function cannot be advised on; its text is one line for the person who named it."""


class FromNumpy(nn.Module):
    """A function of arrays as one of tensors.  [B, ...] → [B, ...]"""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, z: Tensor) -> Tensor:
        return torch.as_tensor(self.function(z.detach().numpy()), dtype=z.dtype)


class FromTorch(nn.Module):
    """A function of tensors as a module, its output as floating-point numbers.  [B, ...] → [B, ...]"""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, z: Tensor) -> Tensor:
        return self.function(z).to(z.dtype)


@dataclass(frozen=True)
class Named:
    """A function that somebody named, as a hard function, and the lines of code that make it one again."""

    name: str  # module:function
    hard: nn.Module
    imports: str
    code: str  # what the hard function is, after the imports


def named(name: str, in_shape: tuple[int, ...], scale: float = 1.0) -> Named:
    """`module:function`, found from the current folder or the environment, tried on a batch of samples `in_shape`.

    scale   how large its inputs are
    """
    function, attribute = _found(name)
    imports = f"from {name.partition(':')[0]} import {attribute.partition('.')[0]}"
    z = scale * torch.randn(ROWS, *in_shape, generator=generator("look"))
    if inspect.isclass(function) and issubclass(function, nn.Module):
        function, attribute = _made(name, function), f"{attribute}()"
    takes, returned = _taken(name, function, z)
    hard: nn.Module
    if takes == "array":
        hard = FromNumpy(function)
        code = f"hard = lambda z: torch.as_tensor({attribute}(z.detach().numpy()), dtype=z.dtype)"
    elif not returned.is_floating_point():
        hard, code = FromTorch(function), f"hard = lambda z: {attribute}(z).to(z.dtype)"
    else:
        hard, code = function if isinstance(function, nn.Module) else FromTorch(function), f"hard = {attribute}"
    _check(name, hard, z)
    return Named(name, hard, imports, code)


def _found(name: str) -> tuple[Any, str]:
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise FunctionError(f"name a function as module:function, for example my_module:my_function, given {name!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever somebody's module does when it is imported
        raise FunctionError(
            f"cannot import {module_name}: {_line(error)} (looked here and in the environment)"
        ) from error
    function: Any = module
    for part in attribute.split("."):
        if not hasattr(function, part):
            has = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
            raise FunctionError(f"{module_name} has no {attribute}; it has {', '.join(has[:12]) or 'no functions'}")
        function = getattr(function, part)
    if not callable(function):
        raise FunctionError(f"{name} is a {type(function).__name__}, which cannot be called: name a function")
    return function, attribute


def _made(name: str, kind: type[nn.Module]) -> nn.Module:
    try:
        return kind()
    except Exception as error:
        raise FunctionError(f"{name} is a class that cannot be made without arguments: {_line(error)}") from error


def _taken(name: str, function: Callable[[Any], Any], z: Tensor) -> tuple[str, Any]:
    """Whether it takes tensors or arrays, and what it returns for a batch.

    First a tensor that wants a gradient: one of torch's functions takes it, and numpy refuses what it would take else.
    """
    attempts: dict[str, Callable[[], Any]] = {
        "gradient": lambda: z.clone().requires_grad_() * 1,
        "array": lambda: z.numpy().copy(),  # fails where there is no numpy
        "tensor": z.clone,
    }
    errors: dict[str, Exception] = {}
    others: list[Any] = []
    for kind, make in attempts.items():
        try:
            given = make()
            returned = _called(function, given)
        except Exception as error:  # whatever somebody's function does
            errors[kind] = error
            continue
        if _is_numbers(returned, kind == "array"):
            if not torch.equal(torch.as_tensor(given).detach(), z):
                raise FunctionError(f"{name} changes its input: it must return its output and leave the input as it is")
            return "array" if kind == "array" else "tensor", returned
        others.append(returned)
    if others:
        other = others[-1]
        what = f"an array of {other.dtype}" if hasattr(other, "dtype") else f"a {type(other).__name__}"
        raise FunctionError(f"{name} returned {what}: it must return one array or tensor of numbers")
    # An array has no method of a tensor: then what it said of the tensor is what matters.
    told = errors["tensor" if isinstance(errors["array"], AttributeError) else "array"]
    raise FunctionError(f"{name} raised {type(told).__name__} on a batch {list(z.shape)}: {_line(told)}") from told


def _called(function: Callable[[Any], Any], z: Any) -> Any:
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what matters of it is told by other means
        seed_device(0, torch.device("cpu"))
        return function(z)


def _is_numbers(returned: Any, from_array: bool) -> bool:
    if isinstance(returned, Tensor):
        return not returned.is_complex()
    if not from_array:
        return False
    import numpy as np

    return isinstance(returned, np.ndarray | np.generic) and returned.dtype.kind in "fiub"


def _check(name: str, hard: nn.Module, z: Tensor) -> None:
    with torch.no_grad():
        h = _called(hard, z.clone())
    if h.dim() == 0 or len(h) != len(z):
        raise FunctionError(
            f"{name} turned a batch {list(z.shape)} into {list(h.shape)}: it must keep the batch size, {len(z)}, first"
        )
    if h.numel() == 0:
        raise FunctionError(f"{name} returned an empty output, {list(h.shape)}, for a batch {list(z.shape)}")
    if not h.isfinite().all():
        broken = int((~h.isfinite()).flatten(1).any(1).sum()) if h.dim() > 1 else int((~h.isfinite()).sum())
        raise FunctionError(
            f"{name} returned NaN or infinity for {broken} of {len(z)} normal samples: bound its input inside it, "
            "or give the size of its inputs with --scale"
        )


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
