"""Sorting by pointing: trained with the right prefix, measured by its own greedy choices."""

from __future__ import annotations

from torch import Tensor

from dab.metrics.sorting import all_or_none, per_element, right_places, valid_permutation
from dab.tasks.sorting import SortingTask, place_loss


class PointingTask(SortingTask):
    """For models that decode a place after the other: `model(x, order)` is teacher-forced, `model(x)` is greedy."""

    decodes_in_order = True

    def loss(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        x, order = batch
        logits, _ = self.model(x, order)
        loss = place_loss(logits, order).mean()
        return loss, {"loss": loss.detach()}

    def measure(self, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        x, order = batch
        logits, _ = self.model(x)
        forced, _ = self.model(x, order)
        right = right_places(logits, order)
        return {
            "all_or_none": all_or_none(right),
            "per_element": per_element(right),
            "valid_permutation": valid_permutation(logits),
            "loss": place_loss(forced, order),
        }
