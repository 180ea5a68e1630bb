"""The types of a configuration, and the checks that need nothing but itself."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dab.engine.targets import COMPONENTS, ConfigError, check_component, locate
from dab.estimators.why_not import why_not

__all__ = ["COMPONENTS", "ConfigError", "Schema", "TrainerSchema", "plain"]


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
    clip_apart: bool = False
    control_lr_scale: float = 1.0
    approximator_lr_scale: float = 1.0
    approximator_weight_decay: float | None = None
    approximator_lr: float | None = None
    decay_norms: bool = True
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
    label: str = ""
    seed: int = 0
    scale: str = MISSING
    dry_run: bool = False
    force: bool = False
    resume: str = "exact"
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
        raise ConfigError(omegaconf_line(error)) from error
    assert isinstance(config, dict)
    resolved = typing.cast(dict[str, Any], config)
    for name in COMPONENTS:
        check_component(name, resolved[name])
    if reason := why_not(*(locate(name, resolved[name]) for name in ("estimator", "hard"))):
        raise ConfigError(f"estimator and hard do not go together: {reason}")
    _check_trainer(resolved["trainer"])
    if resolved["logger"]["mode"] not in (modes := ("auto", "online", "offline", "disabled")):
        raise ConfigError(f"logger.mode is {resolved['logger']['mode']!r}; choose from {', '.join(modes)}")
    if resolved["resume"] not in (ways := ("exact", "anyway")):
        raise ConfigError(f"resume is {resolved['resume']!r}; choose from {', '.join(ways)}")
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
    if trainer["approximator_lr"] is not None and trainer["approximator_lr_scale"] != 1:
        raise ConfigError(
            "trainer.approximator_lr gives approximators an optimizer of their own, and trainer.approximator_lr_scale "
            "a share of the model's learning rate: leave one of them at its default"
        )
    if trainer["device"] not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"trainer.device is {trainer['device']!r}; choose from auto, cpu, cuda")
    threads = trainer["threads"]
    if threads != "auto" and not (isinstance(threads, int) and threads >= 1):
        raise ConfigError(f"trainer.threads is {threads!r}; give auto or a number of at least 1")


def omegaconf_line(error: OmegaConfBaseException, groups: Sequence[str] = ()) -> str:
    """groups: names that are allowed at the top beside the keys"""
    key, parent = error.full_key, error.parent_node
    if isinstance(parent, DictConfig) and error.key is not None and error.key not in parent:
        beside = () if "." in str(key) else groups
        return f"{key} is unknown; {allowed(str(error.key), sorted({*map(str, parent), *beside}))}"
    where = f"{key}: " if key else ""
    return where + (error.msg.splitlines()[0] if error.msg else first_line(error))


def allowed(given: str, options: Sequence[str]) -> str:
    close = difflib.get_close_matches(given, options, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}allowed: {', '.join(sorted(set(options)))}"


def first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
