"""From a composed Hydra config to a checked plain dict, and from a mistake to one clear line."""

from __future__ import annotations

import difflib
import inspect
import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.utils import get_object
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

ALLOWED_TARGETS = ("dab.", "torch.")
COMPONENTS = ("data", "hard", "approximator", "estimator", "model", "task", "optimizer", "schedule")


class ConfigError(Exception):
    """A mistake in the configuration, told in one line."""


@dataclass
class TrainerSchema:
    steps: int = MISSING
    batch_size: int = MISSING
    eval_batch_size: int = 4096
    eval_every: int = MISSING
    log_every: int = MISSING
    save_every: int = MISSING
    clip_norm: float | None = None
    clip_value: float | None = None
    control_lr_scale: float = 1.0
    amp: bool = False
    compile: bool = False
    device: str = "auto"
    devices: int = 1
    threads: Any = "auto"


@dataclass
class LoggerSchema:
    mode: str = "auto"
    project: str = "dab"
    entity: str | None = None


@dataclass
class PathsSchema:
    runs: str = "runs"
    data: str = "data"


@dataclass
class Schema:
    """Types of everything that is not a component; components are checked against their class's signature."""

    name: str = MISSING
    seed: int = 0
    scale: str = MISSING
    dry_run: bool = False
    force: bool = False
    budget: dict[str, Any] = field(default_factory=dict)
    paths: PathsSchema = field(default_factory=PathsSchema)
    trainer: TrainerSchema = field(default_factory=TrainerSchema)
    logger: LoggerSchema = field(default_factory=LoggerSchema)
    data: Any = MISSING
    hard: Any = MISSING
    approximator: Any = MISSING
    estimator: Any = MISSING
    model: Any = MISSING
    task: Any = MISSING
    optimizer: Any = MISSING
    schedule: Any = MISSING


def plain(cfg: DictConfig) -> dict[str, Any]:
    """The resolved config as plain Python, checked; raises ConfigError."""
    try:
        typed = OmegaConf.merge(OmegaConf.structured(Schema), cfg)
        config = OmegaConf.to_container(typed, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(_omegaconf_line(error)) from error
    assert isinstance(config, dict)
    resolved = typing.cast(dict[str, Any], config)
    for name in COMPONENTS:
        check_component(name, resolved[name])
    _check_trainer(resolved["trainer"])
    if resolved["logger"]["mode"] not in (modes := ("auto", "online", "offline", "disabled")):
        raise ConfigError(f"logger.mode is {resolved['logger']['mode']!r}; choose from {', '.join(modes)}")
    return resolved


def _check_trainer(trainer: dict[str, Any]) -> None:
    for name in ("steps", "batch_size", "eval_batch_size", "eval_every", "log_every", "save_every", "devices"):
        if trainer[name] < 1:
            raise ConfigError(f"trainer.{name} must be at least 1, got {trainer[name]}")
    if trainer["batch_size"] % trainer["devices"]:
        raise ConfigError(
            f"trainer.batch_size={trainer['batch_size']} is the global batch and cannot be split over "
            f"trainer.devices={trainer['devices']}: choose a multiple"
        )
    if trainer["clip_norm"] is not None and trainer["clip_value"] is not None:
        raise ConfigError("trainer.clip_norm and trainer.clip_value exclude each other: set one of them to null")
    if trainer["device"] not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"trainer.device is {trainer['device']!r}; choose from auto, cpu, cuda")
    threads = trainer["threads"]
    if threads != "auto" and not (isinstance(threads, int) and threads >= 1):
        raise ConfigError(f"trainer.threads is {threads!r}; give auto or a number of at least 1")


def check_component(path: str, node: Any) -> None:
    """Every option of a `_target_` node exists in its signature and has a fitting type."""
    target = locate(path, node)
    parameters = inspect.signature(target).parameters
    hints = _hints(target)
    for option, value in node.items():
        if option == "_target_":
            continue
        if option not in parameters:
            raise ConfigError(f"{path}.{option} is unknown; {node['_target_']} takes {', '.join(parameters)}")
        if option in hints and not fits(value, hints[option]):
            raise ConfigError(f"{path}.{option}={value!r} has the wrong type; allowed: {_hint_name(hints[option])}")


def locate(path: str, node: Any) -> Any:
    """The class or function a `_target_` node names."""
    if not isinstance(node, dict) or "_target_" not in node:
        raise ConfigError(f"{path} needs a _target_, got {node!r}; choose one of the files in conf/{path}/")
    target = node["_target_"]
    if not target.startswith(ALLOWED_TARGETS):
        raise ConfigError(
            f"{path}._target_ is {target!r}; only names starting with {' or '.join(ALLOWED_TARGETS)} are built"
        )
    try:
        return get_object(target)
    except Exception as error:
        raise ConfigError(f"{path}._target_ {target!r} cannot be imported: {str(error).splitlines()[-1]}") from error


def _hints(target: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(target.__init__ if inspect.isclass(target) else target)
    except (NameError, TypeError):
        return {}  # annotations of foreign classes that do not resolve are simply not checked


def fits(value: Any, hint: Any) -> bool:
    """Whether a plain YAML value can serve where `hint` is asked for; unknown hints accept anything."""
    origin = get_origin(hint)
    if origin is Literal:
        return value in get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, option) for option in get_args(hint))
    if hint is type(None):
        return value is None
    if hint is bool or hint is str:
        return isinstance(value, hint)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if origin in (tuple, list, Sequence):
        items = [option for option in get_args(hint) if option is not Ellipsis]
        return isinstance(value, list) and all(any(fits(v, item) for item in items) for v in value)
    return True


def _hint_name(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " | ".join(map(str, get_args(hint)))
    return hint.__name__ if inspect.isclass(hint) else str(hint).replace("typing.", "")


def check_command_line(config_dir: Path, config_name: str, overrides: Sequence[str], multirun: bool = False) -> None:
    """Compose what the command line asks for, every sweep value once, and raise ConfigError for any mistake.

    Hydra would report the same mistakes over several lines and without the names that are allowed.
    """
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except OverrideParseException as error:
        raise ConfigError(_first_line(error)) from error
    for override in parsed:
        if override.is_sweep_override() and not multirun:
            raise ConfigError(f"{override.input_line} names several values: add -m to train one run for each")
    values = [list(o.sweep_string_iterator()) if o.is_sweep_override() else [] for o in parsed]
    base = [f"{o.get_key_element()}={v[0]}" if v else str(o.input_line) for o, v in zip(parsed, values)]
    swept = ((i, f"{o.get_key_element()}={v}") for i, (o, vs) in enumerate(zip(parsed, values)) for v in vs[1:])
    variants: Iterator[list[str]] = chain([base], ([*base[:i], line, *base[i + 1 :]] for i, line in swept))
    with initialize_config_dir(str(config_dir.resolve()), version_base="1.3"):
        for variant in variants:
            plain(_compose(config_name, variant))


def _compose(config_name: str, overrides: list[str]) -> DictConfig:
    try:
        return compose(config_name, overrides)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_compose_line(error)) from error


def _compose_line(error: Exception) -> str:
    if isinstance(error, MissingConfigException) and error.options is not None and error.missing_cfg_file:
        group, _, choice = str(error.missing_cfg_file).rpartition("/")
        return f"{group}={choice} does not exist; {_allowed(choice, error.options)}"
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException):
        return _omegaconf_line(cause)
    line = _first_line(error)
    if "No match in the defaults list" in str(error):
        name = line.split("'")[1]
        return f"{name} is neither a config group nor a key; {_allowed(name, _groups())}"
    return line


def _omegaconf_line(error: OmegaConfBaseException) -> str:
    key, parent = error.full_key, error.parent_node
    if isinstance(parent, DictConfig) and error.key is not None and error.key not in parent:
        groups = [] if "." in str(key) else _groups()
        return f"{key} is unknown; {_allowed(str(error.key), sorted({*map(str, parent), *groups}))}"
    where = f"{key}: " if key else ""
    return where + (error.msg.splitlines()[0] if error.msg else _first_line(error))


def _groups() -> list[str]:
    return [g for g in GlobalHydra.instance().config_loader().list_groups("") if g != "hydra"]


def _allowed(given: str, options: Sequence[str]) -> str:
    close = difflib.get_close_matches(given, options, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}allowed: {', '.join(sorted(set(options)))}"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
