"""Sorting as T classifications: which element belongs at each place?"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dab.metrics.sorting import all_or_none, per_element, right_places
from dab.tasks.task import Task


def place_loss(logits: Tensor, order: Tensor) -> Tensor:
    """Cross-entropy summed over the places, [B]; logits [B, element, place]."""
    return F.cross_entropy(logits.float(), order, reduction="none").sum(dim=1)


class SortingTask(Task):
    select = "all_or_none"
    decodes_in_order = False  # whether the model is trained with the right order as its prefix

    def __init__(self, model: nn.Module):
        super().__init__(model)
        if ("order" in inspect.signature(model.forward).parameters) != self.decodes_in_order:
            right = "task=sorting" if self.decodes_in_order else "task=pointing"
            raise ValueError(f"{type(self).__name__} cannot train {type(model).__name__}: use {right} with this model")

    def loss(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        x, order = batch
        logits, penalty = self.model(x)
        task_loss, penalty = place_loss(logits, order).mean(), penalty.mean()
        loss = task_loss + penalty
        return loss, {"loss": loss.detach(), "task_loss": task_loss.detach(), "penalty": penalty.detach()}

    def measure(self, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        x, order = batch
        logits, _ = self.model(x)
        right = right_places(logits, order)
        return {"all_or_none": all_or_none(right), "per_element": per_element(right), "loss": place_loss(logits, order)}

    @classmethod
    def example(cls, input_shape: tuple[int, ...]) -> str:
        (length,) = input_shape
        return " ".join(f"{7 * i % 10 / 10 + i // 10 / 100:g}" for i in range(1, length + 1))  # no two alike

    def predict(self, words: Sequence[str]) -> str:
        try:
            numbers = [float(word) for word in words]
        except ValueError as error:
            raise ValueError(f"give numbers to sort, separated by spaces: {error}") from error
        if not all(map(math.isfinite, numbers)):
            raise ValueError(f"give finite numbers to sort, got {' '.join(words)}")
        if len(numbers) != (length := self.model.length):
            raise ValueError(f"this network sorts {length} numbers, got {len(numbers)}")
        logits, _ = self.model(torch.tensor([numbers]))
        order = logits[0].argmax(dim=0).tolist()
        chosen = " ".join(words[i] for i in order)
        is_right = sorted(order) == list(range(length)) and [numbers[i] for i in order] == sorted(numbers)
        verdict = "right" if is_right else "wrong"
        return f"{chosen}\n(order {' '.join(map(str, order))}; {verdict})"
