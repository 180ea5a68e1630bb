"""Tensors on the device, indexed by a permutation keyed by (seed, epoch)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

import torch
from torch import Tensor

from dab.data.dataset import Tensors
from dab.keys import generator


class ResidentOptions(TypedDict, total=False):
    """What the engine gives to every dataset, for subclasses that only pass it on."""

    seed: int
    batch_size: int
    eval_batch_size: int
    steps: int
    device: torch.device | str
    rank: int
    world: int


class Resident:
    """Fixed splits held in memory; a resumed run sees exactly the batches it would have seen."""

    def __init__(
        self,
        splits: dict[str, Tensors],
        *,
        seed: int,
        batch_size: int,
        eval_batch_size: int,
        steps: int = 1,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world: int = 1,
    ):
        self.splits = {name: tuple(t.to(device) for t in tensors) for name, tensors in splits.items()}
        self.seed, self.batch_size, self.eval_batch_size, self.steps = seed, batch_size, eval_batch_size, steps
        self.device, self.rank, self.world = torch.device(device), rank, world
        self._epoch, self._order = -1, torch.empty(0)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.splits["valid"][0].shape[1:])

    def batch(self, step: int) -> Tensors:
        """Step 0 is the first. The last samples of an epoch that do not fill a batch wait for another epoch's order."""
        train = self.splits["train"]
        per_epoch = len(train[0]) // self.batch_size
        if per_epoch == 0:
            raise ValueError(f"the training set has {len(train[0])} samples, fewer than one batch of {self.batch_size}")
        epoch, position = divmod(step, per_epoch)
        if epoch != self._epoch:
            order = torch.randperm(len(train[0]), generator=generator("order", self.seed, epoch))
            self._epoch, self._order = epoch, order.to(self.device)
        chosen = self.share(self._order[position * self.batch_size : (position + 1) * self.batch_size])
        return tuple(t.index_select(0, chosen) for t in train)  # t[chosen] takes ten times as long

    def share(self, whole: Tensor) -> Tensor:
        """This worker's rows of something of the global batch's length."""
        return whole if self.world == 1 else whole[self.rank :: self.world]

    def batches(self, split: str) -> Iterator[Tensors]:
        tensors = tuple(self.share(t) for t in self.splits[split])
        for start in range(0, len(tensors[0]), self.eval_batch_size):
            yield tuple(t[start : start + self.eval_batch_size] for t in tensors)
