"""What a configuration may name, and with which options.

A configuration is data: a `_target_` is looked up, never followed. It names one object of one module, and the object
must be of the kind that its component needs: a class or an approximator's builder of this package, or an optimizer of
torch.optim; or the same of a package that the command line trusts, where a plain function is a hard function too.
"""

from __future__ import annotations

import importlib
import inspect
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from torch import nn
from torch.optim import Optimizer

from dab.engine.schedules import Schedule
from dab.engine.trust import hint, inside, is_trusted
from dab.hard.function import module_of
from dab.tasks.task import Task


class ConfigError(Exception):
    """A mistake in the configuration, told in one line."""


@dataclass(frozen=True)
class Kind:
    """What may stand in a component."""

    what: str
    accepts: Callable[[Any], bool]
    package: str = "dab"


def _class_of(base: type, *methods: str) -> Callable[[Any], bool]:
    def accepts(found: Any) -> bool:
        return (
            inspect.isclass(found) and issubclass(found, base) and all(callable(getattr(found, m, 0)) for m in methods)
        )

    return accepts


def _builds_approximators(found: Any) -> bool:
    is_builder = inspect.isfunction(found) and {"hard", "in_shape"} <= set(inspect.signature(found).parameters)
    return is_builder and (inside(found.__module__, "dab.approximators") or is_trusted(found.__module__))


KINDS = {
    "data": Kind("a dataset class of dab", _class_of(object, "batch", "batches")),
    "hard": Kind("a module class of dab", _class_of(nn.Module)),
    "approximator": Kind("a builder of dab.approximators", _builds_approximators),
    "estimator": Kind("a module class of dab", _class_of(nn.Module)),
    "model": Kind("a module class of dab with a code_shape", _class_of(nn.Module, "code_shape")),
    "task": Kind("a task class of dab", _class_of(Task)),
    "optimizer": Kind("an optimizer class of torch.optim", _class_of(Optimizer), package="torch.optim"),
    "schedule": Kind("a schedule class of dab", _class_of(Schedule)),
}
COMPONENTS = tuple(KINDS)


def locate(component: str, node: Any) -> Any:
    """The class or builder that the `_target_` of a component names."""
    if not isinstance(node, dict) or "_target_" not in node:
        raise ConfigError(f"{component} needs a _target_, got {node!r}; choose one of the files in conf/{component}/")
    target, kind = str(node["_target_"]), KINDS[component]
    module_name, _, name = target.rpartition(".")
    refused = ConfigError(
        f"{component}._target_ is {target!r}, which is not {kind.what}; see conf/{component}/{hint(target)}"
    )
    if not _allowed(module_name, kind):
        raise refused
    try:
        # One attribute of one module: an attribute of an attribute leads out of the package.
        found = vars(importlib.import_module(module_name)).get(name)
    except Exception as error:  # somebody's own module may fail in any way
        raise ConfigError(f"{component}._target_ {target!r} cannot be imported: {_reason(error)}") from error
    if found is None:
        raise ConfigError(f"{component}._target_ {target!r} cannot be imported: {module_name} has no {name}")
    if not _allowed(getattr(found, "__module__", None) or "", kind):
        raise refused
    if component == "hard" and inspect.isfunction(found) and is_trusted(found.__module__):
        return _as_module(found)
    if not kind.accepts(found):
        raise refused
    return found


def _allowed(module: str, kind: Kind) -> bool:
    return inside(module, kind.package) or is_trusted(module)


def _as_module(function: Callable[..., Any]) -> type[nn.Module]:
    try:
        return module_of(function)
    except (NameError, TypeError, ValueError) as error:
        raise ConfigError(f"hard: {error}") from error


def _reason(error: Exception) -> str:
    known = isinstance(error, ImportError)
    return " ".join(f"{'' if known else type(error).__name__ + ': '}{error}".split())


def takes(component: str, node: dict[str, Any], option: str) -> bool:
    """Whether the target of a component accepts `option`, e.g. an estimator an approximator."""
    return option in inspect.signature(locate(component, node)).parameters


def options_of(component: str, node: dict[str, Any]) -> dict[str, Any]:
    """The options of a component: those given, and the defaults of its signature for the rest."""
    parameters = inspect.signature(locate(component, node)).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    return defaults | {name: value for name, value in node.items() if name != "_target_"}


def check_component(component: str, node: Any) -> None:
    """Every option of a `_target_` node exists in its signature and has a fitting type."""
    target = locate(component, node)
    parameters = inspect.signature(target).parameters
    hints = _hints(target)
    for option, value in node.items():
        if option == "_target_":
            continue
        if option not in parameters:
            accepted = f"takes {', '.join(parameters)}" if parameters else "takes no options"
            leave = f": ~{component}.{option} leaves it out" if is_trusted(str(node["_target_"])) else ""
            raise ConfigError(f"{component}.{option} is unknown; {node['_target_']} {accepted}{leave}")
        if option in hints and not fits(value, hints[option]):
            allowed = _hint_name(hints[option])
            raise ConfigError(f"{component}.{option}={value!r} has the wrong type; allowed: {allowed}")


def _hints(target: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(target.__init__ if inspect.isclass(target) else target)
    except (NameError, TypeError):
        return {}  # annotations of foreign classes that do not resolve are simply not checked


def fits(value: Any, hint: Any) -> bool:
    """Whether a plain YAML value can serve where `hint` is asked for."""
    origin = get_origin(hint)
    if origin is Literal:
        return value in get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, option) for option in get_args(hint))
    if origin in (tuple, list, Sequence):
        return isinstance(value, list) and _items_fit(value, get_args(hint), fixed=origin is tuple)
    if hint is None or hint is type(None):
        return value is None
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    # A tensor, a module: nothing that YAML can say. Hints that are no classes (Any, a type variable) accept anything.
    return isinstance(value, hint) if inspect.isclass(hint) else origin is None


def _items_fit(values: list[Any], hints: tuple[Any, ...], fixed: bool) -> bool:
    if not fixed or Ellipsis in hints:
        return all(fits(value, hints[0]) for value in values)
    return len(values) == len(hints) and all(map(fits, values, hints))


def _hint_name(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " | ".join(map(str, get_args(hint)))
    return hint.__name__ if inspect.isclass(hint) else str(hint).replace("typing.", "")
