"""Uniform numbers and the order they sort into."""

from __future__ import annotations

from typing import Annotated, Unpack

import torch
from torch import Tensor

from dab.data.dataset import Tensors
from dab.data.resident import Resident, ResidentOptions
from dab.keys import generator
from dab.ranges import Count, Finite, Positive, Several, Share, When, ranged

Gap = Annotated[Positive, When("close_share")]


class Sorting(Resident):
    """Batches (x [B, T], order [B, T]): `order[b, p]` is the index of the element that belongs at place p.

    Training samples are fresh every step, or a fixed set of `train_size`. The validation and test sets are uniform
    and do not depend on the seed: all runs of one length are measured on the same sequences.

    Uniform sequences seldom hold the pairs that decide the last percent. `close_share` of every fresh training batch
    can be made of close pairs instead: half of the elements are another element of the sequence plus or minus a gap.
    The gap is log-uniform between a lower end and `close_high`; the lower end shrinks geometrically from
    `close_start` to `close_low` over the first 70 % of the training.
    """

    @ranged
    def __init__(
        self,
        length: Several,
        low: Finite = 0.0,
        high: Finite = 1.0,
        train_size: Count | None = None,
        valid_size: Count = 20_000,
        test_size: Count = 100_000,
        close_share: Share = 0.0,
        close_start: Gap = 1e-2,
        close_low: Gap = 1e-4,
        close_high: Gap = 0.1,
        **resident: Unpack[ResidentOptions],
    ):
        if not low < high:
            raise ValueError(f"sorting needs low < high, got low={low}, high={high}")
        if not close_low <= close_start <= close_high:
            raise ValueError(
                f"close pairs need close_low <= close_start <= close_high, got {close_low}, {close_start}, {close_high}"
            )
        if close_share and train_size is not None:
            raise ValueError("close_share makes fresh samples: it cannot be combined with a fixed train_size")
        self.length, self.low, self.high = length, low, high
        self.close_share, self.close_ends = close_share, (close_start, close_low, close_high)
        splits = {name: self._draw(size, name) for name, size in (("valid", valid_size), ("test", test_size))}
        if train_size is not None:
            splits["train"] = self._draw(train_size, "train", resident["seed"])
        super().__init__(splits, **resident)
        self.mean = torch.full((length,), (low + high) / 2, device=self.device)

    def _uniform(self, count: int, random: torch.Generator) -> Tensor:
        x = torch.rand(count, self.length, generator=random, device=random.device)
        return self.low + (self.high - self.low) * x

    def _draw(self, count: int, *parts: int | str) -> Tensors:
        return with_order(self._uniform(count, generator("sorting", *parts)))

    def batch(self, step: int) -> Tensors:
        if "train" in self.splits:
            return super().batch(step)
        # Every worker draws the global batch and keeps its rows: the data do not depend on how many workers there are.
        random = generator("sorting", "step", self.seed, step, device=self.device)
        x = self._uniform(self.batch_size, random)
        if count := round(self.close_share * self.batch_size):
            x[:count] = self._with_close_pairs(x[:count], step / self.steps, random)
            x = x[torch.randperm(len(x), generator=random, device=self.device)]  # every worker gets its part of both
        return with_order(self.share(x))

    def _with_close_pairs(self, x: Tensor, done: float, random: torch.Generator) -> Tensor:
        """The second half of the elements of x [N, T] pulled next to the first half, then shuffled in each row."""
        start, low, high = self.close_ends
        smallest = start * (low / start) ** min(1.0, done / 0.7)
        half = self.length // 2

        def uniform() -> Tensor:
            return torch.rand(len(x), half, generator=random, device=x.device)

        gap = (self.high - self.low) * smallest * (high / smallest) ** uniform()
        sign = (uniform() < 0.5).to(x.dtype) * 2 - 1
        x = torch.cat([x[:, :half], x[:, :half] + sign * gap, x[:, 2 * half :]], dim=1)
        places = torch.rand(x.shape, generator=random, device=x.device).argsort(dim=1)
        return x.gather(1, places)


def with_order(x: Tensor) -> Tensors:
    return x, x.argsort(dim=1)
