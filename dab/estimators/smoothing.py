from collections.abc import Callable

import torch
from torch import Tensor

from dab.estimators.perturbation import Baseline, Perturbation
from dab.ranges import Count, Positive, ranged


class Smoothing(Perturbation):
    """The gradient of E hard(z + σe), e Gaussian, from values alone: for any black box, of any output shape. Unbiased.

    layer = Smoothing(hard, sigma=0.3, samples=8)
    y, _ = layer(encoder(x))                            # y is hard(z), bit for bit
    F.mse_loss(decoder(y), x).backward()

    Evolution strategies inside a layer, with credit for every output. Its noise grows with the units of z, and its
    bias with sigma; where sigma is small beside the steps of a staircase, most samples see nothing.

    hard, sigma, samples, relative      as for Perturbation (dab/estimators/perturbation.py)
    baseline    antithetic | leave_one_out | centre | none
    """

    @ranged
    def __init__(
        self,
        hard: Callable[[Tensor], Tensor],
        sigma: Positive = 0.3,
        samples: Count = 4,
        baseline: Baseline = "antithetic",
        relative: bool = False,
    ) -> None:
        super().__init__(hard, sigma, samples, baseline, relative)

    def noise(self, like: Tensor) -> tuple[Tensor, Tensor]:
        noise = torch.randn_like(like)
        return noise, noise
