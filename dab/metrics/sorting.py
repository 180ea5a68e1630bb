from __future__ import annotations

import torch
from torch import Tensor


def right_places(logits: Tensor, order: Tensor) -> Tensor:
    """[B, T] booleans: is the element chosen for a place the one that belongs there? logits are [B, element, place]."""
    return logits.argmax(dim=1) == order


def all_or_none(right: Tensor) -> Tensor:
    """1 for a sequence with every place right, else 0."""
    return right.all(dim=1).float()


def per_element(right: Tensor) -> Tensor:
    """The share of right places."""
    return right.float().mean(dim=1)


def valid_permutation(logits: Tensor) -> Tensor:
    """1 if every element is chosen for exactly one place, else 0; logits are [B, element, place]."""
    chosen = logits.argmax(dim=1).sort(dim=1).values  # [B, T]
    return (chosen == torch.arange(chosen.shape[1], device=chosen.device)).all(dim=1).float()
