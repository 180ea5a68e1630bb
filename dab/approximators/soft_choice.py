"""Choices with soft edges: ranks by pairs, argmax by a softmax, the k largest by a threshold between them."""

import torch
from torch import Tensor


def soft_ranks(z: Tensor, slope: Tensor) -> Tensor:
    """For dab.hard.Ranks: how many units are smaller, each pair compared by a sigmoid.  [B, ...] → [B, ...]"""
    if z.dim() == 1:
        return z * 0
    units = z.flatten(1)
    smaller = torch.sigmoid(slope * (units[:, :, None] - units[:, None, :]))  # [B, n, n]
    return (smaller.sum(2) - 0.5).reshape(z.shape)  # a unit is half smaller than itself


def soft_argmax(z: Tensor, slope: Tensor) -> Tensor:
    """For dab.hard.Argmax: over the last dimension.  [B, ..., classes] → [B, ..., classes]"""
    return (slope * z).softmax(-1)


def soft_mask(z: Tensor, slope: Tensor, k: int) -> Tensor:
    """For dab.hard.TopKMask: a sigmoid around the middle between the last unit chosen and the next.  [B, ...]"""
    units = z.flatten(1)
    if k >= units.shape[1]:
        return torch.ones_like(z) + 0 * z
    edge = units.topk(k + 1, 1).values[:, -2:].mean(1, keepdim=True)
    return torch.sigmoid(slope * (units - edge)).reshape(z.shape)
