"""Sorting with soft edges: SoftSort (Prillo and Eisenschlos, 2020), for lines of any length.

With h = sort(z), the i-th output is the mean of all z_j with weights softmax_j(-slope |h_i - z_j|): the sorted value,
blurred over the values near it. As the slope (one over the temperature) grows it becomes the sorted value itself.
"""

import torch
from torch import Tensor

SQUARE = 4096  # pairs of a line beyond which they are not written down one by one


def soft_sort(z: Tensor, slope: Tensor, descending: bool = False, k: int | None = None) -> Tensor:
    """The first k (all) of the last dimension, sorted softly.  [..., n] → [..., k]"""
    h = z.sort(-1, descending=descending).values
    k = h.shape[-1] if k is None else k
    return _by_pairs(h, slope, k) if k * h.shape[-1] <= SQUARE else _by_sums(h, slope, descending)[..., :k]


def _by_pairs(h: Tensor, slope: Tensor, k: int) -> Tensor:
    values = h.movedim(-1, 0).contiguous()  # [n, ...]: lines may be short, but there are many of them
    distance = (values[:k, None] - values).abs()  # [k, n, ...]
    return ((-slope * distance).softmax(1) * values).sum(1).movedim(0, -1)


def _by_sums(h: Tensor, slope: Tensor, descending: bool) -> Tensor:
    """The same in n steps instead of n²: along sorted values the weights are products, so that sums can be carried on.

    Of all j up to i, sum_j exp(slope (h_j - h_i)) = exp(logcumsumexp(slope h)_i - slope h_i), and so on from above. For
    sums with the values themselves these are shifted to be positive; a shift comes out as it went in. In double
    precision: logarithms of sums over a long line are large, and gradients small differences between them.
    """
    dtype, h = h.dtype, (h.flip(-1) if descending else h).double()
    u = slope * h
    shift = (h[..., :1] - 1 / slope).detach()
    value = h - shift  # from 1 / slope up
    weights, sums = _carried(u, torch.zeros_like(h)), _carried(u, value.log())
    soft = (sums - value) / (weights - 1) + shift  # i itself is in both directions
    return (soft.flip(-1) if descending else soft).to(dtype)


def _carried(u: Tensor, log_value: Tensor) -> Tensor:
    """sum_j exp(-|u_i - u_j|) value_j from below and from above, u rising.  [..., n]"""
    below = (torch.logcumsumexp(u + log_value, -1) - u).exp()
    above = (torch.logcumsumexp((log_value - u).flip(-1), -1).flip(-1) + u).exp()
    return below + above


def soft_map(z: Tensor, slope: Tensor, descending: bool) -> Tensor:
    """For dab.hard.Sort: rows, then columns, along dimension 1."""
    return torch.cat([soft_sort(z, slope, descending), soft_sort(z.mT, slope, descending).mT], 1)


def soft_units(z: Tensor, slope: Tensor, descending: bool) -> Tensor:
    """For dab.hard.Sort1d: all units of a sample in one sort."""
    return soft_sort(z.flatten(1), slope, descending).reshape(z.shape) if z.dim() > 1 else z.clone()


def soft_topk(z: Tensor, slope: Tensor, k: int) -> Tensor:
    """For dab.hard.TopK: the first k of every row, then of every column; of all units of a flat sample."""
    rows = soft_sort(z, slope, descending=True, k=k)
    return rows if z.dim() == 2 else torch.cat([rows, soft_sort(z.mT, slope, descending=True, k=k)], -2)
