"""The only module that makes objects from configuration.

In this order: data → hard + approximator → estimator → model → task → optimizer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from dab.engine.config import ConfigError, locate
from dab.engine.distributed import Workers
from dab.engine.run import takes
from dab.engine.schedules import Schedule
from dab.estimators.objective import ObjectiveEstimator
from dab.keys import key
from dab.tasks.task import Task


@dataclass
class Job:
    """Everything one training needs."""

    data: Any
    task: Task
    optimizer: torch.optim.Optimizer
    schedule: Schedule


def make(config: dict[str, Any], name: str, **runtime: Any) -> Any:
    """The object of one component: its YAML options plus what exists only at run time."""
    return _call(name, locate(name, config[name]), config[name], **runtime)


def _call(name: str, function: Callable[..., Any], node: dict[str, Any], **runtime: Any) -> Any:
    options = {k: v for k, v in node.items() if k != "_target_"}
    try:
        return function(**options, **runtime)
    except (TypeError, ValueError, FileNotFoundError) as error:
        raise ConfigError(f"{name}: {error}") from error


def build(config: dict[str, Any], workers: Workers, data: Any = None) -> Job:
    """data: given at hand, instead of what the configuration names"""
    data = build_data(config, workers) if data is None else data
    task = build_task(config, data.input_shape).to(workers.device)
    task.prepare(data)
    optimizer = make(config, "optimizer", params=parameter_groups(config, task))
    return Job(data, task, optimizer, make(config, "schedule"))


def parameter_groups(config: dict[str, Any], task: Task) -> list[Any]:
    """What is trained; control variates in a group of their own, with their own learning rate and no weight decay.

    Decay keeps the model from learning images by heart; a control variate that is held back only has more variance.
    """
    trained = [p for p in task.parameters() if p.requires_grad]
    estimators = [m for m in task.modules() if isinstance(m, ObjectiveEstimator)]
    control = {id(p) for estimator in estimators for p in estimator.control_parameters()}
    lowering = [p for p in trained if id(p) in control]
    if not lowering:
        return trained
    rate = config["optimizer"]["lr"] * config["trainer"]["control_lr_scale"]
    undecayed = {"weight_decay": 0.0} if "weight_decay" in config["optimizer"] else {}  # not every optimizer has it
    return [{"params": [p for p in trained if id(p) not in control]}, {"params": lowering, "lr": rate, **undecayed}]


def build_data(config: dict[str, Any], workers: Workers) -> Any:
    trainer = config["trainer"]
    where = {"folder": config["paths"]["data"]} if takes(config["data"], "folder") else {}
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
        model_class = locate("model", config["model"])
        code_shape = _call("model", model_class.code_shape, config["model"], input_shape=input_shape)
        estimator = build_estimator(config, code_shape)
        if isinstance(estimator, ObjectiveEstimator) and not getattr(model_class, "takes_objective", False):
            raise ConfigError(
                f"estimator: {type(estimator).__name__} needs the loss itself, which {model_class.__name__} does not "
                "give it: choose a layer (bridge, straight_through, reinmax, ...), or model=vae_mlp with task=density"
            )
        model = make(config, "model", estimator=estimator, input_shape=input_shape)
        return make(config, "task", model=model)


def build_estimator(config: dict[str, Any], code_shape: tuple[int, ...]) -> nn.Module:
    runtime: dict[str, Any] = {}
    if takes(config["estimator"], "hard"):
        runtime["hard"] = make(config, "hard")
    if takes(config["estimator"], "approximator"):
        runtime["approximator"] = make(config, "approximator", hard=runtime["hard"], in_shape=code_shape)
    elif takes(config["estimator"], "in_shape"):  # a bridge would build an approximator of its own from it
        runtime["in_shape"] = code_shape
    estimator = make(config, "estimator", **runtime)
    try:  # on a copy: a try-out must not move running statistics
        objective = [_sum] if isinstance(estimator, ObjectiveEstimator) else []
        copy.deepcopy(estimator)(torch.randn(2, *code_shape), *objective)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"estimator, hard and approximator do not fit together: {error}") from error
    return estimator


def _sum(sample: torch.Tensor) -> torch.Tensor:
    return sample.flatten(1).sum(1)
