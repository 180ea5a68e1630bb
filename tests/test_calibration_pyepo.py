"""Our layers for solvers against PyEPO's own modules: the same gradients from the same noise."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dab.estimators import IMLE, Identity, Interpolation, Perturbed
from dab.hard import Argmax, ShortestPath

pytest.importorskip("pyepo", reason="PyEPO is not installed: pip install -e '.[pyepo]'")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

import calibrate_pyepo
from pyepo import EPO, data, func, metric
from pyepo.model.opt import optModel

ROWS, SAMPLES = 6, 3


class Largest(optModel):
    """An argmax: PyEPO's other sense."""

    modelSense = EPO.MAXIMIZE

    def _getModel(self) -> tuple[Any, list[int]]:
        return None, list(range(5))

    def setObj(self, c: Any) -> None:
        self.c = torch.as_tensor(c)

    def solve(self) -> tuple[np.ndarray, float]:
        return Argmax(5)(self.c[None])[0].numpy(), self.c.max().item()


class Given:
    """Noise that is known, in PyEPO's order: [rows, samples, units]."""

    def __init__(self, noise: Tensor) -> None:
        self.noise = noise.transpose(0, 1)

    def sample(self, size: Any, **_: Any) -> Tensor:
        return self.noise


def passed(layer: Any, z: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Value and gradient."""
    z = z.clone().requires_grad_()
    y = layer(z)
    y = y if isinstance(y, Tensor) else y[0]
    return y.detach(), torch.autograd.grad((y * g).sum(), z)[0]


@pytest.fixture(params=["min", "max"])
def problem(request: pytest.FixtureRequest) -> tuple[nn.Module, optModel, Tensor, Tensor, Tensor]:
    """Our solver, theirs, inputs, the gradient that arrives, and noise [samples, rows, units]."""
    hard: nn.Module = ShortestPath(5, 5) if request.param == "min" else Argmax(5)
    theirs = calibrate_pyepo.pyepo_model() if request.param == "min" else Largest()
    torch.manual_seed(0)
    units = theirs.num_cost
    return hard, theirs, torch.randn(ROWS, units), torch.randn(ROWS, units), torch.randn(SAMPLES, ROWS, units)


def same(ours: Any, theirs: Any, z: Tensor, g: Tensor) -> None:
    (y, gradient), (their_y, their_gradient) = passed(ours, z, g), passed(theirs, z, g)
    torch.testing.assert_close(y, their_y)
    torch.testing.assert_close(gradient, their_gradient, rtol=1e-4, atol=1e-6)
    assert gradient.any()


def test_interpolation_and_identity(problem) -> None:
    hard, theirs, z, g, _ = problem
    same(Interpolation(hard, 2.0), func.DBB(theirs, lambd=2.0), z, g)
    same(Identity(hard, "none"), func.NID(theirs), z, g)


def test_imle_with_the_same_noise(problem, monkeypatch: pytest.MonkeyPatch) -> None:
    hard, theirs, z, g, noise = problem
    monkeypatch.setattr("dab.estimators.imle.sum_of_gamma", lambda like, k: noise)
    with_noise = func.IMLE(theirs, n_samples=SAMPLES, sigma=0.7, lambd=2.0, distribution=Given(noise))
    same(IMLE(hard, 2.0, 0.7, SAMPLES, smoothed=True), with_noise, z, g)


@pytest.mark.parametrize("baseline", ["leave_one_out", "none"])
def test_perturbed_with_the_same_noise(problem, baseline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hard, theirs, z, g, _ = problem
    drawn = torch.randn(ROWS, SAMPLES, z.shape[1], generator=torch.Generator().manual_seed(135))  # as PyEPO draws it
    monkeypatch.setattr("dab.estimators.perturbed.draw", lambda family, like: drawn.transpose(0, 1))
    dpo = func.DPO(theirs, n_samples=SAMPLES, sigma=0.7, seed=135, variance_reduction=baseline == "leave_one_out")
    same(Perturbed(hard, 0.7, SAMPLES, baseline=baseline, smoothed=True), dpo, z, g)


def test_the_sums_of_gammas_have_the_same_law() -> None:
    """Mean and variance of 200,000 each, to five standard errors."""
    from dab.estimators.noise import sum_of_gamma

    torch.manual_seed(0)
    n = 200_000
    ours = sum_of_gamma(torch.zeros(n, dtype=torch.double), 5)
    theirs = func.utils.sumGammaDistribution(kappa=5).sample((n,), device="cpu", dtype=torch.double)
    assert abs(ours.mean() - theirs.mean()) < 5 * ((ours.var() + theirs.var()) / n).sqrt()
    spread = [(t - t.mean()).square() for t in (ours, theirs)]
    assert abs(spread[0].mean() - spread[1].mean()) < 5 * ((spread[0].var() + spread[1].var()) / n).sqrt()


def test_the_data_and_the_regret_are_theirs() -> None:
    x, costs = calibrate_pyepo.made(50)
    their_x, their_costs = data.shortestpath.genData(50, 5, (5, 5), 4, 0.5, seed=42)
    np.testing.assert_array_equal(x, their_x)
    np.testing.assert_allclose(costs, their_costs, rtol=1e-6)
    optmodel, model = calibrate_pyepo.pyepo_model(), nn.Linear(5, 40)
    dataset = data.dataset.optDataset(optmodel, x, costs)
    theirs = metric.regret(model, optmodel, torch.utils.data.DataLoader(dataset, batch_size=10))
    ours = calibrate_pyepo.regret(model, calibrate_pyepo.solved(dataset.feats, dataset.costs))
    assert ours == pytest.approx(100 * theirs, rel=1e-4)
