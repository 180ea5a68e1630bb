"""Hard attention: look at exactly one of eight items, chosen by an argmax that is trained.

A query asks for the item with the same key; what is returned is that item's value, and the loss is of the value alone:
nobody tells the model where to look.
"""

import torch
from torch import Tensor, nn

import dab

ITEMS, SIZE = 8, 6


class HardAttention(nn.Module):
    def __init__(self, choice: nn.Module) -> None:
        super().__init__()
        self.query, self.key, self.choice = nn.Linear(SIZE, 16), nn.Linear(SIZE, 16), choice

    def forward(self, query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scores = torch.einsum("bd,bnd->bn", self.query(query), self.key(keys))  # [B, N]
        chosen, penalty = self.choice(scores)  # [B, N] with a single 1, [B]
        return torch.einsum("bn,bn->b", chosen, values), penalty, chosen


def batch(size: int = 256) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    keys, values, place = torch.randn(size, ITEMS, SIZE), torch.randn(size, ITEMS), torch.randint(ITEMS, (size,))
    query = keys[torch.arange(size), place] + 0.1 * torch.randn(size, SIZE)
    return query, keys, values, place


def train(choice: nn.Module, steps: int = 300) -> float:
    """How often the model looks at the right item, in the end."""
    model = HardAttention(choice)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        query, keys, values, place = batch()
        read, penalty, _ = model(query, keys, values)
        loss = (read - values[torch.arange(len(place)), place]).square().mean() + penalty.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    query, keys, values, place = batch(2000)
    return (model.eval()(query, keys, values)[2].argmax(1) == place).float().mean().item()


torch.manual_seed(0)
argmax = dab.hard.Argmax(ITEMS)
choices = {
    "straight-through": dab.StraightThrough(argmax),
    "matched bridge": dab.Bridge(argmax, in_shape=(ITEMS,)),  # a softmax beside the argmax, its slope fitted
}
found = {"before training": train(dab.StraightThrough(argmax), steps=0)}
found |= {name: train(choice) for name, choice in choices.items()}
for name, share in found.items():
    print(f"{name:18} looks at the right item in {100 * share:.0f} % of cases")
