"""What pointer networks share: additive attention, and a decoder that points at one element for every place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dab.estimators import NoHard
from dab.precision import full_precision
from dab.surrogate import zero_penalty

State = tuple[Tensor, Tensor]  # h and c of a one-layer nn.LSTM, [1, B, H] each


class Attention(nn.Module):
    """Additive: score = v' tanh(W m + U q), for all queries and all of the memory at once."""

    def __init__(self, hidden: int):
        super().__init__()
        self.keys = nn.Linear(hidden, hidden, bias=False)
        self.query = nn.Linear(hidden, hidden)
        self.score = nn.Linear(hidden, 1, bias=False)

    def forward(self, keys: Tensor, queries: Tensor) -> Tensor:
        """keys [B, T, H] (made once by `self.keys(memory)`), queries [B, Q, H] -> scores [B, Q, T]."""
        both = keys.unsqueeze(1) + self.query(queries).unsqueeze(2)  # [B, Q, T, H]
        return self.score(both.tanh_()).squeeze(3)


class Glimpse(Attention):
    """One look at the memory that refines a query before it points."""

    def __init__(self, hidden: int):
        super().__init__(hidden)
        self.mix = nn.Linear(2 * hidden, hidden)

    def refine(self, keys: Tensor, memory: Tensor, queries: Tensor) -> Tensor:
        seen = self(keys, queries).softmax(dim=2) @ memory  # [B, Q, H]
        return self.mix(torch.cat([queries, seen], dim=2))


class PointerDecoder(nn.Module):
    """An LSTM over the places; its input is the number chosen before, its output points at the next one.

    Glimpses are not fed back into the LSTM. So with the order given (teacher forcing) the LSTM runs once over all
    places and all attention is one batched operation; without it the decoder is greedy, a place at a time.

    mask_chosen     an element chosen before cannot be chosen again; off in the papers
    """

    def __init__(self, hidden: int, glimpses: int, mask_chosen: bool):
        super().__init__()
        self.mask_chosen = mask_chosen
        self.start = nn.Parameter(torch.zeros(1))  # the input before anything is chosen
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.glimpses = nn.ModuleList(Glimpse(hidden) for _ in range(glimpses))
        self.pointer = Attention(hidden)

    def forward(self, memory: Tensor, numbers: Tensor, state: State, order: Tensor | None = None) -> Tensor:
        """memory [B, T, H], numbers [B, T, 1], order [B, T] or None (greedy) -> logits [B, element, place]."""
        point = self._pointing_at(memory)
        scores = self._greedy(point, numbers, state) if order is None else self._forced(point, numbers, state, order)
        return scores.transpose(1, 2)

    def _pointing_at(self, memory: Tensor) -> Callable[[Tensor], Tensor]:
        """The function queries [B, Q, H] -> scores [B, Q, T], with the keys of the memory computed once."""
        looks = [(glimpse, glimpse.keys(memory)) for glimpse in cast(Iterable[Glimpse], self.glimpses)]
        keys = self.pointer.keys(memory)

        def point(queries: Tensor) -> Tensor:
            for glimpse, glimpse_keys in looks:
                queries = glimpse.refine(glimpse_keys, memory, queries)
            return self.pointer(keys, queries)

        return point

    def _forced(self, point: Callable[[Tensor], Tensor], numbers: Tensor, state: State, order: Tensor) -> Tensor:
        batch, length, _ = numbers.shape
        inputs = torch.cat([self._first(batch), _rows(numbers, order[:, :-1])], dim=1)  # [B, T, 1]
        queries, _ = self.lstm(inputs, state)
        # Evaluation batches are large and keep nothing for a backward pass: a place at a time saves T-fold memory.
        at_once = length if self.training else 1
        scores = torch.cat([point(part) for part in queries.split(at_once, dim=1)], dim=1)  # [B, place, element]
        taken = F.one_hot(order, length)
        return self._hide(scores, (taken.cumsum(dim=1) - taken).bool())

    def _greedy(self, point: Callable[[Tensor], Tensor], numbers: Tensor, state: State) -> Tensor:
        batch, length, _ = numbers.shape
        number, places = self._first(batch), []
        taken = torch.zeros(batch, 1, length, dtype=torch.bool, device=numbers.device)
        for _ in range(length):
            query, state = self.lstm(number, state)
            scores = self._hide(point(query), taken)  # [B, 1, element]
            chosen = scores.argmax(dim=2)
            taken = taken | F.one_hot(chosen, length).bool()
            number = _rows(numbers, chosen)
            places.append(scores)
        return torch.cat(places, dim=1)

    def _first(self, batch: int) -> Tensor:
        return self.start.expand(batch, 1, -1)

    def _hide(self, scores: Tensor, taken: Tensor) -> Tensor:
        return scores.masked_fill(taken, float("-inf")) if self.mask_chosen else scores


class PointerModel(nn.Module):
    """A sorter that reads the numbers into a memory and points at them. A subclass says how it reads: `encode`.

    There is nothing hard inside: it is a rival, and takes NoHard for an estimator to be built like every model.
    """

    def __init__(
        self,
        estimator: nn.Module,
        input_shape: tuple[int, ...],
        hidden: int,
        glimpses: int,
        mask_chosen: bool,
        input_shift: float,
        input_scale: float,
    ):
        super().__init__()
        name = type(self).__name__
        if not isinstance(estimator, NoHard):
            raise ValueError(
                f"{name} has no hard function to train through, given {type(estimator).__name__}: use estimator=no_hard"
            )
        (self.length,) = input_shape
        self.shift, self.scale = input_shift, input_scale
        self.decoder = PointerDecoder(hidden, glimpses, mask_chosen)

    @staticmethod
    def code_shape(input_shape: tuple[int, ...], hard: nn.Module, hidden: int, **_: object) -> tuple[int, ...]:
        return (hidden,)  # for the uniform contract: no estimator ever sees it

    def encode(self, numbers: Tensor) -> tuple[Tensor, State]:
        """numbers [B, T, 1] -> memory [B, T, H], the decoder's first state."""
        raise NotImplementedError

    def forward(self, x: Tensor, order: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x [B, T] -> logits [B, element, place], zeros [B]; with `order` [B, T] teacher-forced, without it greedy."""
        if order is None and self.training:
            raise ValueError(
                f"{type(self).__name__} is trained with the right order as its prefix, and none was given: "
                "use task=pointing, or call .eval() to decode greedily"
            )
        with full_precision(x):  # close numbers differ in digits that bfloat16 does not have
            numbers = ((x - self.shift) * self.scale).unsqueeze(2)  # [B, T, 1]
            memory, state = self.encode(numbers)
            return self.decoder(memory, numbers, state, order), zero_penalty(x)


def _rows(numbers: Tensor, index: Tensor) -> Tensor:
    """The numbers [B, T, 1] at index [B, N] -> [B, N, 1]."""
    return numbers.gather(1, index.unsqueeze(2))
