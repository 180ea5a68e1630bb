"""`python -m dab.predict RUN_DIR INPUT...`: the finished run's hard model on input from the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from dab.engine.build import build_task
from dab.engine.records import read_json
from dab.strip import strip
from dab.tasks.task import Task


def load(run_dir: Path) -> Task:
    """The task of a finished run with its inference model: no approximator is built into it or needed."""
    result = read_json(run_dir / "result.json")
    if result is None:
        raise FileNotFoundError(f"{run_dir} holds no result.json: give the directory of a finished run")
    task = strip(build_task(result["config"], tuple(result["input_shape"])))
    task.model.load_state_dict(load_file(run_dir / "model.safetensors"))
    return task


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dab.predict", description=__doc__)
    parser.add_argument("run_dir", type=Path, help="directory of a finished run, e.g. runs/sorting/signum_dense/<hash>")
    parser.add_argument("input", nargs="+", help="for a sorter: the numbers to sort")
    arguments = parser.parse_args()
    try:
        with torch.no_grad():
            print(load(arguments.run_dir).predict(arguments.input))
    except (FileNotFoundError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
