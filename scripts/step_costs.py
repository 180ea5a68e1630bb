"""What a training step of every row of the classification studies costs, as times that of the same net without a hard
function: all rows in one process, a few steps of each in turn, median of the rounds. And what the hard functions, the
engine and the memory of a bridge cost.

python scripts/step_costs.py [--rounds 5] [--out results/classification/steps.json]

Records of a campaign cannot tell: they come from different machines at different hours.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import torch
from bench_classification import image_noise, measure_functions, measure_kmeans, measure_loop
from bench_loops import Timed, interleaved, our_loop, ratio
from bench_memory import measure_memory

from dab.engine.host import keep_freed_memory
from dab.engine.provenance import provenance
from dab.engine.records import write_json
from experiments import ablation, classification, step_costs
from experiments.runs import run_of
from experiments.study import Cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2, help="in each turn")
    parser.add_argument("--out", type=Path, default=step_costs.RECORD)
    arguments = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    begun = provenance()
    found: dict[str, dict[str, float]] = {}
    for net, rows in step_costs.nets([*classification.cells("cpu"), *ablation.cells("cpu")]).items():
        sides, plain = {name: loop(cell) for name, cell in rows.items()}, step_costs.PLAIN[net]
        times = interleaved(sides, arguments.rounds, arguments.steps)
        found[net] = {name: round(1 / ratio(times, name, plain), 3) for name in rows}
        print(f"{net}: {len(rows)} rows, {1000 * statistics.median(times[plain]):.0f} ms without a hard function")
        for name, cost in found[net].items():
            print(f"  {cost:6.2f}  {name}")
    speed = measure_loop(15, 1) | measure_functions(15, 1) | measure_kmeans(1)
    speed |= measure_memory("Resnet18 of width 8, batch 128")
    for name, value in speed.items():
        print(f"{value:8.3g}  {name}")
    measured = {"rounds": arguments.rounds, "steps": arguments.steps, "threads": 1, "provenance": begun}
    write_json(arguments.out, {"costs": found, "speed": {k: round(v, 3) for k, v in speed.items()}, **measured})
    print(f"wrote {arguments.out}")


def loop(cell: Cell) -> Timed:
    config = run_of(cell, "cpu").config
    return our_loop(config | {"logger": {"_target_": "dab.engine.loggers.NoLogger"}}, image_noise(config))


if __name__ == "__main__":
    main()
