"""The paper's recurrent sorter: an LSTM reads the numbers, ponders, and a hard function acts on what it says."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dab.activations import Activation
from dab.models.code import shape_after
from dab.nets import mlp
from dab.precision import full_precision
from dab.ranges import Count, CountOr0, Finite, Positive, ranged


class LSTMSorter(nn.Module):
    """An LSTM reads one number a step, then takes `ponder` steps with zero input; a dense layer reads the places out.

    every_step=False    the hard function acts once, on the LSTM's last output (our reading of the paper)
    every_step=True     it acts on the output of every step, and the hard value is what the next step gets as h;
                        the penalty is the *mean* over the steps, so that gamma means the same at any length
    """

    @ranged
    def __init__(
        self,
        estimator: nn.Module,
        input_shape: tuple[int, ...],
        hidden: Count = 256,
        dense: Count = 256,
        ponder: CountOr0 = 0,
        every_step: bool = False,
        activation: Activation = "tanh",
        input_shift: Finite = 0.5,
        input_scale: Positive = 1.0,
    ):
        super().__init__()
        (length,) = input_shape
        code = math.prod(shape_after(estimator, (hidden,)))
        if every_step and code != hidden:
            raise ValueError(
                f"every_step=true feeds the hard value back as the next h, so the hard function must keep its {hidden} "
                f"units, but this one makes {code} of them: use every_step=false"
            )
        self.length, self.ponder, self.every_step = length, ponder, every_step
        self.shift, self.scale = input_shift, input_scale
        # Same parameters either way; the cell only where the hard function must act between two steps.
        self.lstm = nn.LSTMCell(1, hidden) if every_step else nn.LSTM(1, hidden, batch_first=True)
        self.estimator = estimator
        self.dense = mlp((code, dense), activation, activate_last=True)
        self.read_out = nn.Linear(dense, length * length)

    @staticmethod
    def code_shape(input_shape: tuple[int, ...], hard: nn.Module, hidden: int, **_: object) -> tuple[int, ...]:
        return (hidden,)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, T] -> logits [B, element, place], penalty [B]."""
        with full_precision(x):  # close numbers differ in digits that bfloat16 does not have
            inputs = F.pad((x - self.shift) * self.scale, (0, self.ponder)).unsqueeze(2)  # [B, T + ponder, 1]
            y, penalty = self._hard_every_step(inputs) if self.every_step else self._hard_once(inputs)
            return self.read_out(self.dense(y.flatten(1))).view(-1, self.length, self.length), penalty

    def _hard_once(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        _, (h, _) = self.lstm(inputs)  # h [1, B, hidden]
        return self.estimator(h[0])

    def _hard_every_step(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        state, penalties = None, []
        for number in inputs.unbind(1):  # [B, 1]
            h, c = self.lstm(number, state)
            y, penalty = self.estimator(h)
            state = (y, c)
            penalties.append(penalty)
        return y, torch.stack(penalties).mean(dim=0)
