from collections.abc import Callable

import torch
from torch import Tensor

from dab.estimators.perturbation import Perturbation
from dab.ranges import Count, Positive, ranged


class SPSA(Perturbation):
    """Simultaneous perturbation (Spall 1992): differences of hard(z ± step·e), all units of e at once plus or minus 1.

    layer = SPSA(hard, step=0.3)
    y, _ = layer(encoder(x))                            # y is hard(z), bit for bit
    F.mse_loss(decoder(y), x).backward()

    hard        any callable [B, ...] → [B, ...]
    step        how far each unit is moved
    pairs       random directions; 2 calls of `hard` for each
    relative    True: the step counts in standard deviations of z, as for Perturbation
    """

    @ranged
    def __init__(
        self, hard: Callable[[Tensor], Tensor], step: Positive = 0.3, pairs: Count = 1, relative: bool = False
    ) -> None:
        super().__init__(hard, step, 2 * pairs, "antithetic", relative)

    def noise(self, like: Tensor) -> tuple[Tensor, Tensor]:
        signs = 2 * torch.randint_like(like, 2) - 1
        return signs, signs  # divided by the step of each unit: 1 / e = e
