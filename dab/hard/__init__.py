"""Hard functions: what a network computes and autograd cannot pass.

A hard function is any callable [B, ...] → [B, ...] that treats samples alike and returns a floating-point tensor of the
input's dtype. The ones here are modules, one file each, and also tell

    bits_per_unit               information in one output unit, in bits; None if its values are real numbers
    unit_shape                  of one unit, where that is more than a number: (classes,) for Categorical
    out_shape(in_shape)         shape of one sample after, from the shape before (both without batch)

Your own function needs neither: `out_shape` below finds the shape by trying it.
"""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from dab.hard.bernoulli import Bernoulli
from dab.hard.binary import Binary
from dab.hard.categorical import Categorical
from dab.hard.kmeans import KMeans
from dab.hard.signum import Signum
from dab.hard.sort import Sort, Sort1d
from dab.hard.threshold import Threshold
from dab.hard.topk import TopK
from dab.surrogate import call_hard

__all__ = ["Bernoulli", "Binary", "Categorical", "KMeans", "Signum", "Sort", "Sort1d", "Threshold", "TopK", "out_shape"]


def out_shape(hard: Callable[[Tensor], Tensor], in_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of one output sample of `hard`: as it says, or by trying it on two random samples on the CPU."""
    told = getattr(hard, "out_shape", None)
    if callable(told):
        return tuple(told(tuple(in_shape)))
    samples = torch.randn(2, *in_shape, generator=torch.Generator().manual_seed(0))
    trial = copy.deepcopy(hard) if isinstance(hard, nn.Module) else hard  # running statistics stay as they were
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            return tuple(call_hard(trial, samples).shape[1:])
    except Exception as error:
        raise ValueError(
            f"could not find the output shape of {hard} by trying it on a CPU tensor {list(samples.shape)} ({error}): "
            "give it a method out_shape(in_shape)"
        ) from error
