"""Hard functions: what a network computes and autograd cannot pass.

A hard function is any callable [B, ...] → [B, ...] that treats samples alike and returns one floating-point tensor. It
may write into its input and return it or a view of it: it is given a copy. What it returns is cast to the dtype of its
input, for every estimator alike. The ones here are modules, one file each, and also tell

    bits_per_unit               information in one output unit, in bits; None if its values are real numbers
    values                      of a unit, ascending, where it has bits and is a number
    unit_shape                  of one unit, where that is more than a number: (classes,) for Categorical, (dim,) for
                                Nearest
    out_shape(in_shape)         shape of one sample after, from the shape before (both without batch)
    keeps_input                 True: it neither writes into its input nor returns any part of it, so no copy is made

Your own function needs none of them: `out_shape` below finds the shape by trying it, `acts_on_units` whether it
treats every unit alike and alone, and `acts_on_rows` whether every sample.

NaN comes out as NaN, never as a code: where a unit, or what it is compared with, is NaN, so is the output (Sort and
TopK put NaN last and first, k-means loses the coordinates it touches). A broken encoder shows in the loss.
"""

from dab.hard.bernoulli import Bernoulli
from dab.hard.binary import Binary
from dab.hard.categorical import Categorical
from dab.hard.kmeans import KMeans
from dab.hard.levels import Levels
from dab.hard.nearest import Nearest
from dab.hard.signum import Signum
from dab.hard.sort import Sort, Sort1d
from dab.hard.threshold import Threshold
from dab.hard.topk import TopK
from dab.hard.trial import acts_on_rows, acts_on_units, out_shape

__all__ = [
    "Bernoulli",
    "Binary",
    "Categorical",
    "KMeans",
    "Levels",
    "Nearest",
    "Signum",
    "Sort",
    "Sort1d",
    "Threshold",
    "TopK",
    "acts_on_rows",
    "acts_on_units",
    "out_shape",
]
