import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dab.precision import working_dtype
from dab.ranges import Several, ranged


class Categorical(nn.Module):
    """A sample of Cat(softmax(z)) over the last dimension, one-hot.  [B, ..., classes]

    A unit is one choice: `classes` numbers that hold log2(classes) bits together.

    evaluate    in evaluation mode: sample (as in training) or mode (the most likely class)
    """

    keeps_input = True

    @ranged
    def __init__(self, classes: Several = 8, evaluate: Literal["sample", "mode"] = "sample") -> None:
        super().__init__()
        self.classes = classes
        self.evaluate = evaluate
        self.bits_per_unit: float | None = math.log2(classes)
        self.unit_shape = (classes,)

    def forward(self, z: Tensor) -> Tensor:
        self.out_shape(tuple(z.shape[1:]))
        x = z.to(working_dtype(z))
        if self.training or self.evaluate == "sample":
            # The largest of logits with Gumbel noise. Clamped: the logarithm of a zero would hide its class for ever.
            tiny = torch.finfo(x.dtype).tiny
            x = x - torch.empty_like(x).exponential_().clamp_(min=tiny).log()
        one_hot = F.one_hot(x.argmax(-1), self.classes).to(z.dtype)
        return torch.where(z.isnan().any(-1, keepdim=True), torch.nan, one_hot)

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        if len(in_shape) < 1 or in_shape[-1] != self.classes:
            raise ValueError(
                f"Categorical with {self.classes} classes needs samples of shape [..., {self.classes}], given "
                f"{list(in_shape)}: reshape them, or change classes"
            )
        return tuple(in_shape)

    def extra_repr(self) -> str:
        return f"classes={self.classes}, evaluate={self.evaluate}"
