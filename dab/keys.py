"""Random numbers by key instead of by history: the same key gives the same draw, however a run got there.

A run that is interrupted, resumed or spread over workers sees exactly the numbers it would have seen.
"""

from __future__ import annotations

import hashlib

import torch


def key(*parts: int | str) -> int:
    """A 63-bit seed that depends on every part and on their order."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def seed_device(seed: int, device: torch.device) -> None:
    """`torch.manual_seed` for this device and the CPU; asking all the others takes longer than a small layer."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)


def generator(*parts: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    return torch.Generator(device=device).manual_seed(key(*parts))
