"""How far from sorted a sorting function finds its input: what "the layer before learns to sort" would show in."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dab.hard import Sort, Sort1d


def sortedness(hard: nn.Module | None, z: Tensor) -> dict[str, Tensor]:
    """Of what a sorting function is given: nothing for other functions, else for each sample.  z: [B, ...] → [B] each

    emd             earth mover's distance between the lines before and after sorting, in places
    inverted_pairs  share of the pairs of a line that sorting turns round
    """
    if not isinstance(hard, Sort | Sort1d):
        return {}
    lines = lines_of(hard, z)
    distances = [earth_mover(line, line.sort(-1, descending=hard.descending).values) for line in lines]
    shares = [inverted_pairs(line, hard.descending) for line in lines]
    return {"emd": _mean(distances), "inverted_pairs": _mean(shares)}


def lines_of(hard: Sort | Sort1d, z: Tensor) -> list[Tensor]:
    """What is sorted alone: every row and every column of a map, or all units.  [B, ...] → [B, lines, n] each"""
    if isinstance(hard, Sort1d):
        return [z.reshape(len(z), 1, z[:1].numel())]
    return [z.reshape(len(z), -1, z.shape[-1]), z.mT.reshape(len(z), -1, z.shape[-2])]


def earth_mover(a: Tensor, b: Tensor) -> Tensor:
    """Between two lines of values, each shifted to start at zero and scaled to a mass of one, over their places.

    As sets of values the input and the output of a sort are equal; what it moves is mass from place to place. In one
    dimension the distance is the sum of the differences of the two cumulative sums.  [..., n] → [...]
    """
    one, two = (_mass(line).cumsum(-1) for line in (a, b))
    return (one - two).abs().sum(-1)


def inverted_pairs(z: Tensor, descending: bool = False) -> Tensor:
    """The share of pairs that stand in the wrong order; equal values do not.  [..., n] → [...]"""
    line, n = (z.flip(-1) if descending else z), z.shape[-1]
    wrong = torch.zeros(z.shape[:-1], device=z.device)
    for gap in range(1, n):  # n steps of n pairs each: the whole square of a long line would not fit into memory
        wrong += (line[..., :-gap] > line[..., gap:]).sum(-1)
    return wrong / max(1, n * (n - 1) // 2)


def _mass(line: Tensor) -> Tensor:
    shifted = line - line.amin(-1, keepdim=True)
    total = shifted.sum(-1, keepdim=True)
    return torch.where(total > 0, shifted / total, 0.0)  # equal values are nowhere rather than everywhere


def _mean(per_line: list[Tensor]) -> Tensor:
    """Over all lines of a sample.  [B, lines] each → [B]"""
    return torch.cat(per_line, 1).mean(1)
