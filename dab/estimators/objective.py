"""What the objective estimators share: a sample-wise gradient with respect to the logits becomes a loss."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dab.estimators.discrete import check_logits, family
from dab.precision import working_dtype
from dab.surrogate import value_with_gradient

Objective = Callable[[Tensor], Tensor]  # sample [B, ...] → [B]
Logs = dict[str, Tensor]


class Estimate(NamedTuple):
    value: Tensor  # [B], the objective at hard samples, with its graph
    gradient: Tensor  # like the logits, per sample: what comes in addition to the graph of `value`
    logs: Logs
    control: Tensor | None = None  # [], its graph reaches the estimator's own parameters and nothing else


class ObjectiveEstimator(nn.Module):
    """loss, logs = estimator(logits, objective)

    loss is the batch mean of the objective at hard samples. Its backward deposits the gradient estimate for whatever
    computed the logits (batch mean), the objective's own gradient at those samples (its parameters, and the logits
    where it contains them), and the gradients of the estimator's own parameters. In evaluation mode, and without
    gradients, the objective is called once and that is all.

    An implementation gives `estimate(logits, cost)`: logits are detached, float32 at least; cost(sample) -> [B] is
    the objective, checked.
    """

    def __init__(self, categorical: bool = False) -> None:
        super().__init__()
        self.categorical = categorical
        self.family = family(categorical)

    def estimate(self, logits: Tensor, cost: Objective) -> Estimate:
        raise NotImplementedError

    def control_parameters(self) -> list[nn.Parameter]:
        """Parameters that lower the variance and touch nothing else: for their own optimizer group."""
        return list(self.parameters())

    def forward(self, logits: Tensor, objective: Objective) -> tuple[Tensor, Logs]:
        each, logs = self.each(logits, objective)
        return each.mean(), logs

    def each(self, logits: Tensor, objective: Objective) -> tuple[Tensor, Logs]:
        """The objective of every sample, [B], with the gradient of the loss: it may stand inside another objective."""
        check_logits(logits, self.categorical)

        def cost(sample: Tensor) -> Tensor:
            # A copy, because the objective may change its sample in place and the estimate needs it afterwards.
            return per_sample(objective(sample.to(logits.dtype, copy=True)), logits.shape[0])

        x = logits.detach().to(working_dtype(logits))
        if not (self.training and torch.is_grad_enabled()):
            value = cost(self.family.sample(x))
            return value, {"objective": value.detach().mean()}
        e = self.estimate(x, cost)
        value = e.value.detach()
        logs = {"objective": value.mean(), **{name: log.detach() for name, log in e.logs.items()}}
        return value_with_gradient(value, gradient_of=e.value + self.deposit(logits, e)), logs

    def deposit(self, logits: Tensor, e: Estimate) -> Tensor:
        """[B], whose value means nothing and whose gradient is the estimate, sample by sample."""
        into_logits = (logits.to(e.gradient.dtype) * e.gradient.detach()).flatten(1).sum(1)
        return into_logits if e.control is None else into_logits + e.control  # the mean of equals is one of them


def per_sample(value: Tensor, batch: int) -> Tensor:
    """What an objective returned, checked: [B], in float32 at least."""
    if value.shape != (batch,):
        raise ValueError(
            f"the objective returned {list(value.shape)}, but must return one number a sample, [{batch}]: "
            "sum over everything but the batch dimension"
        )
    return value.to(working_dtype(value))
