from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dab.hard import Bernoulli, Levels
from dab.ranges import ranged
from dab.surrogate import check_shape_kept, hard_value, value_with_gradient, zero_penalty

PASSED = {"logit": lambda z: z, "probability": torch.sigmoid, "tanh": torch.tanh, "clipped": F.hardtanh}


class StraightThrough(nn.Module):
    """The hard value forward, the identity backward. Only for hard functions that keep the shape.

    through     what the identity is taken of: logit (z itself), probability (sigmoid(z): the gradient passes the
                sigmoid), tanh (likewise), clipped (z between -1 and 1, nothing beyond), auto (probability for
                dab.hard.Bernoulli, tanh for dab.hard.Levels, which makes it finite scalar quantisation, logit
                otherwise)
    """

    needs_same_shape = True

    @ranged
    def __init__(
        self,
        hard: Callable[[Tensor], Tensor],
        through: Literal["auto", "logit", "probability", "tanh", "clipped"] = "auto",
    ) -> None:
        super().__init__()
        if through == "auto":
            through = "probability" if isinstance(hard, Bernoulli) else "tanh" if isinstance(hard, Levels) else "logit"
        self.hard = hard
        self.through = through

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        h = hard_value(self.hard, z)
        check_shape_kept("StraightThrough", z, h)
        if not self.training:
            return h, zero_penalty(z)
        return value_with_gradient(h, gradient_of=PASSED[self.through](z)), zero_penalty(z)

    def extra_repr(self) -> str:
        return f"through={self.through}"
