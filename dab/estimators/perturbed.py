from collections.abc import Callable
from typing import Literal

from torch import Tensor

from dab.estimators.noise import draw, score
from dab.estimators.perturbation import Perturbation
from dab.ranges import Count, Positive, ranged


class Perturbed(Perturbation):
    """A perturbed optimizer (Berthet et al. 2020): the mean solution of a solver under noise, and its gradient.

    layer = Perturbed(hard, sigma=0.5, samples=10, smoothed=True)
    y, _ = layer(encoder(x))
    F.mse_loss(y, solution).backward()

    With Gumbel noise the perturbed argmax is softmax(z / sigma) in the mean.

    hard        any callable [B, ...] → [B, ...]; meant for solvers of linear programmes
    sigma       scale of the noise
    samples     perturbed calls of `hard`
    noise       gaussian | gumbel
    baseline    leave_one_out (least variance) | none (as published)
    smoothed    False: y is hard(z), bit for bit. True: the mean of the perturbed solutions, as published;
                `hard_forward` tells. In evaluation mode y is always hard
    relative    True: sigma counts in standard deviations of z
    """

    @ranged
    def __init__(
        self,
        hard: Callable[[Tensor], Tensor],
        sigma: Positive = 0.5,
        samples: Count = 10,
        noise: Literal["gaussian", "gumbel"] = "gaussian",
        baseline: Literal["leave_one_out", "none"] = "leave_one_out",
        smoothed: bool = False,
        relative: bool = False,
    ) -> None:
        super().__init__(hard, sigma, samples, baseline, relative, smoothed)
        self.family = noise

    def noise(self, like: Tensor) -> tuple[Tensor, Tensor]:
        drawn = draw(self.family, like)
        return drawn, score(self.family, drawn)
