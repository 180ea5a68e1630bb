import math
from collections.abc import Callable

from torch import Tensor, nn

from dab.approximators.dense import dense
from dab.approximators.elementwise import elementwise
from dab.approximators.matched import KNOWN, matched
from dab.hard import acts_on_units, out_shape

_LARGE = 2**20  # weights that a linear skip may have


def auto(hard: Callable[[Tensor], Tensor], in_shape: tuple[int, ...]) -> nn.Module:
    """The approximator with the most structure that fits: what is known of a function need not be learned.

    matched where there is one; elementwise for a function that treats every unit alike and alone, found by trying it
    a few times on random samples (`dab.hard.acts_on_units`); otherwise dense, with a linear skip
    where that is not too large.
    """
    if isinstance(hard, KNOWN):
        return matched(hard, in_shape)
    if acts_on_units(hard, in_shape):
        return elementwise(hard, in_shape)
    weights = math.prod(in_shape) * math.prod(out_shape(hard, in_shape))
    return dense(hard, in_shape, skip=weights <= _LARGE)
