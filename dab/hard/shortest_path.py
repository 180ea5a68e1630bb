from typing import Literal

import torch
from torch import Tensor, nn

from dab.hard.bits import or_nan
from dab.precision import working_dtype
from dab.ranges import Count, ranged


class ShortestPath(nn.Module):
    """The cheapest way from the upper left to the lower right corner of a grid, by moves to the right and down.

    costs   edges: [B, E] costs of the E = height (width - 1) + (height - 1) width moves → [B, E], 1 on those taken.
            Row by row, first the moves to the right within a row, then those down from it (as PyEPO's grids have it)
            nodes: [B, height, width] costs of the places entered → [B, height, width], 1 on those visited; the first
            and the last are on every way

    Exact, by dynamic programming, for costs of any sign; of equal ways the one that goes right first. A sample with a
    NaN comes out as NaN. `sense` is "min": the output falls where the input rises.
    """

    bits_per_unit: float | None = 1.0
    values = (0.0, 1.0)
    keeps_input = True
    sense = "min"
    right: Tensor
    down: Tensor

    @ranged
    def __init__(self, height: Count = 5, width: Count = 5, costs: Literal["edges", "nodes"] = "edges") -> None:
        super().__init__()
        if height * width < 2:
            raise ValueError(f"a grid needs two places at least, given height {height} and width {width}")
        self.height, self.width = height, width
        self.costs = costs
        self.units = height * width if costs == "nodes" else height * (width - 1) + (height - 1) * width
        right, down = self._moves()
        self.register_buffer("right", right, persistent=False)
        self.register_buffer("down", down, persistent=False)

    def _moves(self) -> tuple[Tensor, Tensor]:
        """Which input is the cost of a move from row i on the d-th diagonal; `units` where there is none.

        → 2 × [height + width - 2, height]
        """
        steps = self.height + self.width - 2
        right, down = (torch.full((steps, self.height), self.units) for _ in range(2))
        for i in range(self.height):
            for j in range(self.width):
                edge = i * (2 * self.width - 1) + j  # the first move of a row, and j further
                node = i * self.width + j
                if j + 1 < self.width:
                    right[i + j, i] = edge if self.costs == "edges" else node + 1
                if i + 1 < self.height:
                    down[i + j, i] = edge + self.width - 1 if self.costs == "edges" else node + self.width
        return right, down

    def forward(self, z: Tensor) -> Tensor:
        self.out_shape(tuple(z.shape[1:]))  # refuses another grid
        flat = z.detach().to(working_dtype(z)).flatten(1)  # [B, units]
        padded = torch.cat([flat, flat.new_full((len(flat), 1), torch.inf)], 1)
        taken = self._walk(self._go_down(padded))  # [B, steps]
        path = torch.zeros_like(flat).scatter(1, taken, 1.0)
        if self.costs == "nodes":
            path = path + (torch.arange(self.units, device=z.device) == 0)  # where it starts
        return or_nan(path, flat.amax(1, keepdim=True)).to(z.dtype).reshape(z.shape)

    def _go_down(self, cost: Tensor) -> Tensor:
        """Whether the best way on goes down, for every place: from the last diagonal back.  → [B, steps, height]"""
        # What is left from each row of a diagonal on, and behind the last row: no way.
        left = torch.where(torch.arange(self.height + 1, device=cost.device) == self.height - 1, 0.0, torch.inf)
        left = left.to(cost.dtype).expand(len(cost), -1)  # [B, height + 1]
        decisions = []
        for right, down in zip(self.right.flip(0), self.down.flip(0)):
            by_right, by_down = cost[:, right] + left[:, :-1], cost[:, down] + left[:, 1:]
            decisions.append((by_down < by_right) | (right == self.units))  # in the last column, whatever it costs
            left = torch.cat([torch.minimum(by_right, by_down), left[:, -1:]], 1)
        return torch.stack(decisions[::-1], 1)

    def _walk(self, go_down: Tensor) -> Tensor:
        """The inputs that are paid for, from the first diagonal on.  → [B, steps]"""
        row = torch.zeros_like(go_down[:, 0, :1], dtype=torch.long)  # [B, 1]
        paid = []
        for step, (right, down) in enumerate(zip(self.right, self.down)):
            goes = go_down[:, step].gather(1, row)
            paid.append(torch.where(goes, down[row], right[row]))
            row = row + goes
        return torch.cat(paid, 1)

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        wanted = (self.units,) if self.costs == "edges" else (self.height, self.width)
        if tuple(in_shape) != wanted:
            raise ValueError(
                f"ShortestPath({self.height}, {self.width}, costs={self.costs!r}) needs samples of shape "
                f"{list(wanted)}, given {list(in_shape)}"
            )
        return wanted

    def extra_repr(self) -> str:
        return f"height={self.height}, width={self.width}, costs={self.costs}"
