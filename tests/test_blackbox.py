"""Layers for black boxes and solvers against gradients known in closed form or by quadrature: see tests/smoothed.py."""

import math

import exactness
import pytest
import smoothed
import torch
from exactness import Verdict
from smoothed import PROBLEMS, Smooth, one_hot, verdict
from torch import Tensor, nn

from dab.estimators import IMLE, SPSA, Identity, Interpolation, Perturbed, Smoothing
from dab.estimators.noise import sum_of_gamma
from dab.hard import ShortestPath

SIGMA = 0.5
UNBIASED = {
    "antithetic, 2": lambda hard: Smoothing(hard, SIGMA, 2),
    "antithetic, 6": lambda hard: Smoothing(hard, SIGMA, 6),
    "leave one out, 2": lambda hard: Smoothing(hard, SIGMA, 2, "leave_one_out"),
    "leave one out, 5": lambda hard: Smoothing(hard, SIGMA, 5, "leave_one_out"),
    "centre": lambda hard: Smoothing(hard, SIGMA, 1, "centre"),
    "perturbed": lambda hard: Perturbed(hard, SIGMA, 4),
    "perturbed, as published": lambda hard: Perturbed(hard, SIGMA, 4, baseline="none", smoothed=True),
}
CASES = [(problem, name) for problem in PROBLEMS for name in UNBIASED]
THETA, SOFT = (-0.6, 1.9, -0.2, 1.1, -1.0), (0.0055, 0.8150, 0.0122, 0.1648, 0.0025)  # sigma 0.5, printed elsewhere


def unbiased(v: Verdict) -> None:
    assert v.powerful, f"a standard error of {v.relative_error:.2%} of the gradient after {v.rows} rows sees nothing"
    assert v.unbiased, f"|z| = {v.z:.1f} > {exactness.Z_ALARM:.1f}"


@pytest.mark.parametrize(("problem", "name"), CASES, ids=lambda part: part.replace(", ", "-").replace(" ", "_"))
def test_smoothing_is_unbiased_for_the_smoothed_function(problem: str, name: str) -> None:
    p = PROBLEMS[problem]
    unbiased(verdict(p, UNBIASED[name](p.hard), p.exact(SIGMA)))


def test_the_false_alarms_are_shared_by_all_coordinates() -> None:
    assert sum(len(PROBLEMS[p].z) + 1 for p, _ in CASES) + 60 <= exactness.COORDINATES  # 60: the other tests here


def test_the_step_at_zero_by_hand() -> None:
    """Variance 0.25: the density of the noise at zero."""
    assert PROBLEMS["heaviside"].exact(0.5).item() == pytest.approx(0.7979, abs=5e-5)


@pytest.mark.parametrize("problem", ["parity", "stairs", "one-hot"])
def test_spsa_is_the_mean_over_all_signs(problem: str) -> None:
    p = PROBLEMS[problem]
    unbiased(verdict(p, SPSA(p.hard, 0.4), smoothed.by_signs(p, 0.4)))


def gumbel_softmax(z: Tensor, sigma: float) -> Tensor:
    return (z / sigma).softmax(-1)


def argmax_of_five() -> Smooth:
    return Smooth(one_hot, THETA, (1.0, -1.0, 0.3, 2.0, 0.0), gumbel_softmax)


@pytest.mark.parametrize("baseline", ["leave_one_out", "none"])
def test_the_gumbel_perturbed_argmax_has_the_gradient_of_a_softmax(baseline: str) -> None:
    p = argmax_of_five()
    unbiased(verdict(p, Perturbed(one_hot, SIGMA, 4, "gumbel", baseline), p.exact(SIGMA)))


def test_the_gumbel_perturbed_argmax_is_a_softmax() -> None:
    torch.manual_seed(0)
    layer = Perturbed(one_hot, SIGMA, 200_000, "gumbel", smoothed=True)
    mean = layer(torch.tensor([THETA], dtype=torch.double))[0][0]
    expected = gumbel_softmax(torch.tensor(THETA, dtype=torch.double), SIGMA)
    assert expected.tolist() == pytest.approx(SOFT, abs=5e-4)  # printed from samples
    assert ((mean - expected).abs() < 5 * (expected * (1 - expected) / 200_000).sqrt()).all()
    assert torch.equal(layer.eval()(torch.tensor([THETA]))[0], one_hot(torch.tensor([THETA])))


def between(p: Smooth, strength: float) -> Tensor:
    """What I-MLE with Gumbel noise and an argmax must have as its mean: a difference of softmaxes."""
    z = torch.tensor(p.z, dtype=torch.double)
    return (gumbel_softmax(z, SIGMA) - gumbel_softmax(z - strength * p.arrives(), SIGMA)) / strength


@pytest.mark.parametrize("as_published", [False, True])
@pytest.mark.parametrize("strength", [0.3, 2.0])
def test_imle_is_a_difference_of_softmaxes(as_published: bool, strength: float) -> None:
    p = argmax_of_five()
    layer = IMLE(one_hot, strength, SIGMA, 2, "gumbel", smoothed=as_published)
    unbiased(verdict(p, layer, between(p, strength)))


@pytest.mark.parametrize("k", [1, 5])
def test_so_many_sums_of_gammas_make_a_gumbel(k: int) -> None:
    """With ten terms of the series: mean H(10) - log 10, variance the sum of 1 / i²."""
    torch.manual_seed(0)
    n = 200_000
    together = sum_of_gamma(torch.zeros(k, n, dtype=torch.double), k).sum(0)
    variance = sum(1 / i**2 for i in range(1, 11))
    mean = sum(1 / i for i in range(1, 11)) - math.log(10)
    assert abs(together.mean() - mean) < 5 * (variance / n) ** 0.5
    fourth = (together - mean).pow(4).mean()
    assert abs(together.var() - variance) < 5 * ((fourth - variance**2) / n) ** 0.5


# Without noise


def gradient(layer: nn.Module, z: Tensor, g: Tensor) -> Tensor:
    z = z.clone().requires_grad_()
    return torch.autograd.grad((layer(z)[0] * g).sum(), z)[0]


class Falling(nn.Module):
    sense = "min"

    def forward(self, z: Tensor) -> Tensor:
        return -z


@pytest.mark.parametrize("relative", [False, True])
def test_interpolation_of_a_linear_function_is_its_gradient(relative: bool) -> None:
    torch.manual_seed(0)
    z, g = torch.randn(2, 4, 3, dtype=torch.double)
    for make in (Interpolation, IMLE):
        rising = make(lambda t: 2 * t, strength=0.7, relative=relative)
        torch.testing.assert_close(gradient(rising, z, g), 2 * g)
        torch.testing.assert_close(gradient(make(Falling(), strength=0.7, relative=relative), z, g), -g)


@pytest.mark.parametrize("sense", ["max", "min"])
def test_interpolation_goes_to_the_better_solution(sense: str) -> None:
    """By hand: the argmax of (1, 0.5) moved by 2 against a loss on the first unit; one that minimises, mirrored."""
    sign = 1 if sense == "max" else -1

    def hard(z: Tensor) -> Tensor:
        return one_hot(sign * z)

    hard.sense = sense  # type: ignore[attr-defined]
    z, g = sign * torch.tensor([[1.0, 0.5]]), torch.tensor([[1.0, 0.0]])
    expected = sign * torch.tensor([[0.5, -0.5]])
    assert torch.equal(gradient(Interpolation(hard, 2.0), z, g), expected)
    assert torch.equal(gradient(IMLE(hard, 2.0, sigma=1e-6), z, g), expected)
    assert not gradient(Interpolation(hard, 0.4), z, g).any()  # not far enough: it stays where it is


def test_relative_strength_does_not_see_the_size_of_the_gradient() -> None:
    torch.manual_seed(0)
    hard = ShortestPath(3, 3)
    z, g = torch.rand(8, hard.units), torch.randn(8, hard.units)
    layer = Interpolation(hard, 0.5, relative=True)
    once = gradient(layer, z, g)
    assert once.any() and not gradient(layer, z, 0 * g).any()
    torch.testing.assert_close(gradient(layer, z, 1000 * g), 1000 * once)
    torch.testing.assert_close(gradient(Interpolation(hard, 0.5, relative=True), z[:1], g[:1]), once[:1])


def test_identity_passes_nothing_that_the_solver_does_not_see() -> None:
    torch.manual_seed(0)
    z, g = torch.randn(2, 4, 12, dtype=torch.double)
    hard = ShortestPath(3, 3)
    passed = gradient(Identity(hard), z, g)
    centred = z - z.mean(1, keepdim=True)
    torch.testing.assert_close(passed.sum(1), torch.zeros(4, dtype=torch.double))
    torch.testing.assert_close((passed * centred).sum(1), torch.zeros(4, dtype=torch.double))
    assert ((passed * g).sum(1) < 0).all()  # a solver that minimises
    assert torch.equal(gradient(Identity(hard, "none"), z, g), -g)
    assert torch.equal(gradient(Identity(one_hot, "none"), z, g), g)
