"""Our layers for solvers beside PyEPO's own, in PyEPO's setting: regret after training through a shortest path.

python scripts/calibrate_pyepo.py [--seeds 3] [--epochs 20] [--out results/calibration]

The protocol of PyEPO's notebook 03: a grid of 5 x 5, 5 features, costs of degree 4 with noise 0.5, 1000 samples to
learn from and 1000 to test on, a linear model, Adam 0.01, batch 32, 20 epochs, the L1 distance of solutions (perturbed,
I-MLE) or of costs (interpolation, identity). The regret is the excess cost of the paths taken, as a share of the best
ones'. Data as printed (seed 42); the seeds are those of weights, batches and noise, the same for both sides. With PyEPO
(`pip install -e '.[pyepo]'`) its own modules are trained too, on our solver; without it only our rows are made.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from dab.engine.provenance import provenance
from dab.engine.records import write_json
from dab.estimators import IMLE, Identity, Interpolation, Perturbed
from dab.hard import ShortestPath
from dab.keys import generator, key

ROOT = Path(__file__).resolve().parents[1]
GRID, FEATURES, DEGREE, NOISE, SEED = (5, 5), 5, 4, 0.5, 42
PRINTED = {"perturbed": 9.88, "I-MLE": 12.07, "interpolation": 15.12, "identity": 8.90}  # percent, one seed
ON_COSTS = ("interpolation", "identity")  # whose loss is of costs instead of solutions

Solve = Callable[[Tensor], Tensor]  # costs [B, E] → something like paths [B, E], with a gradient


class Data(NamedTuple):
    features: Tensor  # [N, 5]
    costs: Tensor  # [N, 40]
    paths: Tensor  # [N, 40], the best ones
    best: Tensor  # [N], their costs


def solver() -> ShortestPath:
    return ShortestPath(*GRID)


def ours() -> dict[str, Solve]:
    layers = {
        "perturbed": Perturbed(solver(), 1.0, 3, smoothed=True),
        "I-MLE": IMLE(solver(), 10.0, 1.0, 3, ones=5, smoothed=True),
        "interpolation": Interpolation(solver(), 20.0),
        "identity": Identity(solver(), "none"),
    }
    return {name: (lambda z, layer=layer: layer(z)[0]) for name, layer in layers.items()}


def theirs(seed: int) -> dict[str, Solve]:
    """PyEPO's modules with the settings of its notebook; nothing if it is not installed."""
    try:
        from pyepo import func
    except ImportError:
        return {}
    func.utils._solve_batch_np = _solved  # one call for all rows instead of one for each
    model = pyepo_model()
    noise = func.utils.sumGammaDistribution(kappa=5, seed=seed)
    return {
        "perturbed": func.DPO(model, n_samples=3, sigma=1.0, seed=seed),
        "I-MLE": func.IMLE(model, n_samples=3, sigma=1.0, lambd=10, distribution=noise),
        "interpolation": func.DBB(model, lambd=20),
        "identity": func.NID(model),
    }


def _solved(costs: np.ndarray, *_: Any) -> tuple[np.ndarray, np.ndarray]:
    paths = solver()(torch.from_numpy(costs)).numpy()
    return paths, (paths * costs).sum(1)


def pyepo_model() -> Any:
    """Our solver as one of PyEPO's optimization models."""
    from pyepo.model.bases import shortestPathBase

    class Grid(shortestPathBase):
        def _getModel(self) -> tuple[Any, list[int]]:
            return None, list(range(len(self.arcs)))

        def setObj(self, c: Any) -> None:
            self.c = torch.as_tensor(c)

        def solve(self) -> tuple[np.ndarray, float]:
            path = solver()(self.c[None])[0]
            return path.numpy(), (path * self.c).sum().item()

    return Grid(GRID)


def made(samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and costs as PyEPO makes them.  [N, 5], [N, 40]"""
    draw = np.random.RandomState(SEED)
    weights = draw.binomial(1, 0.5, (solver().units, FEATURES))
    x = draw.normal(0, 1, (samples, FEATURES))
    costs = ((x @ weights.T / FEATURES**0.5 + 3) ** DEGREE + 1) / 3.5**DEGREE
    costs = costs * draw.uniform(1 - NOISE, 1 + NOISE, costs.shape)
    return x, costs.astype(np.float32)


def data() -> tuple[Data, Data]:
    """To learn from, and to test on."""
    x, costs = made(2000)
    parts = train_test_split(x, costs, test_size=1000, random_state=SEED)
    x_train, x_test, c_train, c_test = (torch.from_numpy(part.astype(np.float32)) for part in parts)
    return solved(x_train, c_train), solved(x_test, c_test)


def solved(x: Tensor, costs: Tensor) -> Data:
    paths = solver()(costs)
    return Data(x, costs, paths, (paths * costs).sum(1))


def train(name: str, solve: Solve, train_on: Data, seed: int, epochs: int) -> nn.Module:
    torch.manual_seed(key("calibrate", seed))
    model = nn.Linear(FEATURES, solver().units)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for epoch in range(epochs):
        order = torch.randperm(len(train_on.features), generator=generator("calibrate", seed, epoch))
        for rows in order.split(32):
            x, costs, paths, best = (part[rows] for part in train_on)
            y = solve(model(x))
            loss = F.l1_loss((y * costs).sum(1), best) if name in ON_COSTS else F.l1_loss(y, paths)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


@torch.no_grad()
def regret(model: nn.Module, test: Data) -> float:
    """In percent."""
    taken = (solver()(model(test.features)) * test.costs).sum(1)
    return 100 * ((taken - test.best).sum() / test.best.abs().sum()).item()


def measure(seeds: int, epochs: int) -> dict[str, Any]:
    begun, (train_on, test) = {**provenance(), "pyepo": _version()}, data()
    found: dict[str, Any] = {"epochs": epochs, "printed": PRINTED, "regret": {"ours": {}, "pyepo": {}}}
    for seed in range(seeds):
        for side, layers in (("ours", ours()), ("pyepo", theirs(seed))):
            for name, solve in layers.items():
                percent = regret(train(name, solve, train_on, seed, epochs), test)
                found["regret"][side].setdefault(name, []).append(percent)
                print(f"seed {seed}  {side:5}  {name:13}  {percent:.2f} %", flush=True)
    return {**found, "provenance": begun}


def _version() -> str | None:
    try:
        from pyepo import __version__
    except ImportError:
        return None
    return str(__version__)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "calibration")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = measure(arguments.seeds, arguments.epochs)
    for name, printed in PRINTED.items():
        means = {side: statistics.fmean(rows[name]) for side, rows in found["regret"].items() if rows}
        print(f"{name:13}  printed {printed:.2f}  " + "  ".join(f"{side} {mean:.2f}" for side, mean in means.items()))
    if not found["regret"]["pyepo"]:
        print("PyEPO is not installed, so its rows are missing: pip install -e '.[pyepo]'")
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_json(arguments.out / "pyepo.json", found)
    print(f"wrote {arguments.out / 'pyepo.json'}")


if __name__ == "__main__":
    main()
