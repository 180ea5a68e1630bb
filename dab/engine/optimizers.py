"""Several optimizers that step as one."""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer


class Together:
    """What the loop needs of an optimizer, done by several: each its own groups.

    An approximator's penalty is a sum over all units, hundreds of times the task's loss. Adam does not mind; SGD at a
    rate that is right for the model would make the approximator diverge at once.
    """

    def __init__(self, *optimizers: Optimizer):
        self.optimizers = optimizers

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none)

    def step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        return {"optimizers": [optimizer.state_dict() for optimizer in self.optimizers]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for optimizer, of_optimizer in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(of_optimizer)
