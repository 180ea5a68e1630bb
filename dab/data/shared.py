"""What every dataset knows of its run: whose rows it gives, and which samples make the batch of a step."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from dab.data.dataset import Tensors
from dab.keys import generator


class Shared:
    """A dataset in use by `world` workers, of whom this one, `rank`, takes the rows rank, rank + world, ..."""

    def __init__(
        self,
        *,
        seed: int,
        batch_size: int,
        eval_batch_size: int,
        steps: int = 1,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world: int = 1,
    ):
        self.seed, self.batch_size, self.eval_batch_size, self.steps = seed, batch_size, eval_batch_size, steps
        self.device, self.rank, self.world = torch.device(device), rank, world

    def batch(self, step: int) -> Tensors:
        raise NotImplementedError

    def batches(self, split: str) -> Iterator[Tensors]:
        raise NotImplementedError

    def share(self, whole: Tensor) -> Tensor:
        """This worker's rows of something of the global batch's length."""
        return whole if self.world == 1 else whole[self.rank :: self.world]


class Order:
    """The samples of every step's global batch, by a permutation keyed by (seed, epoch).

    The last samples of an epoch that do not fill a batch wait for another epoch's order.
    """

    def __init__(self, count: int, batch_size: int, seed: int, device: torch.device | str = "cpu"):
        if count < batch_size:
            raise ValueError(f"the training set has {count} samples, fewer than one batch of {batch_size}")
        self.count, self.batch_size, self.seed, self.device = count, batch_size, seed, device
        self._epoch, self._order = -1, torch.empty(0)

    def __call__(self, step: int) -> Tensor:
        """Step 0 is the first."""
        per_epoch = self.count // self.batch_size
        epoch, position = divmod(step, per_epoch)
        if epoch != self._epoch:
            order = torch.randperm(self.count, generator=generator("order", self.seed, epoch))
            self._epoch, self._order = epoch, order.to(self.device)
        return self._order[position * self.batch_size : (position + 1) * self.batch_size]
