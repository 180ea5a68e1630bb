"""Mistakes put into the layers for black boxes on purpose: the z-test, or what is asserted beside it, must notice."""

from collections.abc import Callable

import pytest
import torch
from exactness import Z_ALARM
from smoothed import PROBLEMS, Smooth, one_hot, verdict
from test_blackbox import SIGMA, argmax_of_five, between
from test_blackbox_layers import shifted_by_a_constant
from torch import Tensor, nn

from dab.estimators import IMLE, Interpolation, Perturbed, Smoothing
from dab.estimators.noise import draw


class TwiceTheNoise(Smoothing):
    """A wrong sigma in the points alone."""

    def noise(self, like: Tensor) -> tuple[Tensor, Tensor]:
        noise, score = super().noise(like)
        return 2 * noise, score


class SigmaForgotten(Smoothing):
    def linear(self, x: Tensor, differences: Tensor, score: Tensor) -> Tensor:
        return super().linear(x, differences, score * self.sigma)


class MultipliedBySigma(Smoothing):
    """As in TorchOpt."""

    def linear(self, x: Tensor, differences: Tensor, score: Tensor) -> Tensor:
        return super().linear(x, differences, score * self.sigma**2)


class SignError(Smoothing):
    def noise(self, like: Tensor) -> tuple[Tensor, Tensor]:
        noise, score = super().noise(like)
        return noise, -score


class BaselineOfAllSamples(Smoothing):
    """Its own value among those that are taken off: the mean is (K - 1) / K of what it should be."""

    def differences(self, values: Tensor, mean: Tensor, h: Tensor | None) -> Tensor:
        return values - mean


class PairsNotHalved(Smoothing):
    def differences(self, values: Tensor, mean: Tensor, h: Tensor | None) -> Tensor:
        plus, minus = values.chunk(2)
        return plus - minus


class PairsMixedUp(Smoothing):
    """Points with their mirrors in turn, values as if they came in halves."""

    def with_mirrors(self, noise: Tensor) -> Tensor:
        return torch.stack([noise, -noise], 1).flatten(0, 1)


class TwoPercentTooMuch(Smoothing):
    def linear(self, x: Tensor, differences: Tensor, score: Tensor) -> Tensor:
        return 1.02 * super().linear(x, differences, score)


class GaussianScore(Perturbed):
    def noise(self, like: Tensor) -> tuple[Tensor, Tensor]:
        noise = draw("gumbel", like)
        return noise, noise


class UndividedByLambda(IMLE):
    def gradient(self, g: Tensor, *rest: Tensor) -> Tensor:
        return super().gradient(g, *rest) * self.strength


class TheWrongWay(IMLE):
    """Towards worse solutions: as for a solver that minimises."""

    def gradient(self, g: Tensor, *rest: Tensor) -> Tensor:
        return -super().gradient(-g, *rest)


class Undivided(Interpolation):
    def gradient(self, g: Tensor, *rest: Tensor) -> Tensor:
        return super().gradient(g, *rest) * self.strength


class Swapped(Interpolation):
    def gradient(self, g: Tensor, *rest: Tensor) -> Tensor:
        return -super().gradient(g, *rest)


class NoBaseline(Smoothing):
    def differences(self, values: Tensor, mean: Tensor, h: Tensor | None) -> Tensor:
        return values


Case = tuple[Smooth, Callable[[Callable[[Tensor], Tensor]], nn.Module]]
PARITY, ARGMAX = PROBLEMS["parity"], argmax_of_five()
BIASED: dict[str, Case] = {
    "twice the noise": (PARITY, lambda hard: TwiceTheNoise(hard, SIGMA, 2)),
    "sigma forgotten": (PARITY, lambda hard: SigmaForgotten(hard, SIGMA, 2)),
    "multiplied by sigma": (PARITY, lambda hard: MultipliedBySigma(hard, SIGMA, 2)),
    "sign error": (PARITY, lambda hard: SignError(hard, SIGMA, 2)),
    "baseline of all samples": (PARITY, lambda hard: BaselineOfAllSamples(hard, SIGMA, 5, "leave_one_out")),
    "pairs not halved": (PARITY, lambda hard: PairsNotHalved(hard, SIGMA, 4)),
    "pairs mixed up": (PARITY, lambda hard: PairsMixedUp(hard, SIGMA, 4)),
    "two percent too much": (PARITY, lambda hard: TwoPercentTooMuch(hard, SIGMA, 4)),
}


@pytest.mark.parametrize("name", BIASED)
def test_the_z_test_sees(name: str) -> None:
    problem, make = BIASED[name]
    v = verdict(problem, make(problem.hard), problem.exact(SIGMA))
    assert v.z > Z_ALARM, f"|z| = {v.z:.1f} after {v.rows} rows"


def test_the_z_test_sees_a_gaussian_score_of_gumbel_noise() -> None:
    assert verdict(ARGMAX, GaussianScore(one_hot, SIGMA, 4, "gumbel"), ARGMAX.exact(SIGMA)).z > Z_ALARM


@pytest.mark.parametrize("mutant", [UndividedByLambda, TheWrongWay])
def test_the_z_test_sees_imle(mutant: type[IMLE]) -> None:
    assert verdict(ARGMAX, mutant(one_hot, 2.0, SIGMA, 2, "gumbel"), between(ARGMAX, 2.0)).z > Z_ALARM


def test_the_z_test_sees_rows_taken_one_by_one_where_they_see_each_other() -> None:
    """What a row does to the others' outputs is half of its gradient here."""
    p = PROBLEMS["above the mean"]
    apart = Smoothing(lambda z: p.hard(z), SIGMA, 2)  # which does not say that it is not row-wise
    assert verdict(p, apart, p.exact(SIGMA)).z > Z_ALARM


def test_a_missing_baseline_shows_in_a_constant() -> None:
    """Its mean is right: only what a constant does to the noise tells."""
    assert not shifted_by_a_constant(Smoothing, "antithetic") and not shifted_by_a_constant(Smoothing, "leave_one_out")
    assert shifted_by_a_constant(NoBaseline, "leave_one_out")


def exact_where_linear(layer: nn.Module) -> bool:
    """What test_interpolation_of_a_linear_function_is_its_gradient asserts."""
    z = torch.ones(2, 3, requires_grad=True)
    return torch.allclose(torch.autograd.grad(layer(z)[0].sum(), z)[0], torch.full_like(z, 2.0))


def test_a_linear_function_tells_factors_and_signs_of_interpolation() -> None:
    assert exact_where_linear(Interpolation(lambda t: 2 * t, 0.7))
    assert not exact_where_linear(Undivided(lambda t: 2 * t, 0.7))
    assert not exact_where_linear(Swapped(lambda t: 2 * t, 0.7))
