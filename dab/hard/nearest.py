import math

import torch
from torch import Tensor, nn

from dab.hard.kmeans import nearest
from dab.precision import full_precision, working_dtype
from dab.ranges import Count, Several, ranged


class Nearest(nn.Module):
    """The nearest of the words of a codebook, in the place of every vector (the first of equals).  [B, ..., dim]

    A unit is one word: `dim` numbers that hold log2(words) bits together. The codebook starts at standard normal
    numbers, belongs to the model at inference too, and stays as it is unless dab.estimators.VectorQuantization has it.
    """

    keeps_input = True

    @ranged
    def __init__(self, words: Several = 64, dim: Count = 8) -> None:
        super().__init__()
        self.codebook = nn.Parameter(torch.randn(words, dim), requires_grad=False)
        self.bits_per_unit: float | None = math.log2(words)
        self.unit_shape = (dim,)

    def forward(self, z: Tensor) -> Tensor:
        word = self.codebook[self.index(z)].to(z.dtype)
        return torch.where(z.isnan().any(-1, keepdim=True), torch.nan, word)

    def index(self, z: Tensor) -> Tensor:
        """Which word is the nearest.  [B, ..., dim] → [B, ...]"""
        self.out_shape(tuple(z.shape[1:]))
        with full_precision(z):
            x = z.detach().to(working_dtype(z))
            codebook = self.codebook.detach().to(x.dtype)
            return nearest(x.reshape(1, -1, x.shape[-1]), codebook[None]).reshape(z.shape[:-1])

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        dim = self.unit_shape[0]
        if len(in_shape) < 1 or in_shape[-1] != dim:
            raise ValueError(
                f"Nearest with words of {dim} numbers needs samples of shape [..., {dim}], given {list(in_shape)}: "
                "reshape them, or change dim"
            )
        return tuple(in_shape)

    def extra_repr(self) -> str:
        return f"words={len(self.codebook)}, dim={self.unit_shape[0]}"
