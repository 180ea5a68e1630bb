"""Threads that fill batches with samples from files, before anybody asks for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import torch
from torch import Tensor

from dab.data.dataset import Tensors
from dab.data.files import Bytes, DataError
from dab.data.images import Labels
from dab.data.unreadable import Unreadable

IN_A_ROW = 100  # unreadable samples after which something else is wrong


class Samples(NamedTuple):
    """A split: names to read by, and what they show."""

    names: Sequence[str]
    labels: Labels


class Reader:
    """Threads, not processes: what takes long, in Pillow and in the file system, lets go of Python's lock. They fill
    one batch together, need no shared memory, and can neither outlive a run nor be lost to a signal.

    read        puts the sample of a name into an array; called by several threads at a time
    shape       of that array of bytes
    """

    def __init__(
        self,
        read: Callable[[str, Bytes], None],
        shape: tuple[int, ...],
        unreadable: Unreadable,
        decoders: int,
        device: torch.device,
    ):
        self.read, self.shape, self.unreadable, self.device = read, shape, unreadable, device
        self._pinned = device.type == "cuda"  # so that copies to the device need not be waited for
        self._threads = ThreadPoolExecutor(decoders, "decode")

    def ahead(self, samples: Samples, batches: Iterable[Tensor], prefetch: int) -> Iterator[Tensors]:
        """(x [B, *shape], labels [B]) of these rows, one after the other, while `prefetch` more are being read."""
        started: deque[tuple[Tensor, list[Future[int]]]] = deque()
        try:
            for rows in batches:
                started.append(self._start(samples, rows.tolist()))
                if len(started) > prefetch:
                    yield self._finished(*started.popleft())
            while started:
                yield self._finished(*started.popleft())
        finally:  # nobody asks for the rest any more
            for _, labels in started:
                for label in labels:
                    label.cancel()

    def _start(self, samples: Samples, rows: list[int]) -> tuple[Tensor, list[Future[int]]]:
        x = torch.empty(len(rows), *self.shape, dtype=torch.uint8, pin_memory=self._pinned)
        return x, [self._threads.submit(self._sample, samples, row, into) for row, into in zip(rows, x.numpy())]

    def _finished(self, x: Tensor, labels: list[Future[int]]) -> Tensors:
        known = torch.tensor(
            [label.result() for label in labels], pin_memory=self._pinned
        )  # with the last one x is full
        return x.to(self.device, non_blocking=True), known.to(self.device, non_blocking=True)

    def _sample(self, samples: Samples, row: int, into: Bytes) -> int:
        """The sample of a row, or the next readable one: always the same. Returns its label."""
        names, labels = samples
        tries = min(IN_A_ROW, len(names))
        for place in (index % len(names) for index in range(row, row + tries)):
            try:
                self.read(names[place], into)
                return int(labels[place])
            except MemoryError:
                raise
            except Exception as error:  # a parser raises whatever it likes on a damaged file
                self.unreadable.note(names[place], error)
        raise DataError(f"no file can be read: tried {tries} in a row, the last one is {names[place]}")
