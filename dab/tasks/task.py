from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn


class Task(nn.Module):
    """See `dab.tasks`. The forward pass is the loss, so that distributed wrappers and compilers see all of it."""

    select: str
    larger_is_better = True

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        return self.loss(batch)

    def loss(self, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        raise NotImplementedError

    def measure(self, batch: Any) -> dict[str, Tensor]:
        raise NotImplementedError

    def predict(self, words: Sequence[str]) -> str:
        raise NotImplementedError(f"{type(self).__name__} cannot predict from the command line")
