import torch
from torch import Tensor

from dab.estimators.objective import Estimate, Objective, ObjectiveEstimator
from dab.ranges import Count, ranged


class ScoreFunction(ObjectiveEstimator):
    """REINFORCE (Williams 1992): (f(b) - baseline) grad log q(b). Unbiased; f need not be differentiable in b.

    estimator = ScoreFunction(samples=2)
    loss, logs = estimator(encoder(x), lambda b: F.mse_loss(decoder(b), x, reduction="none").sum(1))
    loss.backward()

    samples       samples a step, and so calls of the objective. The baseline of each is the mean of the others
                  (Kool et al. 2019); with one sample there is none
    categorical   False: Bernoulli logits [B, D]; True: categorical logits [B, G, K]
    """

    @ranged
    def __init__(self, samples: Count = 2, categorical: bool = False) -> None:
        super().__init__(categorical)
        self.samples = samples

    def estimate(self, logits: Tensor, cost: Objective) -> Estimate:
        b = [self.family.sample(logits) for _ in range(self.samples)]
        value = torch.stack([cost(sample) for sample in b])  # [samples, B]
        advantage = value.detach() - self.baseline(value.detach())
        each = [_rows(a, logits) * self.family.score(logits, sample) for a, sample in zip(advantage, b)]
        return Estimate(value.mean(0), torch.stack(each).mean(0), {})

    def baseline(self, value: Tensor) -> Tensor:
        """The mean of the other samples.  [samples, B] → [samples, B]"""
        if self.samples == 1:
            return torch.zeros_like(value)
        return (value.sum(0) - value) / (self.samples - 1)

    def extra_repr(self) -> str:
        return f"samples={self.samples}"


def _rows(weight: Tensor, like: Tensor) -> Tensor:
    return weight.reshape(-1, *[1] * (like.dim() - 1))  # [B] → [B, 1, ...]
