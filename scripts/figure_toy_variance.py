"""The toy of the REBAR and RELAX papers: one Bernoulli, cost (b - 0.45)², loss and variance while it trains.

python scripts/figure_toy_variance.py [--out figures/toy_variance.png] [--steps 3000]

Sixteen samples a step for everybody (DisARM: pairs). The loss falls to 0.2025 as the logit goes to minus infinity. The
relaxed cost is near zero between the two states, so REBAR's control variate resembles the cost little: what it can
learn here is a large temperature with a large eta, which make a constant baseline. About 40 seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from dab.estimators.disarm import Disarm
from dab.estimators.objective import ObjectiveEstimator
from dab.estimators.rebar import Rebar
from dab.estimators.relax import Relax
from dab.estimators.score_function import ScoreFunction
from experiments.drawing import WIDTH, plt
from experiments.methods import OTHER, method_of

TARGET = 0.45
BATCH = 16
EVERY = 25  # steps between two measurements
FLOOR = 1e-8  # variances below are drawn here: DisARM's is zero at the start
# The estimator, and the learning rate of its control variate.
ESTIMATORS: dict[str, tuple[Callable[[], ObjectiveEstimator], float]] = {
    "REINFORCE": (lambda: ScoreFunction(1), 0.0),
    "REBAR": (lambda: Rebar(temperature=2.0), 0.05),
    "RELAX": (lambda: Relax((16,), (1,)), 0.005),
    "DisARM": (Disarm, 0.0),
}


def cost(b: Tensor) -> Tensor:
    return (b - TARGET).square().sum(1)  # [B, 1] → [B]


def variance(estimator: ObjectiveEstimator, logit: Tensor, draws: int = 4000) -> float:
    """Of the gradient of one sample, at this logit."""
    logits = logit.detach().expand(draws, 1).contiguous().requires_grad_()
    (gradient,) = torch.autograd.grad(estimator(logits, cost)[0], logits)
    return (draws * gradient).var().item()


def train(estimator: ObjectiveEstimator, control_lr: float, steps: int) -> list[list[float]]:
    """Rows of (step, expected loss, variance of one sample)."""
    torch.manual_seed(0)
    logit = torch.zeros(1, 1, requires_grad=True)
    groups = [{"params": [logit], "lr": 0.005}]
    if estimator.control_parameters():
        groups.append({"params": estimator.control_parameters(), "lr": control_lr})
    optimizer = torch.optim.Adam(groups)
    rows = []
    for step in range(steps + 1):
        if step % EVERY == 0:
            p = torch.sigmoid(logit).item()
            expected = p * (1 - TARGET) ** 2 + (1 - p) * TARGET**2
            rows.append([step, expected, max(variance(estimator, logit), FLOOR)])
        optimizer.zero_grad()
        estimator(logit.expand(BATCH, 1), cost)[0].backward()
        optimizer.step()
    return rows


def draw(curves: dict[str, list[list[float]]], path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.4), layout="constrained")
    for name, rows in curves.items():
        steps, losses, variances = zip(*rows)
        colour = (method_of(name) or OTHER).colour
        left.plot(steps, losses, color=colour)
        right.plot(steps, variances, color=colour, lw=1)
        right.annotate(name, (1.02, variances[-1]), xycoords=("axes fraction", "data"), color=colour, va="center")
    left.axhline(TARGET**2, color="0.7", lw=1, ls="--")
    left.set(title=f"E (b - {TARGET})²", xlabel="step")
    right.set(title="Variance of one sample's gradient", xlabel="step", yscale="log")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("figures/toy_variance.png"))
    parser.add_argument("--steps", type=int, default=3000)
    options = parser.parse_args()
    torch.manual_seed(0)
    curves = {name: train(make(), lr, options.steps) for name, (make, lr) in ESTIMATORS.items()}
    for name, rows in curves.items():
        print(f"{name:10} loss {rows[-1][1]:.4f}   variance {rows[-1][2]:.2e}   (start {rows[0][2]:.2e})")
    draw(curves, options.out)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
