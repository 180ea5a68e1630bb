"""What a configuration may name, and with which options.

A configuration is data: a `_target_` is looked up, never followed. It names one object of one module, and the object
must be of the kind that its component needs: a class or an approximator's builder of this package, or an optimizer of
torch.optim.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn
from torch.optim import Optimizer

from dab.engine.schedules import Schedule
from dab.ranges import NotNegative, Positive, ShareBelow1, fits, hints_of, refusal
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
    return is_builder and found.__module__.startswith("dab.approximators")


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

AT_RUN_TIME = {
    "data": ("folder",),
    "approximator": ("hard", "in_shape"),
    "estimator": ("hard", "approximator", "in_shape", "categorical"),
    "model": ("estimator", "input_shape", "code_shape", "hard"),
    "task": ("model",),
    "optimizer": ("params",),
}

# Classes of torch.optim, whose signatures say types alone.
OPTIMIZER = {
    "lr": Positive,
    "betas": tuple[ShareBelow1, ShareBelow1],
    "eps": Positive,
    "weight_decay": NotNegative,
    "momentum": ShareBelow1,
    "dampening": ShareBelow1,
    "alpha": ShareBelow1,
    "maximize": Literal[False],  # all tasks have losses
}


def locate(component: str, node: Any) -> Any:
    """The class or builder that the `_target_` of a component names."""
    if not isinstance(node, dict) or "_target_" not in node:
        raise ConfigError(f"{component} needs a _target_, got {node!r}; choose one of the files in conf/{component}/")
    target, kind = str(node["_target_"]), KINDS[component]
    module_name, _, name = target.rpartition(".")
    refused = ConfigError(f"{component}._target_ is {target!r}, which is not {kind.what}; see conf/{component}/")
    if not _inside(module_name, kind.package):
        raise refused
    try:
        # One attribute of one module: an attribute of an attribute leads out of the package.
        found = vars(importlib.import_module(module_name)).get(name)
    except ImportError as error:
        raise ConfigError(f"{component}._target_ {target!r} cannot be imported: {error}") from error
    if found is None:
        raise ConfigError(f"{component}._target_ {target!r} cannot be imported: {module_name} has no {name}")
    if not _inside(getattr(found, "__module__", ""), kind.package) or not kind.accepts(found):
        raise refused
    return found


def _inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def takes(component: str, node: dict[str, Any], option: str) -> bool:
    """Whether the target of a component accepts `option`, e.g. an estimator an approximator."""
    return option in inspect.signature(locate(component, node)).parameters


def options_of(component: str, node: dict[str, Any]) -> dict[str, Any]:
    """The options of a component: those given, and the defaults of its signature for the rest."""
    parameters = inspect.signature(locate(component, node)).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    return defaults | {name: value for name, value in node.items() if name != "_target_"}


def settable(component: str, node: dict[str, Any]) -> dict[str, Any]:
    """What a configuration may set of a component, by name: the annotation, which says the range.

    Not what exists only at run time, which the engine gives.
    """
    target = locate(component, node)
    hints, given = hints_of(target), AT_RUN_TIME.get(component, ())
    ranges = OPTIMIZER if component == "optimizer" else {}
    parameters = inspect.signature(target).parameters.values()
    named = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return {name: ranges.get(name, hints.get(name, Any)) for name in named if name not in given}


def check_component(component: str, node: Any) -> None:
    """Every option of a `_target_` node exists in its signature and is in its range."""
    options = settable(component, node)
    for option, value in node.items():
        if option == "_target_":
            continue
        if option not in options:
            known = ", ".join(options) or "no options"
            raise ConfigError(f"{component}.{option} is unknown; {node['_target_']} takes {known}")
        if not fits(value, options[option]):
            raise ConfigError(refusal(f"{component}.{option}", value, options[option]))
