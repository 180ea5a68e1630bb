from collections.abc import Callable

from torch import Tensor, nn

from dab.surrogate import call_hard, hard_value, zero_penalty


class TrueGradient(nn.Module):
    """The hard function as autograd sees it: exact for sort, top-k and k-means with fixed assignments.

    For functions that are constant almost everywhere (signum, binary, ...) there is nothing to see: what comes
    before the layer then gets no gradient at all. Neither does it in evaluation mode.
    """

    def __init__(self, hard: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.hard = hard

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        y = call_hard(self.hard, z) if self.training else hard_value(self.hard, z)
        return y, zero_penalty(z)
