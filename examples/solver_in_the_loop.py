"""A solver in the loop: learn the costs that make an assignment come out as it was observed.

Four workers and four jobs; what a job costs a worker depends on features that are seen, in a way that is not. Observed
are the best assignments alone. scipy solves; the network predicts costs and is trained through the solver.
"""

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

import dab


class Assignment(nn.Module):
    """[B, 4, 4] costs → [B, 4, 4], 1 where a worker has a job: the cheapest way to give everyone one."""

    sense = "min"  # its output falls where its input rises

    def forward(self, costs: Tensor) -> Tensor:
        solved = torch.zeros_like(costs)
        for matrix, one in zip(costs, solved, strict=True):
            rows, columns = linear_sum_assignment(matrix.numpy())
            one[rows, columns] = 1.0
        return solved


solver = Assignment()
truth = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1)).requires_grad_(False)


def batch(size: int = 64) -> tuple[Tensor, Tensor]:
    features = torch.randn(size, 4, 4, 5)  # of every pair of worker and job
    return features, solver(truth(features).squeeze(-1))


def train(layer: nn.Module, steps: int = 150) -> float:
    """How many workers get another job than observed, in the end."""
    costs = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam([*costs.parameters(), *layer.parameters()], lr=1e-2)
    for _ in range(steps):
        features, observed = batch()
        assigned, penalty = layer(costs(features).squeeze(-1))
        loss = (assigned - observed).square().sum((1, 2)).mean() + penalty.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    features, observed = batch(500)
    return 1 - (solver(costs(features).squeeze(-1).detach()) * observed).sum().item() / (4 * 500)


torch.manual_seed(0)
layers = {
    "black-box interpolation": dab.estimators.Interpolation(solver, strength=1.0, relative=True),
    "identity, for a solver": dab.estimators.Identity(solver),
}
errors = {"before training": train(dab.estimators.Detached(solver), steps=0)}
errors |= {name: train(layer) for name, layer in layers.items()}
for name, error in errors.items():
    print(f"{name:24} {100 * error:.0f} % of the workers get another job")
