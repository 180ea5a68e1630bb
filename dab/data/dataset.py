"""All that a task may rely on of the data it is trained on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from torch import Tensor

Tensors = tuple[Tensor, ...]


@runtime_checkable
class Dataset(Protocol):
    """Batches are tuples of tensors on the device, inputs first."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one input, without the batch dimension."""

    @property
    def mean(self) -> Tensor:
        """Of the inputs of the training set, [*input_shape]: what centring and output biases start from."""

    def batch(self, step: int) -> Tensors:
        """This worker's share of the training batch of that step (from 0), a function of (seed, step) alone."""

    def batches(self, split: str) -> Iterator[Tensors]:
        """This worker's share of "valid", "test" or, where the training set is a fixed one, "train".

        Always the same samples in the same order, as training leaves them alone: rows rank, rank + world, ... of the
        split, so that each sample comes once over all workers.
        """


@runtime_checkable
class Labelled(Dataset, Protocol):
    """Batches (x, labels [B]), labels int64 from 0 to `classes` - 1."""

    classes: int
