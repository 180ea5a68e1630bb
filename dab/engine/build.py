"""The only module that makes objects from configuration.

In this order: data → hard → the shape of the model's code → approximator → estimator → model → task → optimizer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from dab.bridge import Bridge
from dab.engine.distributed import Workers
from dab.engine.optimizers import Together
from dab.engine.schedules import Schedule
from dab.engine.targets import ConfigError, locate, options_of, takes
from dab.estimators.objective import ObjectiveEstimator
from dab.estimators.why_not import why_not
from dab.hard import Categorical
from dab.keys import key
from dab.tasks.task import Task

MODEL, APPROXIMATORS, CONTROL = "model", "approximators", "control variates"  # parts that are clipped apart


@dataclass
class Job:
    """Everything one training needs."""

    data: Any
    task: Task
    optimizer: torch.optim.Optimizer | Together
    schedule: Schedule


def make(config: dict[str, Any], name: str, **runtime: Any) -> Any:
    """The object of one component: its YAML options plus what exists only at run time."""
    options = {k: v for k, v in config[name].items() if k != "_target_"}
    return _call(name, locate(name, config[name]), options, **runtime)


def _call(name: str, function: Callable[..., Any], options: dict[str, Any], **runtime: Any) -> Any:
    try:
        return function(**options, **runtime)
    except (ArithmeticError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(f"{name}: {' '.join(str(error).split()) or type(error).__name__}") from error


def build(config: dict[str, Any], workers: Workers, data: Any = None) -> Job:
    """data: given at hand, instead of what the configuration names"""
    data = build_data(config, workers) if data is None else data
    task = build_task(config, data.input_shape).to(workers.device)
    _call("task", task.prepare, {}, data=data)
    return Job(data, task, build_optimizer(config, task), make(config, "schedule"))


def build_optimizer(config: dict[str, Any], task: Task) -> torch.optim.Optimizer | Together:
    """The configuration's optimizer; where approximators have a learning rate of their own, also an Adam for them."""
    groups, rate = parameter_groups(config, task), config["trainer"]["approximator_lr"]
    own = [group for group in groups if group["part"] == APPROXIMATORS] if rate is not None else []
    if not own:
        return make(config, "optimizer", params=groups)
    others = [group for group in groups if group["part"] != APPROXIMATORS]
    return Together(make(config, "optimizer", params=others), torch.optim.Adam(own, rate))


def parameter_groups(config: dict[str, Any], task: Task) -> list[Any]:
    """What is trained: the model, and where they are treated apart, approximators and control variates.

    Both learn something else than the task: an approximator to imitate (its gradient is hundreds of times the model's
    at the start), a control variate to lower variance. Weight decay keeps the model from learning images by heart; a
    control variate that is held back only has more variance.
    """
    trainer = config["trainer"]
    apart = trainer["clip_apart"] and trainer["clip_norm"] is not None
    scale, decay = trainer["approximator_lr_scale"], trainer["approximator_weight_decay"]
    apart |= scale != 1 or decay is not None or trainer["approximator_lr"] is not None
    approximators = _parameters_of(_approximators(task)) if apart else {}
    control = {id(p) for m in task.modules() if isinstance(m, ObjectiveEstimator) for p in m.control_parameters()}
    model = [p for p in task.parameters() if id(p) not in {*approximators, *control}]
    decayed = [trainer["decay_norms"] or p.dim() > 1 for p in model]  # biases, and scales of norms, have one dimension
    groups = [
        _group(config, MODEL, [p for p, yes in zip(model, decayed) if yes]),
        _group(config, MODEL, [p for p, yes in zip(model, decayed) if not yes], decay=0.0),
        _group(config, APPROXIMATORS, list(approximators.values()), scale, decay),
        _group(config, CONTROL, [p for p in task.parameters() if id(p) in control], trainer["control_lr_scale"], 0.0),
    ]
    return [group for group in groups if group["params"]]


def _approximators(task: Task) -> list[nn.Module]:
    return [m.approximator for m in task.modules() if isinstance(m, Bridge) and m.approximator is not None]


def _parameters_of(modules: list[nn.Module]) -> dict[int, nn.Parameter]:
    return {id(p): p for module in modules for p in module.parameters()}


def _group(
    config: dict[str, Any], part: str, parameters: list[nn.Parameter], scale: float = 1.0, decay: float | None = None
) -> dict[str, Any]:
    """One group of the optimizer. decay: instead of the optimizer's own, which not every one has"""
    group: dict[str, Any] = {"params": [p for p in parameters if p.requires_grad], "part": part}
    if scale != 1:
        group["lr"] = config["optimizer"]["lr"] * scale
    if decay is not None and "weight_decay" in options_of("optimizer", config["optimizer"]):
        group["weight_decay"] = decay
    return group


def build_data(config: dict[str, Any], workers: Workers) -> Any:
    trainer = config["trainer"]
    where = {"folder": config["paths"]["data"]} if takes("data", config["data"], "folder") else {}
    return make(
        config,
        "data",
        seed=config["seed"],
        batch_size=trainer["batch_size"],
        eval_batch_size=trainer["eval_batch_size"],
        steps=trainer["steps"],
        device=workers.device,
        rank=workers.rank,
        world=workers.world,
        **where,
    )


def build_task(config: dict[str, Any], input_shape: tuple[int, ...]) -> Task:
    """The task on the CPU; its initial weights are a function of the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key("weights", config["seed"]))
        hard = make(config, "hard")
        model_class = locate("model", config["model"])
        options = options_of("model", config["model"])
        code_shape = _call("model", model_class.code_shape, options, input_shape=input_shape, hard=hard)
        estimator = build_estimator(config, hard, code_shape)
        if isinstance(estimator, ObjectiveEstimator) and not getattr(model_class, "takes_objective", False):
            raise ConfigError(
                f"estimator: {type(estimator).__name__} needs the loss itself, which {model_class.__name__} does not "
                "give it: choose a layer (bridge, straight_through, reinmax, ...), or model=vae_mlp with task=density"
            )
        known = {"code_shape": code_shape, "hard": hard}
        told = {name: value for name, value in known.items() if takes("model", config["model"], name)}
        if getattr(model_class, "starts_apart", False):
            torch.manual_seed(key("model", config["seed"]))
        model = make(config, "model", estimator=estimator, input_shape=input_shape, **told)
        return make(config, "task", model=model)


def build_estimator(config: dict[str, Any], hard: nn.Module, code_shape: tuple[int, ...]) -> nn.Module:
    node = config["estimator"]
    if reason := why_not(locate("estimator", node), hard, code_shape):
        raise ConfigError(f"estimator and hard do not go together: {reason}")
    runtime: dict[str, Any] = {"hard": hard} if takes("estimator", node, "hard") else {}
    if takes("estimator", node, "approximator"):
        runtime["approximator"] = make(config, "approximator", hard=hard, in_shape=code_shape)
    elif takes("estimator", node, "in_shape"):  # a bridge would build an approximator of its own from it
        runtime["in_shape"] = code_shape
    if takes("estimator", node, "categorical"):
        runtime["categorical"] = isinstance(hard, Categorical)
    estimator = make(config, "estimator", **runtime)
    try:  # on a copy: a try-out must not move running statistics
        objective = [_sum] if isinstance(estimator, ObjectiveEstimator) else []
        copy.deepcopy(estimator)(torch.randn(2, *code_shape), *objective)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"estimator, hard and approximator do not fit together: {error}") from error
    return estimator


def _sum(sample: torch.Tensor) -> torch.Tensor:
    return sample.flatten(1).sum(1)
