"""Tensors on the device, indexed by a permutation keyed by (seed, epoch)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict, Unpack

import torch

from dab.data.dataset import Tensors
from dab.data.shared import Order, Shared


class ResidentOptions(TypedDict, total=False):
    """What the engine gives to every dataset, for subclasses that only pass it on."""

    seed: int
    batch_size: int
    eval_batch_size: int
    steps: int
    device: torch.device | str
    rank: int
    world: int


class Resident(Shared):
    """Fixed splits held in memory; a resumed run sees exactly the batches it would have seen."""

    def __init__(self, splits: dict[str, Tensors], **options: Unpack[ResidentOptions]):
        super().__init__(**options)
        self.splits = {name: tuple(t.to(self.device) for t in tensors) for name, tensors in splits.items()}
        if "train" in splits:
            self._order = Order(len(splits["train"][0]), self.batch_size, self.seed, self.device)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.splits["valid"][0].shape[1:])

    def batch(self, step: int) -> Tensors:
        chosen = self.share(self._order(step))
        return tuple(t.index_select(0, chosen) for t in self.splits["train"])  # t[chosen] takes ten times as long

    def batches(self, split: str) -> Iterator[Tensors]:
        tensors = tuple(self.share(t) for t in self.splits[split])
        for start in range(0, len(tensors[0]), self.eval_batch_size):
            yield tuple(t[start : start + self.eval_batch_size] for t in tensors)
