from collections.abc import Callable

from torch import Tensor

from dab.choice import one_of
from dab.estimators.noise import draw, score
from dab.estimators.perturbation import Perturbation


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

    def __init__(
        self,
        hard: Callable[[Tensor], Tensor],
        sigma: float = 0.5,
        samples: int = 10,
        noise: str = "gaussian",
        baseline: str = "leave_one_out",
        smoothed: bool = False,
        relative: bool = False,
    ) -> None:
        super().__init__(
            hard, sigma, samples, one_of("baseline", baseline, ("leave_one_out", "none")), relative, smoothed
        )
        self.family = one_of("noise", noise, ("gaussian", "gumbel"))

    def noise(self, like: Tensor) -> tuple[Tensor, Tensor]:
        drawn = draw(self.family, like)
        return drawn, score(self.family, drawn)
