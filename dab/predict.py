"""`python -m dab.predict RUN_DIR INPUT...`: the finished run's hard model on input from the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from dab.data.dataset import Dataset
from dab.engine.build import build_task
from dab.engine.checkpoint import digest
from dab.engine.config import COMPONENTS
from dab.engine.exits import input_errors
from dab.engine.records import read_json
from dab.engine.storage import Unusable
from dab.engine.targets import locate
from dab.engine.trust import add_argument, trust
from dab.strip import strip
from dab.tasks.task import Task


def record(run_dir: Path) -> dict[str, Any]:
    """What a finished run says of itself."""
    path = run_dir / "result.json"
    if not run_dir.is_dir():
        raise FileNotFoundError(f"{run_dir} is no directory: give the directory of a finished run")
    try:
        result = read_json(path)
    except Unusable as error:
        raise ValueError(str(error)) from error
    if result is None:
        raise FileNotFoundError(f"{run_dir} holds no result.json: give the directory of a finished run")
    _check(path, result)
    return result


def _check(path: Path, result: Any) -> None:
    """A record is data, maybe a stranger's: its targets must be what they stand for, before anything is built."""
    lacks = {"config", "input_shape", "hash"}.difference(result) if isinstance(result, dict) else {"everything"}
    if lacks:
        raise ValueError(f"{path} is no record of a run: it lacks {', '.join(sorted(lacks))}")
    config, shape = result["config"], result["input_shape"]
    for part in ("trainer", "paths"):
        if not isinstance(config, dict) or not isinstance(config.get(part), dict):
            raise ValueError(f"{path} is no record of a run: its config has no {part}")
    if not isinstance(shape, list) or not all(type(size) is int and size > 0 for size in shape):
        raise ValueError(f"{path} is no record of a run: its input_shape is {shape!r}")
    for component in COMPONENTS:
        locate(component, config.get(component))


def load(run_dir: Path, data: Dataset | None = None) -> Task:
    """The task of a finished run with its inference model: no approximator is built into it or needed.

    data    shown to the task first, as before a training
    """
    result, weights = record(run_dir), run_dir / "model.safetensors"
    try:
        task = build_task(result["config"], tuple(result["input_shape"]))
    except KeyError as error:
        raise ValueError(f"{run_dir / 'result.json'} is no record of a run: its config lacks {error}") from error
    except RuntimeError as error:  # more memory than there is, say
        raise ValueError(f"the model of {run_dir / 'result.json'} cannot be built: {one_line(error)}") from error
    if data is not None:
        task.prepare(data)
    task = strip(task)
    if not weights.exists():
        raise FileNotFoundError(f"{run_dir} holds no {weights.name}: the same training with force=true makes it again")
    try:
        task.model.load_state_dict(load_file(weights))
    except (SafetensorError, RuntimeError, OSError) as error:
        raise ValueError(f"{weights} does not hold the weights of this run's model: {one_line(error)}") from error
    found = digest(task.model.state_dict())
    if result.get("weights", found) != found:
        raise ValueError(f"{weights} has changed since the run ended: the same training with force=true makes it again")
    return task


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dab.predict", description=__doc__)
    parser.add_argument("run_dir", type=Path, help="directory of a finished run, e.g. runs/sorting/signum_dense/<hash>")
    parser.add_argument("input", nargs="+", help="for a sorter: the numbers to sort")
    add_argument(parser)
    arguments = parser.parse_args()
    with input_errors(), torch.no_grad():
        trust(arguments.trust)
        print(load(arguments.run_dir).predict(arguments.input))


if __name__ == "__main__":
    main()
