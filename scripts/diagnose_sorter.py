"""Why does a trained sorter still fail? Measures its comparators.

python scripts/diagnose_sorter.py runs/sorting/showcase_10/<hash>

Prints the share of failing sequences by their smallest gap, the code units that never change, and how steep and how
many the units are that decide between two equal numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

import torch
from torch import Tensor

from dab.engine.config import ConfigError
from dab.engine.trust import add_argument, trust
from dab.keys import generator
from dab.metrics.sorting import all_or_none, right_places
from dab.models.dense_sorter import DenseSorter
from dab.predict import load


def smallest_gap(x: Tensor) -> Tensor:
    """x [B, T] -> the gap of the closest pair, [B]."""
    return x.sort(dim=1).values.diff(dim=1).min(dim=1).values


def failures(model: torch.nn.Module, x: Tensor) -> dict[str, float]:
    logits = torch.cat([model(part)[0] for part in x.split(4096)])
    wrong = all_or_none(right_places(logits, x.argsort(dim=1))) == 0
    accuracy = 1 - wrong.float().mean().item()
    gaps = smallest_gap(x)[wrong]
    pairs = model.length * (model.length - 1)
    return {
        "accuracy": accuracy,
        "gap that would explain it": -math.log(max(accuracy, 1e-9)) / pairs,
        "median smallest gap of a failing sequence": gaps.median().item() if len(gaps) else math.nan,
        "failing sequences whose smallest gap is above 1e-3": (gaps > 1e-3).float().mean().item() if len(gaps) else 0.0,
    }


def code(model: torch.nn.Module, x: Tensor) -> Tensor:
    """What the hard function sees, [B, units]."""
    return model.encoder((x - model.shift) * model.scale)


def units(model: torch.nn.Module, x: Tensor, step: float = 1e-4, reach: float = 1e-3) -> dict[str, float]:
    """Units at a tie of two elements: the steepest one's slope, and how many change their hard value around it."""
    hard = model.estimator.hard
    values = torch.cat([hard(code(model, part)) for part in x.split(4096)])
    constant = (values == values[0]).all(dim=0)
    tied = x.clone()
    tied[:, 1] = tied[:, 0]

    def moved(by: float) -> Tensor:
        shifted = tied.clone()
        shifted[:, 0] += by / 2
        shifted[:, 1] -= by / 2
        return code(model, shifted)

    slope = (moved(step) - moved(-step)).abs() / (2 * step)  # [B, units]
    flips = (hard(moved(reach)) != hard(moved(-reach))).sum(dim=1).double()
    return {
        "units that never change": constant.sum().item(),
        "steepest slope at a tie (median)": slope.max(dim=1).values.median().item(),
        f"units that change within ±{reach:g} of a tie (median)": flips.median().item(),
        "elements of the read-out below a hundredth of its largest": _small(model.read_out.weight),
    }


def _small(weight: Tensor) -> float:
    return (weight.abs() < weight.abs().max() / 100).float().mean().item()


@torch.no_grad()
def diagnose(run_dir: Path, sequences: int = 100_000) -> dict[str, float]:
    model = load(run_dir).model
    if not isinstance(model, DenseSorter):
        raise ValueError(f"{run_dir} holds a {type(model).__name__}: give a run of a dense sorter")
    x = torch.rand(sequences, model.length, generator=generator("diagnose"))
    return {**failures(model, x), **units(model, x[:2000])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run_dir", type=Path, nargs="+", help="finished runs of a dense sorter")
    add_argument(parser)
    arguments = parser.parse_args()
    try:
        trust(arguments.trust)
        for run_dir in arguments.run_dir:
            print(run_dir, json.dumps(diagnose(run_dir), indent=2))
    except (ConfigError, FileNotFoundError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
