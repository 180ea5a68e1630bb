"""Gradient estimators against exact gradients by enumeration: who is unbiased, and how biased the others are.

How the z-test works and what it can see: tests/exactness.py. The numbers of the biased ones: tests/bias.py.
"""

import json
from collections.abc import Callable

import bias
import exactness
import pytest
import torch
from exactness import CATEGORICAL, PROBLEMS, Problem, Target, control_gradient, model_gradient, slope_of_square, verdict
from torch import Tensor, nn

import dab
from dab.approximators.matched import matched
from dab.estimators.disarm import Arm, Disarm
from dab.estimators.lift import Lift
from dab.estimators.probe import exact_gradient, gradient_statistics, states
from dab.estimators.rebar import Rebar
from dab.estimators.reinmax import ReinMax
from dab.estimators.relax import Relax
from dab.estimators.score_function import ScoreFunction
from dab.hard import Bernoulli

Make = Callable[[Problem], nn.Module]


def rebar(temperature: float, eta: float) -> Make:
    return lambda p: Rebar(temperature, eta, learn=False, categorical=p.groups is not None)


def relax(eta: float | None, see_logits: bool) -> Make:
    """RELAX with a random network: nothing about it is trained, and the mean must not care."""

    def make(p: Problem) -> nn.Module:
        units = len(p.logits) * (2 if see_logits else 1)
        net = nn.Sequential(nn.Linear(units, 5), nn.Tanh(), nn.Linear(5, 1)).double()
        return Relax(net, None, 0.7, eta, learn=False, see_logits=see_logits, categorical=p.groups is not None)

    return make


def score_function(samples: int) -> Make:
    return lambda p: ScoreFunction(samples, categorical=p.groups is not None)


EVERYWHERE: dict[str, Make] = {
    "score function, 1 sample": score_function(1),
    "score function, 2 samples": score_function(2),
    "rebar 0.1, eta 0.3": rebar(0.1, 0.3),
    "rebar 1, eta 1": rebar(1.0, 1.0),
    "rebar 10, eta 1": rebar(10.0, 1.0),
    "relax": relax(0.5, see_logits=True),
    "relax, network alone": relax(None, see_logits=False),
}
PAIRS: dict[str, Make] = {"arm": lambda p: Arm(), "disarm": lambda p: Disarm()}  # Bernoulli alone
ONCE: dict[str, Make] = {
    "score function, 4 samples": score_function(4),
    **{f"rebar {t:g}, eta 0": rebar(t, 0.0) for t in (0.1, 1.0, 10.0)},
    **{f"rebar {t:g}, eta {e:g}": rebar(t, e) for t, e in ((0.1, 1.0), (1.0, 0.3), (10.0, 0.3))},
}
CASES = [
    *[(cost, name) for cost in PROBLEMS for name in (EVERYWHERE | PAIRS)],
    *[("elbo", name) for name in ONCE],
    *[("categorical", name) for name in EVERYWHERE],
]
ALL = PROBLEMS | {"categorical": CATEGORICAL}


@pytest.mark.parametrize(("cost", "name"), CASES, ids=lambda part: part.replace(", ", "-").replace(" ", "_"))
def test_unbiased(cost: str, name: str) -> None:
    torch.manual_seed(0)
    v = verdict(ALL[cost], (EVERYWHERE | PAIRS | ONCE)[name](ALL[cost]))
    assert v.powerful, f"a standard error of {v.relative_error:.2%} of the gradient after {v.rows} rows sees nothing"
    assert v.unbiased, f"|z| = {v.z:.1f} > {exactness.Z_ALARM:.1f}"


def test_the_false_alarms_are_shared_by_all_coordinates() -> None:
    assert sum(len(Target(ALL[cost]).exact) for cost, _ in CASES) <= exactness.COORDINATES


def stratified(like: Tensor) -> Tensor:
    """Uniforms that fill (0, 1) evenly, in random order: one per stratum in each call, a Latin hypercube."""
    return ((torch.randperm(like.shape[0], dtype=like.dtype) + 0.5) / like.shape[0])[:, None]


@pytest.mark.parametrize("logit", [-8.0, 8.0])
@pytest.mark.parametrize(
    "name", ["score function, 1 sample", "rebar 1, eta 1", "rebar 0.1, eta 0.3", "relax", "arm", "disarm"]
)
def test_rare_states_count(name: str, logit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """At ±8 the gradient is a matter of 1 draw in 3000: seen to 2 % with stratified instead of random noise."""
    monkeypatch.setattr("dab.estimators.discrete.uniform", stratified)
    monkeypatch.setattr("dab.estimators.disarm.uniform", stratified)
    torch.manual_seed(0)
    problem = Problem(exactness.network, (logit,), seed=4)
    mean = problem.draw((EVERYWHERE | PAIRS)[name](problem), 1_000_000)[:, 0].mean()
    torch.testing.assert_close(mean, exactness.exact(problem)[0][0], rtol=exactness.BIAS, atol=0)


# What the control variates learn, and from what


@pytest.mark.parametrize("kind", ["rebar", "relax", "relax, network alone"])
def test_control_parameters_get_the_slope_of_the_squared_gradient_and_nothing_else(kind: str) -> None:
    """By finite differences: so no part of the model's loss reaches them, and no part of the square is missing."""
    problem = PROBLEMS["network"]
    estimator = learning(kind, len(problem.logits))
    torch.testing.assert_close(
        control_gradient(estimator, problem), slope_of_square(estimator, problem), rtol=1e-5, atol=1e-8
    )


@pytest.mark.parametrize("kind", ["rebar", "relax", "relax, network alone"])
def test_the_control_loss_does_not_reach_the_model(kind: str) -> None:
    problem = PROBLEMS["elbo"]
    estimator = learning(kind, len(problem.logits))
    with_control = model_gradient(estimator, problem)
    assert torch.equal(with_control, model_gradient(estimator.requires_grad_(False), problem))


def learning(kind: str, units: int) -> nn.Module:
    torch.manual_seed(1)
    if kind == "rebar":
        return Rebar(0.6, 0.8).double()
    net = nn.Sequential(nn.Linear(units, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    return Relax(net, None, 0.6, 0.8 if kind == "relax" else None).double()


# The biased ones


def test_bias_is_what_it_was() -> None:
    golden = json.loads(bias.GOLDEN.read_text())
    for cost, rows in bias.table().items():
        for name, row in rows.items():
            was = golden[cost][name]
            noise = 6 * (row["error"] + was["error"]) + 1e-3
            assert row["bias"] == pytest.approx(was["bias"], abs=noise), (cost, name)
            assert row["cosine"] == pytest.approx(was["cosine"], abs=noise), (cost, name)
            assert row["variance"] == pytest.approx(was["variance"], rel=0.15, abs=1e-3), (cost, name)


def mean_gradient(problem: Problem, layer_at: Callable[[Tensor], nn.Module]) -> Tensor:
    """The exact mean of a layer estimator that is deterministic given its sample: `layer_at(state)` draws that one."""
    total = torch.zeros(len(problem.logits), dtype=torch.double)
    for state in states(len(problem.logits), total):
        q = exactness.log_q(state[None], torch.tensor([problem.logits], dtype=torch.double)).exp()
        total += q * problem.draw(Lift(layer_at(state)), 1)[0, : len(total)]
    return total


def straight_through_at(state: Tensor) -> nn.Module:
    return dab.StraightThrough(lambda z: state.expand_as(z), "probability")


def matched_bridge_at(state: Tensor) -> nn.Module:
    return dab.Bridge(lambda z: state.expand_as(z), matched(Bernoulli(), (len(state),)).double())


def reinmax_at(state: Tensor) -> nn.Module:
    layer = ReinMax()
    layer.sample = lambda logits: state.expand_as(logits)  # type: ignore[method-assign]
    return layer


EXACT = {
    straight_through_at: ("linear", "parity"),  # affine in each latent, whatever the interactions
    matched_bridge_at: ("linear", "parity"),  # slope 1 is straight-through on the probability
    reinmax_at: ("linear", "parity", "quadratic"),  # quadratic in each latent
}


@pytest.mark.parametrize("cost", ["linear", "parity", "quadratic", "network"])
@pytest.mark.parametrize("layer_at", EXACT, ids=lambda f: f.__name__)
def test_where_the_biased_ones_are_exact(layer_at: Callable[[Tensor], nn.Module], cost: str) -> None:
    truth = exactness.exact(PROBLEMS[cost])[0]
    error = (mean_gradient(PROBLEMS[cost], layer_at) - truth).norm() / truth.norm()
    assert (error < 1e-12) == (cost in EXACT[layer_at]), error


@pytest.mark.parametrize("routing", ["released", "equation", "additive"])
def test_a_bridge_over_a_linear_function_has_the_true_gradient(routing: str) -> None:
    """When the approximator is the hard function there is nothing to lose: a = h, whatever the routing."""
    torch.manual_seed(0)
    h = nn.Linear(4, 3).double()
    z = torch.randn(6, 4, dtype=torch.double, requires_grad=True)
    y, penalty = dab.Bridge(h, h, routing=routing)(z)
    bridged = torch.autograd.grad(y.sin().sum() + penalty.sum(), z)
    torch.testing.assert_close(bridged, torch.autograd.grad(h(z).sin().sum(), z), rtol=1e-12, atol=0)


def test_gradient_statistics_agree_with_enumeration() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 3, dtype=torch.double, requires_grad=True)
    s = gradient_statistics(Disarm(), logits, lambda b: (b.sum(1) - 1).square(), draws=400)
    assert s.cosine > 0.99 and s.z.abs().max() < 5 and s.mean.shape == (6,) and logits.grad is None


def test_enumeration_says_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="D <= 12"):
        exact_gradient(torch.zeros(1, 13), lambda b: b.sum(1))
