"""A sort inside a model: learn what to sort by, from nothing but the second largest value.

Every sample is a set of six items with four features each. The target is the second largest of their scores, and the
scores' weights are not known. The model scores the items, sorts the scores and reads the sorted list.
"""

import torch
from torch import Tensor, nn

import dab


class SecondLargest(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.score, self.layer, self.read = nn.Linear(4, 1), layer, nn.Linear(6, 1)

    def forward(self, items: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.score(items).squeeze(-1)  # [B, 6]
        ordered, penalty = self.layer(scores)  # [B, 6], [B]
        return self.read(ordered).squeeze(-1), penalty  # [B]


def batch(size: int = 256) -> tuple[Tensor, Tensor]:
    items = torch.randn(size, 6, 4)
    return items, (items @ torch.tensor([1.0, -2.0, 0.5, 1.5])).topk(2).values[:, 1]


def train(model: SecondLargest, steps: int = 400) -> float:
    """The share of the target's variance that is left unexplained."""
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(steps):
        items, target = batch()
        guess, penalty = model(items)
        loss = (guess - target).square().mean() + penalty.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    items, target = batch(2000)
    return ((model.eval()(items)[0] - target).var() / target.var()).item()


torch.manual_seed(0)
sort = dab.hard.Sort1d()
layers = {
    "a bridge around the sort": dab.Bridge(sort, in_shape=(6,)),
    "the sort's own gradient": dab.TrueGradient(sort),  # a sort is piecewise linear: autograd knows it
    "no sort at all": dab.NoHard(),
}
errors = {name: train(SecondLargest(layer)) for name, layer in layers.items()}
for name, error in errors.items():
    print(f"{name:26} error {error:.3f}")
