from typing import Literal

import torch
from torch import Tensor, nn

from dab.hard.bits import drawn, or_nan
from dab.precision import working_dtype
from dab.ranges import ranged


class Bernoulli(nn.Module):
    """A sample of Bern(sigmoid(z)), not reparameterised.

    evaluate    in evaluation mode: sample (as in training) or threshold (1 where the probability is above one half)
    """

    bits_per_unit: float | None = 1.0
    values = (0.0, 1.0)
    keeps_input = True

    @ranged
    def __init__(self, evaluate: Literal["sample", "threshold"] = "sample") -> None:
        super().__init__()
        self.evaluate = evaluate

    def forward(self, z: Tensor) -> Tensor:
        if self.evaluate == "threshold" and not self.training:
            return or_nan(z > 0, z)
        # float32 uniforms: bfloat16 has too few values between 0 and 1. Not torch.bernoulli: it aborts on NaN.
        p = torch.sigmoid(z.detach().to(working_dtype(z)))
        return drawn(p, torch.rand_like(p)).to(z.dtype)

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(in_shape)

    def extra_repr(self) -> str:
        return f"evaluate={self.evaluate}"
