"""Bias, variance and cosine of the biased estimators on the small problems, kept in tests/golden/bias.json.

python tests/bias.py            prints the table
python tests/bias.py --write    also writes the golden file: after a change that is meant to move the numbers

All of the gradient of the logits alone; bias as a share of the norm of the exact gradient, variance (summed over
logits, of one draw) as a share of its square. The tolerances cover other noise, except for the dense bridge: that row
is one fitted net, so a torch that draws other random numbers moves it, and is a reason to write the file again.
"""

import json
import sys
from pathlib import Path

import torch
from exactness import PROBLEMS, Problem, exact
from torch import nn

import dab
from dab.approximators.dense import dense
from dab.approximators.matched import matched
from dab.estimators.gumbel import Gumbel
from dab.estimators.gumbel_rao import GumbelRao
from dab.estimators.lift import Lift
from dab.estimators.probe import statistics_of
from dab.estimators.reinmax import ReinMax
from dab.hard import Bernoulli

GOLDEN = Path(__file__).parent / "golden" / "bias.json"
COSTS = ("linear", "quadratic", "parity", "network")
ROWS = 40_000


def biased_layers(units: int) -> dict[str, nn.Module]:
    hard = Bernoulli()
    return {
        "straight-through, probability": dab.StraightThrough(hard, "probability"),
        "straight-through, logit": dab.StraightThrough(hard, "logit"),
        "Gumbel, 1.0": Gumbel(1.0),
        "Gumbel, 0.3": Gumbel(0.3),
        "straight-through Gumbel, 1.0": Gumbel(1.0, straight_through=True),
        "straight-through Gumbel, 0.3": Gumbel(0.3, straight_through=True),
        "Gumbel-Rao, 1.0": GumbelRao(10, 1.0),
        "Gumbel-Rao, 0.3": GumbelRao(10, 0.3),
        "ReinMax, 1.0": ReinMax(1.0),
        "ReinMax, 1.3": ReinMax(1.3),
        "bridge, dense": dab.Bridge(hard, fitted_dense(units)),
        "bridge, matched slope 1": dab.Bridge(hard, matched(hard, (units,))),
        "bridge, matched slope 2": dab.Bridge(hard, matched(hard, (units,), slope=2.0)),
    }


def fitted_dense(units: int) -> nn.Module:
    """A dense approximator of the Bernoulli sample, fitted to logits of N(0, 9) for 400 steps."""
    hard = Bernoulli()
    net = dense(hard, (units,), hidden=(32,)).double()
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(400):
        z = 3 * torch.randn(256, units, dtype=torch.double)
        optimizer.zero_grad()
        (net(z) - hard(z)).square().sum(1).mean().backward()
        optimizer.step()
    return net


def measured(problem: Problem, layer: nn.Module) -> dict[str, float]:
    """One row of the table. `error` is the noise of the bias: the norm of the standard errors."""
    truth = exact(problem)[0]
    s = statistics_of(problem.draw(Lift(layer), ROWS)[:, : len(truth)], truth)
    row = {
        "bias": s.bias_norm / truth.norm(),
        "variance": s.variance.sum() / truth.square().sum(),
        "cosine": s.cosine,
        "error": s.standard_error.norm() / truth.norm(),
    }
    return {name: round(value.item(), 6) for name, value in row.items()}


def table() -> dict[str, dict[str, dict[str, float]]]:
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for cost in COSTS:
        torch.manual_seed(0)
        layers = biased_layers(len(PROBLEMS[cost].logits))
        rows[cost] = {name: measured(PROBLEMS[cost], layer.double()) for name, layer in layers.items()}
    return rows


def main() -> None:
    rows = table()
    for cost, layers in rows.items():
        print(cost)
        for name, row in layers.items():
            print(f"  {name:32}" + "  ".join(f"{key} {value:8.4f}" for key, value in row.items()))
    if "--write" in sys.argv[1:]:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(rows, indent=1) + "\n")
        print(f"wrote {GOLDEN}")


if __name__ == "__main__":
    main()
