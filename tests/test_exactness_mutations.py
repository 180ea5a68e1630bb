"""Bugs that were found in public code, put back in on purpose: the exactness suite must notice each of them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from exactness import PROBLEMS, Z_ALARM, control_gradient, model_gradient, slope_of_square, verdict
from torch import Tensor, nn

from dab.estimators.disarm import Arm, Disarm
from dab.estimators.discrete import Binary
from dab.estimators.objective import Estimate, Objective, ObjectiveEstimator
from dab.estimators.rebar import Parts, Rebar
from dab.estimators.score_function import ScoreFunction
from dab.stateless import parameters_by_name


class ConditionalSampleAsConstant(Rebar):
    def conditional(self, logits: Tensor, b: Tensor) -> Tensor:
        return super().conditional(logits, b).detach()


class ConditionalSampleOfTheOtherState(Rebar):
    def conditional(self, logits: Tensor, b: Tensor) -> Tensor:
        return super().conditional(logits, 1 - b)


class NoPathwiseTerm(Rebar):
    def pathwise(self, *args: Any) -> tuple[Tensor, Parts]:
        gradient, parts = super().pathwise(*args)
        return torch.zeros_like(gradient), parts


class NoEtaInTheScoreTerm(Rebar):
    def score_weight(self, value: Tensor, c_given_b: Tensor) -> Tensor:
        return value


class EtaForgottenInThePathwiseTerm(Rebar):
    def pathwise(self, *args: Any) -> tuple[Tensor, Parts]:
        gradient, parts = super().pathwise(*args)
        return gradient / self.eta.detach(), parts


class ObjectiveDifferentiatedTwice(Rebar):
    """The relaxed call's own gradient is deposited beside that of the hard one."""

    def estimate(self, logits: Tensor, cost: Objective) -> Estimate:
        e = super().estimate(logits, cost)
        relaxed = self.relax(self.family.perturbed(logits), parameters_by_name(self)).detach()
        return e._replace(value=e.value + cost(relaxed))


class MeanForSumOverLatents(Binary):
    def score(self, logits: Tensor, b: Tensor) -> Tensor:
        return super().score(logits, b) / logits.shape[-1]


class MeanForSumInTheLoss(ScoreFunction):
    def deposit(self, logits: Tensor, e: Estimate) -> Tensor:
        return super().deposit(logits, e) / logits.shape[1]


class BaselineOfAllSamples(ScoreFunction):
    def baseline(self, value: Tensor) -> Tensor:
        return value.mean(0).expand_as(value)


class PairSwapped(Arm):
    def factor(self, logits: Tensor, u: Tensor, b: Tensor, partner: Tensor) -> Tensor:
        return 0.5 - u


class WrongSideOfTheLogit(Disarm):
    def factor(self, logits: Tensor, u: Tensor, b: Tensor, partner: Tensor) -> Tensor:
        return (b - partner) * torch.sigmoid(logits) / 2


class TwoPercentTooMuch(ScoreFunction):
    def deposit(self, logits: Tensor, e: Estimate) -> Tensor:
        return 1.02 * super().deposit(logits, e)


def with_mean_for_sum() -> nn.Module:
    estimator = ScoreFunction(2)
    estimator.family = MeanForSumOverLatents()
    return estimator


BIASED: dict[str, Callable[[], nn.Module]] = {
    "z~ as a constant": lambda: ConditionalSampleAsConstant(1.0, 1.0, learn=False),
    "z~ of the other state": lambda: ConditionalSampleOfTheOtherState(1.0, 1.0, learn=False),
    "no pathwise term": lambda: NoPathwiseTerm(1.0, 0.3, learn=False),
    "no eta in the score term": lambda: NoEtaInTheScoreTerm(1.0, 0.3, learn=False),
    "eta forgotten in the pathwise term": lambda: EtaForgottenInThePathwiseTerm(1.0, 0.3, learn=False),
    "objective differentiated twice": lambda: ObjectiveDifferentiatedTwice(1.0, 1.0, learn=False),
    "mean for sum over latents": with_mean_for_sum,
    "mean for sum in the loss": lambda: MeanForSumInTheLoss(2),
    "baseline of all samples": lambda: BaselineOfAllSamples(2),
    "arm, pair swapped": PairSwapped,
    "disarm, wrong side": WrongSideOfTheLogit,
}


@pytest.mark.parametrize("name", BIASED)
def test_the_z_test_sees(name: str) -> None:
    torch.manual_seed(0)
    v = verdict(PROBLEMS["elbo"], BIASED[name]())
    assert v.z > Z_ALARM, f"|z| = {v.z:.1f} after {v.rows} rows"


def test_the_z_test_sees_the_two_percent_it_promises() -> None:
    torch.manual_seed(0)
    assert verdict(PROBLEMS["network"], TwoPercentTooMuch(2)).z > Z_ALARM


class ControlLossAsItIs(Rebar):
    """The variance added to the loss: its gradient also reaches the decoder."""

    def control_deposit(self, variance: Tensor) -> Tensor | None:
        return variance if self.trained() else None


class ModelLossReachesTheControl(Rebar):
    """The estimate not taken as a constant: minimising the loss now moves eta."""

    def deposit(self, logits: Tensor, e: Estimate) -> Tensor:
        into_logits = (logits * e.gradient).sum() / logits.shape[0]
        return into_logits if e.control is None else into_logits + e.control

    def control_deposit(self, variance: Tensor) -> Tensor:
        trained = self.trained()
        gradients = torch.autograd.grad(variance, trained, retain_graph=True)
        return torch.stack([(p * g).sum() for p, g in zip(trained, gradients)]).sum()


class GradientWithoutItsGraph(Rebar):
    """The pathwise term as a constant in the variance: half of what eta should hear is missing."""

    def pathwise(self, *args: Any) -> tuple[Tensor, Parts]:
        gradient, parts = super().pathwise(*args)
        return gradient.detach(), parts


def leaks_into_the_model(estimator: ObjectiveEstimator) -> bool:
    problem = PROBLEMS["elbo"]
    with_control = model_gradient(estimator, problem)
    return not torch.equal(with_control, model_gradient(estimator.requires_grad_(False), problem))


def control_is_wrong(estimator: ObjectiveEstimator) -> bool:
    problem = PROBLEMS["network"]
    return not torch.allclose(control_gradient(estimator, problem), slope_of_square(estimator, problem), rtol=1e-5)


def test_the_leak_checks_see() -> None:
    assert not leaks_into_the_model(Rebar(0.6, 0.8).double()) and not control_is_wrong(Rebar(0.6, 0.8).double())
    assert leaks_into_the_model(ControlLossAsItIs(0.6, 0.8).double())
    assert control_is_wrong(ModelLossReachesTheControl(0.6, 0.8).double())
    assert control_is_wrong(GradientWithoutItsGraph(0.6, 0.8).double())
