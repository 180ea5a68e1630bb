"""`python -m dab.predict RUN_DIR INPUT...`: the finished run's hard model on input from the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from dab.data.dataset import Dataset
from dab.engine.build import build_task
from dab.engine.checkpoint import digest
from dab.engine.config import ConfigError
from dab.engine.records import read_json
from dab.engine.storage import Unusable
from dab.strip import strip
from dab.tasks.task import Task


def record(run_dir: Path) -> dict[str, Any]:
    """What a finished run says of itself."""
    path = run_dir / "result.json"
    try:
        result = read_json(path)
    except Unusable as error:
        raise ValueError(str(error)) from error
    if result is None:
        raise FileNotFoundError(f"{run_dir} holds no result.json: give the directory of a finished run")
    if missing := {"config", "input_shape", "hash"}.difference(result):
        raise ValueError(f"{path} is no record of a run: it lacks {', '.join(sorted(missing))}")
    return result


def load(run_dir: Path, data: Dataset | None = None) -> Task:
    """The task of a finished run with its inference model: no approximator is built into it or needed.

    data    shown to the task first, as before a training
    """
    result, weights = record(run_dir), run_dir / "model.safetensors"
    try:
        task = build_task(result["config"], tuple(result["input_shape"]))
    except KeyError as error:
        raise ValueError(f"{run_dir / 'result.json'} is no record of a run: its config lacks {error}") from error
    if data is not None:
        task.prepare(data)
    task = strip(task)
    if not weights.exists():
        raise FileNotFoundError(f"{run_dir} holds no {weights.name}: the same training with force=true makes it again")
    try:
        task.model.load_state_dict(load_file(weights))
    except (SafetensorError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{weights} does not hold the weights of this run's model: {reason}") from error
    found = digest(task.model.state_dict())
    if result.get("weights", found) != found:
        raise ValueError(f"{weights} has changed since the run ended: the same training with force=true makes it again")
    return task


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dab.predict", description=__doc__)
    parser.add_argument("run_dir", type=Path, help="directory of a finished run, e.g. runs/sorting/signum_dense/<hash>")
    parser.add_argument("input", nargs="+", help="for a sorter: the numbers to sort")
    arguments = parser.parse_args()
    try:
        with torch.no_grad():
            print(load(arguments.run_dir).predict(arguments.input))
    except (ConfigError, FileNotFoundError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
