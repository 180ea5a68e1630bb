"""Hard functions: what a network computes and autograd cannot pass.

A hard function is any callable [B, ...] → [B, ...] that treats samples alike and returns one floating-point tensor. It
may write into its input and return it or a view of it: it is given a copy. What it returns is cast to the dtype of its
input, for every estimator alike. The ones here are modules, one file each, and also tell

    bits_per_unit               information in one output unit, in bits; None if its values are real numbers
    values                      of a unit, ascending, where it has bits and is a number
    unit_shape                  of one unit, where that is more than a number: (classes,) for Categorical and
                                Argmax, (dim,) for Nearest
    out_shape(in_shape)         shape of one sample after, from the shape before (both without batch)
    keeps_input                 True: it neither writes into its input nor returns any part of it, so no copy is made
    row_wise                    False: a sample's output depends on the others of its batch, so that estimators that
                                call it more often may not put their batches into one
    sense                       "min" for a solver that minimises <z, y> over its outputs y (a shortest path), "max"
                                where a larger input makes a larger output, which is taken for granted

Your own function needs none of them: `out_shape` below finds the shape by trying it, `acts_on_units` whether it
treats every unit alike and alone, and `acts_on_rows` whether every sample.

NaN comes out as NaN, never as a code: where a unit, or what it is compared with, is NaN, so is the output (Sort and
TopK put NaN last and first, k-means loses the coordinates it touches). A broken encoder shows in the loss.
"""

from dab.hard.argmax import Argmax
from dab.hard.bernoulli import Bernoulli
from dab.hard.binary import Binary
from dab.hard.categorical import Categorical
from dab.hard.kmeans import KMeans
from dab.hard.levels import Levels
from dab.hard.nearest import Nearest
from dab.hard.ranks import Ranks
from dab.hard.round import Round
from dab.hard.shortest_path import ShortestPath
from dab.hard.signum import Signum
from dab.hard.sort import Sort, Sort1d
from dab.hard.staircase import Staircase
from dab.hard.threshold import Threshold
from dab.hard.topk import TopK
from dab.hard.topk_mask import TopKMask
from dab.hard.trial import acts_on_rows, acts_on_units, out_shape

__all__ = [
    "Argmax",
    "Bernoulli",
    "Binary",
    "Categorical",
    "KMeans",
    "Levels",
    "Nearest",
    "Ranks",
    "Round",
    "ShortestPath",
    "Signum",
    "Sort",
    "Sort1d",
    "Staircase",
    "Threshold",
    "TopK",
    "TopKMask",
    "acts_on_rows",
    "acts_on_units",
    "out_shape",
]
