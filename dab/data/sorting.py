"""Uniform numbers and the order they sort into."""

from __future__ import annotations

import torch
from torch import Tensor

from dab.data.resident import Resident, Tensors
from dab.keys import generator


class Sorting(Resident):
    """Batches (x [B, T], order [B, T]): `order[b, p]` is the index of the element that belongs at place p.

    Training samples are fresh every step, or a fixed set of `train_size`. The validation and test sets do not
    depend on the seed: all runs of one length are measured on the same sequences.
    """

    def __init__(
        self,
        length: int,
        low: float = 0.0,
        high: float = 1.0,
        train_size: int | None = None,
        valid_size: int = 20_000,
        test_size: int = 100_000,
        *,
        seed: int,
        batch_size: int,
        eval_batch_size: int,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world: int = 1,
    ):
        if length < 2 or not low < high:
            raise ValueError(f"sorting needs length >= 2 and low < high, got length={length}, low={low}, high={high}")
        self.length, self.low, self.high = length, low, high
        splits = {name: self._draw(size, name) for name, size in (("valid", valid_size), ("test", test_size))}
        if train_size is not None:
            splits["train"] = self._draw(train_size, "train", seed)
        super().__init__(
            splits,
            seed=seed,
            batch_size=batch_size,
            eval_batch_size=eval_batch_size,
            device=device,
            rank=rank,
            world=world,
        )

    def _draw(self, count: int, *parts: int | str, device: torch.device | str = "cpu") -> Tensors:
        random = torch.rand(count, self.length, generator=generator("sorting", *parts, device=device), device=device)
        return with_order(self.low + (self.high - self.low) * random)

    def batch(self, step: int) -> Tensors:
        if "train" in self.splits:
            return super().batch(step)
        # Every worker draws the global batch and keeps its rows: the data do not depend on how many workers there are.
        x, order = self._draw(self.batch_size, "step", self.seed, step, device=self.device)
        return self.share(x), self.share(order)


def with_order(x: Tensor) -> Tensors:
    return x, x.argsort(dim=1)
