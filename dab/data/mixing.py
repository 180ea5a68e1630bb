"""Augmentations that take something away from an image, or blend it with another one and its label."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def cut_out(x: Tensor, size: int, centre: Tensor, fill: Tensor) -> Tensor:
    """Every image with a square of `size` pixels around its centre filled in; what sticks out of the image is lost.

    x: [B, C, H, W]; centre: [B, 2], row and column; fill: [C, H, W]
    """
    inside = []
    for side, middle in zip(x.shape[2:], centre.unbind(1)):
        place = torch.arange(side, device=x.device) - (middle[:, None] - size // 2)  # [B, side]
        inside.append((place >= 0) & (place < size))
    rows, columns = inside
    return torch.where((rows[:, :, None] & columns[:, None, :])[:, None], fill, x)


def mixed(x: Tensor, labels: Tensor, share: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Every image blended with the one half a batch away, of which it keeps `share`, and their labels likewise.

    Half a batch away is the same image for one worker as for several, each of whom has every so manieth row.

    x: [B, C, H, W]; labels: [B]; share: [B] → [B, C, H, W], [B, classes], probabilities
    """
    half, target = len(x) // 2, F.one_hot(labels, classes).to(x.dtype)
    keep = share.view(-1, 1, 1, 1)
    return (
        keep * x + (1 - keep) * x.roll(half, 0),
        keep.view(-1, 1) * target + (1 - keep).view(-1, 1) * target.roll(half, 0),
    )


def beta(alpha: float, count: int, random: torch.Generator) -> Tensor:
    """Draws of Beta(alpha, alpha).  [count]"""
    # What torch.distributions draws with, which itself takes no generator.
    gamma = torch._standard_gamma(torch.full((2, count), alpha, device=random.device), random)
    first, second = gamma.clamp(min=torch.finfo(gamma.dtype).tiny)  # both may be zero where alpha is small
    return first / (first + second)
