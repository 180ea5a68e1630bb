"""Pointer network (Vinyals, Fortunato, Jaitly 2015): an LSTM reads the numbers, another points at them in order."""

from __future__ import annotations

from torch import Tensor, nn

from dab.models.pointer_decoder import PointerModel, State
from dab.ranges import Count, CountOr0, Finite, Positive, ranged


class PointerNetwork(PointerModel):
    """The memory is the encoder's output at each element; the decoder starts where the encoder ended."""

    @ranged
    def __init__(
        self,
        estimator: nn.Module,
        input_shape: tuple[int, ...],
        hidden: Count = 256,
        glimpses: CountOr0 = 1,
        mask_chosen: bool = False,
        input_shift: Finite = 0.5,
        input_scale: Positive = 10.0,
    ):
        super().__init__(estimator, input_shape, hidden, glimpses, mask_chosen, input_shift, input_scale)
        self.encoder = nn.LSTM(1, hidden, batch_first=True)

    def encode(self, numbers: Tensor) -> tuple[Tensor, State]:
        return self.encoder(numbers)
