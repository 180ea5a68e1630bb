"""The types of a configuration, and the checks that need nothing but itself."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Annotated, Any, Literal

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from dab.engine.targets import COMPONENTS, ConfigError, check_component, locate
from dab.estimators.why_not import why_not
from dab.ranges import (
    Constraint,
    Count,
    Key,
    NotEmpty,
    NotNegative,
    OneOf,
    Positive,
    Range,
    Text,
    When,
    fits,
    hints_of,
    refusal,
)

__all__ = ["COMPONENTS", "ConfigError", "Schema", "TrainerSchema", "plain"]


class FolderName(Constraint):
    """Of a run, below paths.runs: nothing that leads out of it, and nothing that a shell would have to be told of."""

    def allows(self, value: Any) -> bool:
        parts = value.split("/")
        return all(re.fullmatch(r"[\w.+=,-]{1,100}", part) and not part.startswith(".") for part in parts)

    def __str__(self) -> str:
        return "of letters, digits and _.+=,- with / between folders, none of which starts with a dot"


@dataclass
class TrainerSchema:
    steps: Count = MISSING
    batch_size: Count = MISSING
    eval_batch_size: Count = 4096
    eval_every: Count = MISSING
    log_every: Count = MISSING
    save_every: Count = MISSING
    clip_norm: Positive | None = None
    clip_value: Positive | None = None
    clip_apart: Annotated[bool, When("clip_norm")] = False
    control_lr_scale: Positive = 1.0
    approximator_lr_scale: Positive = 1.0
    approximator_weight_decay: NotNegative | None = None
    approximator_lr: Positive | None = None
    decay_norms: bool = True
    accumulate: Count = 1
    amp: bool = False
    compile: bool = False
    device: Annotated[str, OneOf(("auto", "cpu", "cuda"))] = "auto"
    devices: Annotated[int, Range(at_least=1, at_most=256)] = 1
    threads: Annotated[Any, Literal["auto"] | Count] = "auto"
    timeout: Positive = 30.0


@dataclass
class LoggerSchema:
    mode: Annotated[str, OneOf(("auto", "online", "offline", "disabled"))] = "auto"
    project: Text = "dab"
    entity: Text | None = None


@dataclass
class PathsSchema:
    runs: Text = "runs"
    data: Text = "data"


@dataclass
class ClusterSchema:
    """Where the jobs of a sweep and the cells of a study run; each file of conf/cluster has those that it knows."""

    engine: Annotated[str, OneOf(("local", "pool", "joblib", "slurm", "ray"))] = MISSING
    at_once: Count = 1
    partition: Text | None = None
    account: Text | None = None
    qos: Text | None = None
    minutes: Count = MISSING
    warning: Count = MISSING
    gpus: Annotated[int, Range(at_least=0, at_most=256)] = 0
    cpus: Count = 1
    memory: Positive | None = None
    address: Text = MISSING
    restarts: Annotated[int, Range(at_least=0, at_most=1000)] = 0


@dataclass
class Schema:
    """Ranges of everything that is not a component; components are checked against their class's signature.

    Defaults are those of conf/; here stands what a run had before an option was there.
    """

    name: Annotated[str, FolderName()] = MISSING
    label: str = ""
    seed: Key = 0
    scale: Text = MISSING
    dry_run: bool = False
    force: bool = False
    resume: Annotated[str, OneOf(("exact", "anyway"))] = "exact"
    trust: Annotated[Any, Text | Annotated[Sequence[Text], NotEmpty()] | None] = None
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
    _refuse_resolvers(OmegaConf.to_container(cfg, resolve=False))
    try:
        _check_options(OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True), Schema)
        typed = OmegaConf.merge(OmegaConf.structured(Schema), cfg)  # fills in defaults; 1 for a float becomes 1.0
        config = OmegaConf.to_container(typed, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(omegaconf_line(error)) from error
    assert isinstance(config, dict)
    resolved = typing.cast(dict[str, Any], config)
    _check_budget(resolved["budget"])
    for name in COMPONENTS:
        check_component(name, resolved[name])
    if reason := why_not(*(locate(name, resolved[name]) for name in ("estimator", "hard"))):
        raise ConfigError(f"estimator and hard do not go together: {reason}")
    model = locate("model", resolved["model"])
    if resolved["optimizer"].get("lr") == 0 and not getattr(model, "by_hand", False):
        raise ConfigError(f"optimizer.lr must be a number > 0, given 0: {model.__name__} is there to be trained")
    _check_trainer(resolved["trainer"])
    return resolved


def check_cluster(cfg: DictConfig) -> dict[str, Any]:
    """What is said of where jobs run, as plain Python; raises ConfigError."""
    options = OmegaConf.to_container(cfg.cluster, resolve=False)
    _refuse_resolvers(options, "cluster")
    _check_options(options, ClusterSchema, "cluster.")
    return typing.cast(dict[str, Any], options)


def _refuse_resolvers(node: Any, path: str = "") -> None:
    """`${name}` is another value of the configuration; `${name:...}` is a call, and what it finds would be recorded."""
    if isinstance(node, dict | list):
        for name, value in node.items() if isinstance(node, dict) else enumerate(node):
            _refuse_resolvers(value, f"{path}.{name}" if path else str(name))
    elif isinstance(node, str) and (call := re.search(r"\$\{\s*([\w.]+)\s*:", node)):
        raise ConfigError(
            f"{path} asks for ${{{call[1]}:...}}, and its answer would stand in records and in W&B: write the value "
            "itself, or refer to another key with ${key}"
        )


def _check_options(given: Any, schema: type, where: str = "") -> None:
    """Every key is known and every value in its range."""
    if not isinstance(given, dict):
        raise ConfigError(f"{where.rstrip('.')} must be a group of options, given {given!r}")
    hints = hints_of(schema)
    for key, value in given.items():
        if key in ("experiment", "recipe"):
            raise ConfigError(f"the file of {key}= lacks its package: begin it with the line # @package _global_")
        if key not in hints:
            raise ConfigError(f"{where}{key} is unknown; {allowed(str(key), list(hints))}")
        if is_dataclass(hints[key]):
            _check_options(value, hints[key], f"{where}{key}.")
        elif not fits(value, hints[key]):
            raise ConfigError(refusal(f"{where}{key}", value, hints[key]))


def _check_budget(budget: dict[str, Any]) -> None:
    """Of every scale, also of those that are not chosen. Other keys are checked where they are used."""
    for scale, column in budget.items():
        if not isinstance(column, dict):
            raise ConfigError(f"budget.{scale} must be a group of options, given {column!r}")
        for key, hint in {"steps": Count, "batch_size": Count, "lr": NotNegative}.items():
            if key in column and not fits(column[key], hint):
                raise ConfigError(refusal(f"budget.{scale}.{key}", column[key], hint))


def check_shares(trainer: dict[str, Any], workers: int) -> None:
    """Whether the batch can be split over so many workers, and each share into its parts."""
    parts = trainer["accumulate"]
    if trainer["batch_size"] % (workers * parts):
        each = f", in {parts} parts each (trainer.accumulate)" if parts > 1 else ""
        raise ConfigError(
            f"trainer.batch_size={trainer['batch_size']} is the global batch and cannot be split over "
            f"trainer.devices={workers}{each}: choose a multiple"
        )


def _check_trainer(trainer: dict[str, Any]) -> None:
    check_shares(trainer, trainer["devices"])
    if trainer["clip_norm"] is not None and trainer["clip_value"] is not None:
        raise ConfigError("trainer.clip_norm and trainer.clip_value exclude each other: set one of them to null")
    if trainer["approximator_lr"] is not None and trainer["approximator_lr_scale"] != 1:
        raise ConfigError(
            "trainer.approximator_lr gives approximators an optimizer of their own, and trainer.approximator_lr_scale "
            "a share of the model's learning rate: leave one of them at its default"
        )


def omegaconf_line(error: OmegaConfBaseException, groups: Sequence[str] = ()) -> str:
    """groups: names that are allowed at the top beside the keys"""
    key, parent = error.full_key, error.parent_node
    unknown = isinstance(error, ConfigKeyError | ConfigAttributeError)
    if unknown and isinstance(parent, DictConfig) and error.key is not None and error.key not in parent:
        beside = () if "." in str(key) else groups
        return f"{key} is unknown; {allowed(str(error.key), sorted({*map(str, parent), *beside}))}"
    where = f"{key}: " if key else ""
    return where + (error.msg.splitlines()[0] if error.msg else first_line(error))


def allowed(given: str, options: Sequence[str]) -> str:
    if not options:
        return "nothing can be set there"
    close = difflib.get_close_matches(given, options, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}allowed: {', '.join(sorted(set(options)))}"


def first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
