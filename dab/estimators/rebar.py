import math

import torch
from torch import Tensor, nn

from dab.estimators.discrete import check_positive
from dab.estimators.objective import Estimate, Objective, ObjectiveEstimator


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

    def __init__(
        self, temperature: float = 0.5, eta: float = 1.0, learn: bool = True, categorical: bool = False
    ) -> None:
        super().__init__(categorical)
        check_positive(temperature=temperature)
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature)), requires_grad=learn)
        self.eta = nn.Parameter(torch.tensor(float(eta)), requires_grad=learn)

    @torch.compiler.disable  # compiled graphs cannot be differentiated twice
    def estimate(self, logits: Tensor, cost: Objective) -> Estimate:
        leaf = logits.requires_grad_()  # detached by the caller: the model is out of reach of what follows
        z = self.family.perturbed(leaf)
        b = self.family.hard(z.detach())
        value = cost(b)
        c = self.control(z, leaf.detach(), cost)  # [B]
        c_given_b = self.control(self.conditional(leaf, b), leaf.detach(), cost)  # [B]
        weight = self.score_weight(value.detach(), c_given_b)
        score = self.family.score(leaf.detach(), b)
        gradient = weight.reshape(-1, *[1] * (b.dim() - 1)) * score + self.pathwise(c, c_given_b, leaf)
        variance = gradient.square().flatten(1).sum(1).mean()  # up to a constant: the mean does not depend on c
        logs = {"eta": self.eta, "temperature": self.log_temperature.exp(), "gradient_square": variance}
        return Estimate(value, gradient, logs, self.control_deposit(variance))

    def conditional(self, logits: Tensor, b: Tensor) -> Tensor:
        return self.family.conditional(logits, b)

    def control(self, z: Tensor, logits: Tensor, cost: Objective) -> Tensor:
        """c(z).  z, logits (constants): [B, ...] → [B]"""
        return self.eta * cost(self.relax(z))

    def relax(self, z: Tensor) -> Tensor:
        return self.family.relax(z, self.log_temperature.exp())

    def score_weight(self, value: Tensor, c_given_b: Tensor) -> Tensor:
        """[B], [B] → [B]"""
        return value - c_given_b

    def pathwise(self, c: Tensor, c_given_b: Tensor, leaf: Tensor) -> Tensor:
        """grad c(z) - grad c(z'), itself differentiable if the control variate learns.  → [B, ...]"""
        difference = (c - c_given_b).sum()
        if not difference.requires_grad:  # an objective that does not depend on the sample
            return torch.zeros_like(leaf)
        (gradient,) = torch.autograd.grad(
            difference, leaf, create_graph=bool(self.trained()), allow_unused=True, materialize_grads=True
        )
        return gradient

    def trained(self) -> list[nn.Parameter]:
        return [p for p in self.control_parameters() if p.requires_grad]

    def control_deposit(self, variance: Tensor) -> Tensor | None:
        """A scalar with the gradient of the variance for the control parameters; the objective's get none."""
        trained = self.trained()
        if not trained:
            return None
        gradients = torch.autograd.grad(variance, trained, allow_unused=True, materialize_grads=True)
        return torch.stack([(p * g).sum() for p, g in zip(trained, gradients)]).sum()

    def extra_repr(self) -> str:
        temperature, eta = self.log_temperature.exp().item(), self.eta.item()
        return f"temperature={temperature:g}, eta={eta:g}, learn={bool(self.trained())}"
