"""Read-Process-Write (Vinyals, Bengio, Kudlur 2016, "Order Matters"): a pointer network that reads a set."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dab.activations import Activation
from dab.models.pointer_decoder import PointerModel, State
from dab.nets import mlp
from dab.ranges import Count, CountOr0, Finite, Positive, ranged


class Process(nn.Module):
    """An LSTM without inputs that attends to the memory `steps` times: what it ends with does not know their order.

        q_t = LSTM(q*_{t-1})      e_i = m_i . q_t / sqrt(H)      r_t = softmax(e) m      q*_t = [q_t; r_t]

    Feeding q* back as the state is the same as an LSTM cell with the state q and the input r.
    """

    def __init__(self, hidden: int, steps: int):
        super().__init__()
        self.steps = steps
        self.cell = nn.LSTMCell(hidden, hidden)

    def forward(self, memory: Tensor) -> Tensor:
        """memory [B, T, H] -> q* [B, 2H]."""
        q = c = r = memory.new_zeros(memory.shape[0], memory.shape[2])
        for _ in range(self.steps):
            q, c = self.cell(r, (q, c))
            scores = memory @ q.unsqueeze(2) / memory.shape[2] ** 0.5  # [B, T, 1]
            r = (scores.softmax(dim=1) * memory).sum(dim=1)
        return torch.cat([q, r], dim=1)


class ReadProcessWrite(PointerModel):
    """Read: the same small net for each element. Process: `ponder` steps of attention. Write: a pointer decoder.

    With ponder=0 there is no process block: the decoder starts from a learned state that has not seen the set.
    """

    @ranged
    def __init__(
        self,
        estimator: nn.Module,
        input_shape: tuple[int, ...],
        hidden: Count = 256,
        ponder: CountOr0 = 5,
        glimpses: CountOr0 = 1,
        mask_chosen: bool = False,
        activation: Activation = "tanh",
        input_shift: Finite = 0.5,
        input_scale: Positive = 10.0,
    ):
        super().__init__(estimator, input_shape, hidden, glimpses, mask_chosen, input_shift, input_scale)
        self.read = mlp((1, hidden, hidden), activation)
        self.process = Process(hidden, ponder) if ponder else None
        self.to_state = nn.Linear(2 * hidden, 2 * hidden) if ponder else None
        self.first = None if ponder else nn.Parameter(torch.zeros(2 * hidden))

    def encode(self, numbers: Tensor) -> tuple[Tensor, State]:
        memory = self.read(numbers)  # [B, T, H]
        h, c = self._state(memory).unsqueeze(0).chunk(2, dim=2)
        return memory, (h.contiguous(), c.contiguous())

    def _state(self, memory: Tensor) -> Tensor:
        """The decoder's first h and c side by side, [B, 2H]."""
        if self.process is None or self.to_state is None:
            assert self.first is not None
            return self.first.expand(memory.shape[0], -1)
        return self.to_state(self.process(memory))
