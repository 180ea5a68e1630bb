"""Logged scalars between two log lines."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dab.engine.distributed import Workers


class Meter:
    """Running sums of logged scalars, kept on the device until somebody reads them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.total: Tensor | None = None
        self.count = 0

    def add(self, logs: dict[str, Tensor]) -> None:
        values = torch.stack(list(logs.values()))
        self.names = list(logs)
        self.total = values if self.total is None else self.total + values
        self.count += 1

    def read(self, workers: Workers) -> dict[str, float]:
        """Means since the last reading, over all workers. This waits for the device."""
        if self.total is None:
            return {}
        means = (workers.sum(self.total.double()) / (self.count * workers.world)).tolist()
        self.total, self.count = None, 0
        return dict(zip(self.names, means))

    def state(self, workers: Workers) -> dict[str, Any]:
        """What was added since the last reading, of every worker."""
        totals = [] if self.total is None else workers.gather(self.total)
        return {"names": self.names, "totals": totals, "count": self.count}

    def restore(self, state: dict[str, Any], workers: Workers) -> None:
        """Their mean, where there are now more workers, or fewer, than there were."""
        self.names, totals, self.count = state["names"], state["totals"], state["count"]
        same = len(totals) in (0, workers.world)
        self.total = (totals[workers.rank] if same else torch.stack(totals).mean(0)) if totals else None
