from collections.abc import Callable

from torch import Tensor, nn

from dab.surrogate import hard_value, zero_penalty


class Detached(nn.Module):
    """The hard value forward, nothing backward: what comes before the layer never learns.

    The control that says what the layers before contribute: whatever an estimator gains over it, it gains by its
    gradient. (Under torch's DDP such layers need `find_unused_parameters=True`; train.py sees to it.)
    """

    def __init__(self, hard: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.hard = hard

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return hard_value(self.hard, z), zero_penalty(z)
