from torch import Tensor, nn

from dab.estimators.objective import Logs, Objective, ObjectiveEstimator, per_sample


class Lift(nn.Module):
    """A layer estimator in the form of an objective estimator: the loss is objective(y) + penalty, batch mean.

    estimator = Lift(StraightThrough(Bernoulli()))
    loss, logs = estimator(encoder(x), lambda b: F.mse_loss(decoder(b), x, reduction="none").sum(1))
    loss.backward()

    layer       any module with y, penalty = layer(z), for example dab.Bridge, StraightThrough, Gumbel, ReinMax
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def control_parameters(self) -> list[nn.Parameter]:
        """None: what the layer learns (an approximator, say) is trained by its penalty, with the model."""
        return []

    def forward(self, logits: Tensor, objective: Objective) -> tuple[Tensor, Logs]:
        each, logs = self.each(logits, objective)
        return each.mean() + logs["penalty"], logs

    def each(self, logits: Tensor, objective: Objective) -> tuple[Tensor, Logs]:
        """The objective of every sample, [B], with the gradient of the loss: the penalty is in it without its value."""
        y, penalty = self.layer(logits)
        value = per_sample(objective(y), logits.shape[0])
        logs = {"objective": value.detach().mean(), "penalty": penalty.detach().mean()}
        return value + (penalty - penalty.detach()), logs


def lifted(estimator: nn.Module) -> nn.Module:
    """Any estimator in the form of an objective estimator."""
    return estimator if isinstance(estimator, ObjectiveEstimator) else Lift(estimator)
