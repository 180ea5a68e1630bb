"""A forest of scikit-learn inside a network: autograd sees nothing of it, and it changes the shape.

The forest has learned, from a plant's records, which three qualities six settings of a machine lead to. The network
must find settings for the qualities that are asked for, and learns them through the forest itself.
"""

import numpy as np
import torch
from sklearn.ensemble import RandomForestRegressor
from torch import Tensor, nn

import dab

draw = np.random.default_rng(0)
settings = draw.normal(size=(1000, 6))
qualities = np.stack([settings[:, 0] * settings[:, 1], settings[:, 2] + settings[:, 3], np.abs(settings[:, 4])], 1)
forest = RandomForestRegressor(n_estimators=4, max_depth=8, random_state=0).fit(settings, qualities)


def outcome(z: Tensor) -> Tensor:
    """[B, 6] → [B, 3]: a call out of torch."""
    return torch.from_numpy(forest.predict(z.numpy()))


def train(layer: nn.Module, steps: int = 200) -> float:
    """The share of the variance of what was asked for that the forest's outcomes miss."""
    network = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 6))
    optimizer = torch.optim.Adam([*network.parameters(), *layer.parameters()], lr=5e-3)
    for _ in range(steps):
        wanted = asked(128)
        got, penalty = layer(network(wanted))
        loss = (got - wanted).square().mean() + penalty.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    layer.eval()
    wanted = asked(500)
    with torch.no_grad():
        return ((layer(network(wanted))[0] - wanted).square().mean() / wanted.var(0).mean()).item()


def asked(size: int) -> Tensor:
    return torch.from_numpy(forest.predict(draw.normal(size=(size, 6)))).float()


torch.manual_seed(0)
layers = {
    "a bridge, one call a step": dab.FittedBridge(outcome, in_shape=(6,), fits=8, past=40),
    "antithetic differences, five calls": dab.estimators.Smoothing(outcome, samples=4),
}
errors = {"before training": train(dab.estimators.Detached(outcome), steps=0)}
errors |= {name: train(layer) for name, layer in layers.items()}
for name, error in errors.items():
    print(f"{name:36} error {error:.2f}")
