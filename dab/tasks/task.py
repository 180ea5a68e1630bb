from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from dab.data.dataset import Dataset


class Grid(NamedTuple):
    """Images to look at, row by row: grey [N, H, W] or [N, 1, H, W] (ink is black), or colour [N, 3, H, W]; in 0..1."""

    images: Tensor
    columns: int = 10


class Workers(Protocol):
    """What a task may ask of the processes that share its run."""

    @property
    def rank(self) -> int: ...
    @property
    def world(self) -> int: ...
    def sum(self, values: Tensor) -> Tensor:
        """The sum over all workers, on every worker."""

    def concatenate(self, batches: Iterable[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """All workers' batches, with a row for each sample of a split, as one batch in the split's order."""


class Task(nn.Module):
    """See `dab.tasks`. The forward pass is the loss, so that distributed wrappers and compilers see all of it."""

    select: str
    larger_is_better = True
    final_splits: tuple[str, ...] = ("valid", "test")

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        return self.loss(batch)

    def loss(self, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        raise NotImplementedError

    def measure(self, batch: Any) -> dict[str, Tensor]:
        raise NotImplementedError

    def measure_final(self, batch: Any, split: str) -> dict[str, Tensor]:
        return self.measure(batch)

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        return {name: float(mean) for name, mean in means.items()}

    def prepare(self, data: Dataset) -> None:
        pass

    def examine(self, data: Dataset, workers: Workers) -> dict[str, float]:
        return {}

    @property
    def diagnoses(self) -> bool:
        return type(self).diagnose is not Task.diagnose

    def diagnose(self, batch: Any) -> dict[str, Tensor]:
        return {}

    def pictures(self, batches: Iterable[Any]) -> dict[str, Grid]:
        return {}

    @classmethod
    def example(cls, input_shape: tuple[int, ...]) -> str | None:
        return None

    def predict(self, words: Sequence[str]) -> str:
        raise ValueError(f"{type(self).__name__} cannot predict from the command line")
