import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dab.estimators.objective import Estimate, Objective, ObjectiveEstimator
from dab.precision import widen_
from dab.ranges import Finite, Positive, ranged
from dab.stateless import parameters_by_name

Values = dict[str, Tensor]  # of the estimator's parameters, by name
Parts = tuple[Tensor, ...]
WithParts = tuple[Tensor, Parts]  # what is differentiated, or its gradient, and what comes with it


class Rebar(ObjectiveEstimator):
    """REBAR (Tucker et al. 2017): the score function with a relaxed sample as control variate. Unbiased.

    estimator = Rebar(temperature=0.5)
    loss, logs = estimator(encoder(x), lambda b: F.mse_loss(decoder(b), x, reduction="none").sum(1))
    loss.backward()             # also deposits the gradient of the variance for eta and the temperature

    With z the perturbed logits, b = hard(z), z' a fresh z given b, and c(z) = eta f(relax(z)):

        (f(b) - c(z')) grad log q(b)  +  grad c(z)  -  grad c(z')

    where the gradients of c pass through z and z' alone. The objective is called three times, once at the hard
    sample and twice at relaxed ones, so it must be differentiable in the sample and defined between 0 and 1. What it
    deposits for its own parameters comes from the hard call alone.

    temperature   of the relaxation, at the start
    eta           weight of the control variate, at the start; 0 is the score function without baseline
    learn         train both for variance: the gradient of the sum over latents (batch mean) of the squared estimate.
                  It scales with the square of the objective: use Adam, in a group of `control_parameters()`. What the
                  objective adds by containing the logits (log q, an analytic KL) is left out of that square
    categorical   False: Bernoulli logits [B, D]; True: categorical logits [B, G, K]
    """

    @ranged
    def __init__(
        self, temperature: Positive = 0.5, eta: Finite = 1.0, learn: bool = True, categorical: bool = False
    ) -> None:
        super().__init__(categorical)
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature)), requires_grad=learn)
        self.eta = nn.Parameter(torch.tensor(float(eta)), requires_grad=learn)

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **options: Any) -> "Rebar":
        super()._apply(fn, *args, **options)
        widen_(self)  # `.bfloat16()` leaves it float32: that is what it computes in
        return self

    def estimate(self, logits: Tensor, cost: Objective) -> Estimate:
        values = parameters_by_name(self)
        if is_transformed(logits):
            variance, value, gradient, control = self._estimate_transformed(logits, cost, values)
        else:
            variance, (value, gradient) = self.square(logits, cost, values)
            control = self.control_deposit(variance)
        logs = {"eta": self.eta, "temperature": self.log_temperature.exp(), "gradient_square": variance}
        return Estimate(value, gradient, logs, control)

    def _estimate_transformed(
        self, logits: Tensor, cost: Objective, values: Values
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        trained = {name: value for name, value in values.items() if value.requires_grad}

        def square(trained: Values) -> WithParts:
            variance, parts = self.square(logits, cost, values | trained)
            return variance, (variance, *parts)

        if not trained:
            variance, value, gradient = square({})[1]
            return variance, value, gradient, None
        slopes, (variance, value, gradient) = torch.func.grad(square, has_aux=True)(trained)
        return variance, value, gradient, _deposit(list(trained.values()), list(slopes.values()))

    def square(self, logits: Tensor, cost: Objective, values: Values) -> WithParts:
        """The squared estimate: its variance up to a constant, because its mean does not depend on c.

        logits: [B, ...], detached: the model is out of reach  → [], (the objective at b [B], the estimate [B, ...])
        """

        def difference(leaf: Tensor) -> WithParts:
            z = self.family.perturbed(leaf)
            b = self.family.hard(z.detach())
            value = cost(b)
            c = self.control(z, logits, cost, values)  # [B]
            c_given_b = self.control(self.conditional(leaf, b), logits, cost, values)  # [B]
            return (c - c_given_b).sum(), (b, value, c_given_b)

        pathwise, (b, value, c_given_b) = self.pathwise(difference, logits)
        weight = self.score_weight(value.detach(), c_given_b)
        gradient = weight.reshape(-1, *[1] * (b.dim() - 1)) * self.family.score(logits, b) + pathwise
        return gradient.square().flatten(1).sum(1).mean(), (value, gradient)

    def conditional(self, logits: Tensor, b: Tensor) -> Tensor:
        return self.family.conditional(logits, b)

    def control(self, z: Tensor, logits: Tensor, cost: Objective, values: Values) -> Tensor:
        """c(z), with these values of the parameters.  z, logits (constants): [B, ...] → [B]"""
        return values["eta"] * cost(self.relax(z, values))

    def relax(self, z: Tensor, values: Values) -> Tensor:
        return self.family.relax(z, values["log_temperature"].exp())

    def score_weight(self, value: Tensor, c_given_b: Tensor) -> Tensor:
        """[B], [B] → [B]"""
        return value - c_given_b

    def pathwise(self, difference: Callable[[Tensor], WithParts], logits: Tensor) -> WithParts:
        """grad c(z) - grad c(z') [B, ...], itself differentiable if c learns; and what `difference` has besides."""
        if is_transformed(logits):
            return torch.func.grad(difference, has_aux=True)(logits)
        leaf = logits.detach().requires_grad_()
        c, parts = difference(leaf)
        if not c.requires_grad:  # an objective that does not depend on the sample
            return torch.zeros_like(leaf), parts
        (gradient,) = torch.autograd.grad(
            c, leaf, create_graph=bool(self.trained()), allow_unused=True, materialize_grads=True
        )
        return gradient, parts

    def trained(self) -> list[nn.Parameter]:
        return [p for p in self.control_parameters() if p.requires_grad]

    def control_deposit(self, variance: Tensor) -> Tensor | None:
        """A scalar with the gradient of the variance for the control parameters; the objective's get none."""
        trained = self.trained()
        if not trained:
            return None
        return _deposit(trained, torch.autograd.grad(variance, trained, allow_unused=True, materialize_grads=True))

    def extra_repr(self) -> str:
        temperature, eta = self.log_temperature.exp().item(), self.eta.item()
        return f"temperature={temperature:g}, eta={eta:g}, learn={bool(self.trained())}"


def is_transformed(x: Tensor) -> bool:
    """Whether torch.compile or torch.func looks on: then gradients must be torch.func's, which both can see through.

    Otherwise they are autograd's, which allows an objective what torch.func does not: checkpointing, batch norm, ...
    """
    if torch.compiler.is_compiling():
        return True
    try:
        x.detach().requires_grad_()
    except RuntimeError:  # so torch.func says
        return True
    return False


def _deposit(parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """A scalar with these gradients for these parameters."""
    return torch.stack([(p * g.detach()).sum() for p, g in zip(parameters, gradients)]).sum()
