from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from dab.hard import Bernoulli, Levels
from dab.ranges import ranged
from dab.surrogate import hard_value, value_with_gradient, zero_penalty

PASSED = {"logit": lambda z: z, "probability": torch.sigmoid, "tanh": torch.tanh}


class StraightThrough(nn.Module):
    """The hard value forward, the identity backward. Only for hard functions that keep the shape.

    through     what the identity is taken of: logit (z itself), probability (sigmoid(z): the gradient passes the
                sigmoid), tanh (likewise), auto (probability for dab.hard.Bernoulli, tanh for dab.hard.Levels, which
                makes it finite scalar quantisation, logit otherwise)
    """

    @ranged
    def __init__(
        self, hard: Callable[[Tensor], Tensor], through: Literal["auto", "logit", "probability", "tanh"] = "auto"
    ) -> None:
        super().__init__()
        if through == "auto":
            through = "probability" if isinstance(hard, Bernoulli) else "tanh" if isinstance(hard, Levels) else "logit"
        self.hard = hard
        self.through = through

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        h = hard_value(self.hard, z)
        if h.shape != z.shape:
            raise ValueError(
                f"straight-through needs a hard function that keeps the shape, but this one turned "
                f"{list(z.shape)} into {list(h.shape)}: use dab.Bridge"
            )
        if not self.training:
            return h, zero_penalty(z)
        return value_with_gradient(h, gradient_of=PASSED[self.through](z)), zero_penalty(z)

    def extra_repr(self) -> str:
        return f"through={self.through}"
