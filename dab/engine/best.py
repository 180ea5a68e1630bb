"""The weights that measured best on the validation set, kept with the checkpoint they belong to."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor

from dab.engine.checkpoint import digest
from dab.engine.distributed import Workers
from dab.engine.records import better
from dab.tasks.task import Task


class Best:
    """In memory and inside the checkpoint, so that no crash can part them from the step they were measured at."""

    def __init__(self, value: float | None = None, step: int = 0, sha256: str | None = None) -> None:
        self.value, self.step, self.sha256 = value, step, sha256
        self.weights: dict[str, Any] | None = None  # on the first worker, in the host's memory

    def offer(self, value: float, step: int, task: Task, workers: Workers) -> None:
        """Keep the task's weights if this is the best value so far."""
        if not better(value, self.value, task.larger_is_better):
            return
        self.value, self.step = value, step
        if workers.first:
            self.weights = {name: _copied(value) for name, value in task.state_dict().items()}
            self.sha256 = digest(self.weights)

    def entry(self) -> dict[str, Any]:
        return {"value": self.value, "step": self.step, "sha256": self.sha256}

    def state(self) -> dict[str, Any]:
        return {**self.entry(), "weights": self.weights}

    @classmethod
    def restored(cls, state: dict[str, Any], workers: Workers) -> Best:
        weights = state["weights"]
        best = cls(state["value"], state["step"], state["sha256"])
        if workers.first and weights is not None:
            best.weights = {name: _copied(value) for name, value in weights.items()}
        return best

    def put_into(self, task: Task, workers: Workers) -> None:
        """Give these weights to every worker's task; the last ones stay if no value was ever a number."""
        if self.weights is not None:
            task.load_state_dict(self.weights)
        workers.align([*task.parameters(), *task.buffers()])


def _copied(value: Any) -> Any:
    return value.to("cpu", copy=True) if isinstance(value, Tensor) else copy.deepcopy(value)


def check(checkpoint: dict[str, Any]) -> None:
    """ValueError if the weights in it are not the ones that were measured."""
    best = checkpoint["best"]
    if best["value"] is not None and digest(best.get("weights") or {}) != best.get("sha256"):
        raise ValueError(f"the best weights, of step {best['step']}, are missing or not the ones that were measured")
