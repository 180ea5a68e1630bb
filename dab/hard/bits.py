"""Zeros and ones that pass NaN on. A comparison alone turns NaN into a code."""

import torch
from torch import Tensor


def or_nan(h: Tensor, *compared: Tensor) -> Tensor:
    """h in the dtype of the first of the `compared`, and NaN wherever one of them is.  [B, ...] → [B, ...]"""
    broken = compared[0].isnan()
    for other in compared[1:]:
        broken = broken | other.isnan()
    return torch.where(broken, torch.nan, h.to(compared[0].dtype))


def drawn(p: Tensor, u: Tensor) -> Tensor:
    """1 where the uniform u is below the probability p, 0 elsewhere, NaN where p is; without gradient."""
    # p - u lies in (-1, 1), so that rounding up gives 1 above 0 and (minus) 0 otherwise.
    return (p.detach() - u).ceil_().abs_()
