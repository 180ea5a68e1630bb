"""The shortest whole program: a call of numpy inside a network, and a gradient through it."""

import numpy as np
import torch
from torch import Tensor, nn

import dab


def counts(z: Tensor) -> Tensor:
    """How many of eight numbers lie in each of four bins.  [B, 8] → [B, 4]"""
    rows = [np.histogram(row, bins=(-np.inf, -1, 0, 1, np.inf))[0] for row in z.numpy()]
    return torch.from_numpy(np.stack(rows)).to(z.dtype)


torch.manual_seed(0)
network = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 8))
layer = dab.FittedBridge(counts, in_shape=(8,), fits=8, past=40)
optimizer = torch.optim.Adam([*network.parameters(), *layer.parameters()], lr=5e-3)
missed = []
for step in range(301):
    wanted = counts(torch.randn(128, 8))  # of numbers that the network never sees
    got, penalty = layer(network(wanted))
    loss = (got - wanted).square().mean()
    optimizer.zero_grad()
    (loss + penalty.mean()).backward()
    optimizer.step()
    missed.append((got - wanted).abs().mean().item())
    if step % 100 == 0:  # one batch says little, a hundred do
        print(f"step {step}: a bin is missed by {np.mean(missed[-100:]):.2f} of eight numbers")
