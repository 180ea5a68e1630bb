"""How much of its nominal size a discrete code uses, found from N codes: far fewer than there can be.

Codes are [N, units..., *unit_shape]. The values of a unit may be any numbers, or rows of numbers: unit_shape is (8,)
for one-hot rows of eight. Entropies are in bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

BLOCK = 512  # rows of a table of pairs at a time


@torch.no_grad()
def code_statistics(codes: Tensor, bits_per_unit: float | None, unit_shape: tuple[int, ...] = ()) -> dict[str, float]:
    """What a record says of a code. Where bits_per_unit is None, unknown, it has no nominal_bits and no usage.

    units           how many there are
    nominal_bits    what they could hold
    unit_bits       the sum of the entropies of single units: what they would hold if they were independent
    at_most_bits    the entropy of the whole code is at most this: see `tree_bits`
    at_least_bits   and at least this: the entropy of the N codes themselves, which cannot pass log2 N
    distinct_codes  among the N
    dead_units      those with one value only
    usage           the share of its possible values that a unit takes, the mean over units
    """
    found = symbols(codes, unit_shape)
    values = found.amax(1) + 1
    repeats = joined(found).bincount()
    statistics: dict[str, float] = {
        "units": len(found),
        "unit_bits": float(unit_entropies(found).sum()),
        "at_most_bits": tree_bits(found),
        "at_least_bits": float(entropy(repeats)),
        "distinct_codes": len(repeats),
        "dead_units": int((values == 1).sum()),
    }
    if bits_per_unit is not None:
        possible, nominal = round(2**bits_per_unit), len(found) * bits_per_unit
        if values.max() > possible:
            raise ValueError(
                f"unit {values.argmax()} takes {values.max()} values where {bits_per_unit:g} bits allow {possible}: "
                "are these codes, or what stands before them?"
            )
        statistics["at_most_bits"] = min(statistics["at_most_bits"], nominal)
        statistics |= {"nominal_bits": nominal, "usage": float((values / possible).mean())}
    return statistics


@torch.no_grad()
def unit_statistics(codes: Tensor, unit_shape: tuple[int, ...] = ()) -> tuple[Tensor, Tensor]:
    """The entropy of every unit, and how many values it takes.  → [units], [units]"""
    found = symbols(codes, unit_shape)
    return unit_entropies(found), found.amax(1) + 1


def symbols(codes: Tensor, unit_shape: tuple[int, ...] = ()) -> Tensor:
    """Every unit's values numbered from 0 up, in their order.  → [units, N]"""
    dims = codes.dim() - len(unit_shape)
    if dims < 1 or codes.shape[dims:] != tuple(unit_shape) or len(codes) < 2 or codes.numel() == 0:
        raise ValueError(f"needs two codes at least, [N, units..., *{list(unit_shape)}], given {list(codes.shape)}")
    if codes.isnan().any():
        raise ValueError("codes hold NaN: has the model diverged?")
    numbers = codes.reshape(len(codes), -1, math.prod(unit_shape)).permute(2, 1, 0)  # [numbers of a unit, units, N]
    return joined(ranked(part) for part in numbers)


def ranked(values: Tensor) -> Tensor:
    """The place of each among the different ones in its row, from 0.  [..., N] → [..., N]"""
    ordered, order = values.sort(-1)
    ranks = torch.zeros_like(order)
    ranks[..., 1:] = (ordered[..., 1:] != ordered[..., :-1]).cumsum(-1)
    return torch.empty_like(ranks).scatter_(-1, order, ranks)


def joined(parts: Iterable[Tensor]) -> Tensor:
    """Parts that are numbered from 0, each [..., N], taken together and numbered anew.  → [..., N]"""
    first, *rest = parts
    for part in rest:
        first = ranked(first * (part.max() + 1) + part)
    return first


def entropy(counts: Tensor) -> Tensor:
    """Of the shares.  [..., values] → [...]"""
    counts = counts.double()
    total = counts.sum(-1)
    return total.log2() - torch.xlogy(counts, counts).sum(-1) / (total * math.log(2))


def unit_entropies(found: Tensor) -> Tensor:
    return torch.stack([entropy(unit.bincount()) for unit in found])


def tree_bits(found: Tensor) -> float:
    """A bound on the entropy of the whole code that is one however few codes there are.  found: [units, N]

    It is what a model fitted to one half of the codes needs to encode the other half: on average no model needs less
    than the entropy for codes it has not seen. The model is a tree in which each unit is given one other (Chow and Liu
    1968), so it comes down to the entropy where dependence goes by pairs, and knows nothing of a parity of three.
    """
    values, halves = found.amax(1) + 1, (found[:, ::2], found[:, 1::2])
    bits = [bits_of(new, seen, values) * new.shape[1] for new, seen in (halves, halves[::-1])]
    return sum(bits) / found.shape[1]


def bits_of(new: Tensor, seen: Tensor, values: Tensor) -> float:
    """What a new code takes on average by the tree of those `seen`.  [units, new], [units, seen], [units]"""
    sizes, total = [*values.tolist(), 1], 0.0
    new, seen = (torch.cat([codes, torch.zeros_like(codes[:1])]) for codes in (new, seen))  # -1: what all may be given
    for unit, parent in enumerate(parents(dependence(seen[:-1], values))):
        pairs = (seen[parent] * sizes[unit] + seen[unit]).bincount(minlength=sizes[parent] * sizes[unit])
        counts = pairs.view(sizes[parent], sizes[unit]) + 0.5  # what has not been seen may come
        total -= float((counts / counts.sum(1, keepdim=True)).log2()[new[parent], new[unit]].mean())
    return total


def dependence(seen: Tensor, values: Tensor) -> Tensor:
    """Mutual information of all pairs of units above what chance gives independent ones.  → [units, units]"""
    units, count = seen.shape
    seen = torch.where(values.square()[:, None] <= count, seen, 0)  # a table with more cells than codes teaches nothing
    kinds = torch.arange(int(seen.max()) + 1, device=seen.device)
    ones = (seen[:, None] == kinds[:, None]).float()  # [units, kinds, seen]
    alone = entropy(ones.sum(2))
    pairs = []
    for some in ones.split(max(1, BLOCK // len(kinds))):
        table = (some.flatten(0, 1) @ ones.flatten(0, 1).T).view(len(some), len(kinds), units, len(kinds))
        pairs.append(entropy(table.transpose(1, 2).flatten(2)))
    chance = torch.outer(values - 1, values - 1) / (2 * count * math.log(2))
    return (alone[:, None] + alone - torch.cat(pairs) - chance).clamp(min=0).fill_diagonal_(0)


def parents(gains: Tensor) -> list[int]:
    """The forest of the largest total gain: of every unit the one it hangs on, or -1.  [units, units]"""
    best, on = torch.zeros_like(gains[0]), torch.full_like(gains[0], -1, dtype=torch.long)
    waiting = torch.ones_like(on, dtype=torch.bool)
    for _ in range(len(gains)):
        unit = best.masked_fill(~waiting, -1).argmax()
        waiting[unit] = False
        better = waiting & (gains[unit] > best)
        best, on = torch.where(better, gains[unit], best), torch.where(better, unit, on)
    return on.tolist()
