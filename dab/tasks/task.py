from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn


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

    def prepare(self, data: Any) -> None:
        pass

    def diagnose(self, batch: Any) -> dict[str, Tensor]:
        return {}

    def pictures(self, batches: Iterable[Any]) -> dict[str, Tensor]:
        return {}

    def predict(self, words: Sequence[str]) -> str:
        raise NotImplementedError(f"{type(self).__name__} cannot predict from the command line")
