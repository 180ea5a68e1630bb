"""Samples that are too many to hold: read from files in the order in which they will be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

import torch

from dab.data.dataset import Tensors
from dab.data.reader import Reader, Samples
from dab.data.resident import ResidentOptions
from dab.data.shared import Order, Shared


class Streamed(Shared):
    """Batches (x uint8 [B, *input_shape], labels [B]).

    A batch is a function of (seed, step) alone, so any step may be asked for at any time; the following ones are read
    meanwhile, and the same one may be asked for again.
    """

    def __init__(
        self, splits: dict[str, Samples], reader: Reader, prefetch: int = 2, **options: Unpack[ResidentOptions]
    ):
        super().__init__(**options)
        self.splits, self.reader, self.prefetch = splits, reader, prefetch
        self._order = Order(len(splits["train"].names), self.batch_size, self.seed)
        self._stream: Iterator[Tensors] = iter(())
        self._next = -1
        self._last: tuple[int, Tensors] = (-1, ())

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.reader.shape

    def batch(self, step: int) -> Tensors:
        if step != self._last[0]:
            if step != self._next or step > self.steps:
                self._stream = self._from(step)
            self._last, self._next = (step, next(self._stream)), step + 1
        return self._last[1]

    def _from(self, step: int) -> Iterator[Tensors]:
        # Without a reference to self: reading ahead ends with the dataset, not with the next garbage collection.
        order, mine = self._order, slice(self.rank, None, self.world)
        batches = (order(s)[mine] for s in range(step, max(step, self.steps) + 1))
        return self.reader.ahead(self.splits["train"], batches, self.prefetch)

    def batches(self, split: str) -> Iterator[Tensors]:
        rows = self.share(torch.arange(len(self.splits[split].names)))
        batches = rows.split(self.eval_batch_size) if len(rows) else ()
        return self.reader.ahead(self.splits[split], batches, self.prefetch)
