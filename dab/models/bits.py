"""Discrete codes as bytes, and back.

The values of a unit are numbered from 0 up, its symbols, and the symbols of a code are the digits of one whole number,
the first unit's the highest. A code of `units` units with `levels` values each is below levels ** units, and takes the
bytes that this takes: units * log2(levels) bits, rounded up to whole bytes once for the whole code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dab.hard import Nearest

LIMB = 63  # bits of a partial number that int64 can hold


def levels_of(hard: nn.Module) -> int:
    """How many values a unit of a hard function has."""
    if isinstance(hard, Nearest):
        return len(hard.codebook)
    if (values := getattr(hard, "values", None)) is not None:
        return len(values)
    if unit_shape := getattr(hard, "unit_shape", ()):
        return math.prod(unit_shape)  # a one-hot row
    raise ValueError(
        f"{type(hard).__name__} does not tell its values, so that no code of it can be stored: give it an attribute "
        "`values`, the values of a unit in ascending order"
    )


def symbols_of(code: Tensor, hard: nn.Module) -> Tensor:
    """int64 from 0 to levels - 1.  [B, ...] → [B, units]"""
    levels, values = levels_of(hard), getattr(hard, "values", None)
    if isinstance(hard, Nearest):
        found = hard.index(code).flatten(1)
    elif values is None:
        found = code.argmax(-1).flatten(1)
    else:
        found = torch.bucketize(code, code.new_tensor(values)).clamp(max=levels - 1).flatten(1)
    if not torch.equal(code_of(found, hard, code.shape[1:]).to(code), code):
        raise ValueError(f"a code holds what {type(hard).__name__} has no value for: has the model diverged to NaN?")
    return found


def code_of(symbols: Tensor, hard: nn.Module, shape: Sequence[int]) -> Tensor:
    """The code with these symbols, whose samples have this shape.  [B, units] → [B, *shape]"""
    if isinstance(hard, Nearest):
        code = hard.codebook.detach()[symbols].float()
    elif (values := getattr(hard, "values", None)) is None:
        code = F.one_hot(symbols, levels_of(hard)).float()
    else:
        code = torch.tensor(values)[symbols].float()
    return code.view(len(symbols), *shape)


def packed_size(units: int, levels: int) -> int:
    """Bytes of one code."""
    return ((levels**units - 1).bit_length() + 7) // 8


def pack(symbols: Tensor, levels: int) -> list[bytes]:
    """The bytes of every code.  [B, units]"""
    units, places = symbols.shape[1], _places(levels)
    padded = F.pad(symbols, (-units % len(places), 0))  # zeros in front do not change a number
    limbs = (padded.unflatten(1, (-1, len(places))) * places).sum(-1)  # [B, limbs]
    base, size = levels ** len(places), packed_size(units, levels)
    return [reduce(lambda high, low: high * base + low, row, 0).to_bytes(size, "big") for row in limbs.tolist()]


def unpack(packed: Sequence[bytes], units: int, levels: int) -> Tensor:
    """The symbols of codes that were packed.  → int64 [B, units]"""
    places = _places(levels)
    base, count = levels ** len(places), math.ceil(units / len(places))
    beyond, size, rows = levels**units, packed_size(units, levels), []
    for content in packed:
        number, row = int.from_bytes(content, "big"), []
        if number >= beyond or len(content) != size:
            raise ValueError(f"{len(content)} bytes that are no code of {units} units with {levels} values each")
        for _ in range(count):
            number, limb = divmod(number, base)
            row.append(limb)
        rows.append(row[::-1])
    digits = torch.tensor(rows).unsqueeze(-1) // places % levels  # [B, limbs, digits of a limb]
    return digits.flatten(1)[:, count * len(places) - units :]


def _places(levels: int) -> Tensor:
    """What each digit of a limb counts, the highest first."""
    digits = int(LIMB / math.log2(levels))
    return torch.tensor([levels**place for place in reversed(range(digits))])
