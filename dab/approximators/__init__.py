"""Approximators: smooth modules that learn to imitate a hard function.

Any module with the input and output shapes of the hard function will do. The builders here share the signature
(hard, in_shape, **options) and take the output shape from the hard function; `in_shape` is without the batch.

    dense           linear layers over the flattened sample: for any hard function
    elementwise     one small net applied to every unit: cheap, for functions of single units
    conv            convolutions: for feature maps that keep height and width
    lines           one small net along rows and columns: for sort and top-k of feature maps
    matched         the form of the hard function with soft edges: signum, binary, bernoulli, threshold; soft sorting
                    for sort, sort1d and topk, soft choice for ranks, argmax and topk_mask, soft assignment for kmeans
    auto            structure before size: matched where there is one, elementwise where it fits, else dense + skip
"""

from dab.approximators.auto import auto
from dab.approximators.conv import Conv, conv
from dab.approximators.dense import Dense, dense
from dab.approximators.elementwise import Elementwise, elementwise
from dab.approximators.lines import Lines, lines
from dab.approximators.matched import Matched, matched

__all__ = [
    "Conv",
    "Dense",
    "Elementwise",
    "Lines",
    "Matched",
    "auto",
    "conv",
    "dense",
    "elementwise",
    "lines",
    "matched",
]
