"""When is straight-through enough? A measurement to repeat with a function of your own.

A network must find the inputs that a hidden teacher gave to a hard function, from the function's outputs alone. Its
score is 1 when the outputs are the teacher's, 0 when they are as far off as their mean; here the mean of three seeds.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

import dab

UNITS = 8


def to_grid(z: Tensor) -> Tensor:
    """Rises where its input rises: the identity is not far from it.  [B, 8] → [B, 8]"""
    return (2 * z).round() / 2


def zigzag(z: Tensor) -> Tensor:
    """Rises and falls: the identity points the wrong way half of the time.  [B, 8] → [B, 8]"""
    return (4 * (3 * z).sin()).round() / 4


def who_wins(z: Tensor) -> Tensor:
    """Which of two neighbours is the larger: seven answers of eight numbers.  [B, 8] → [B, 7]"""
    return (z[:, 1:] > z[:, :-1]).to(z.dtype)


LAYERS: dict[str, Callable[[Callable[[Tensor], Tensor]], nn.Module]] = {
    "straight-through": dab.StraightThrough,
    "bridge, as printed": lambda hard: dab.Bridge(hard, in_shape=(UNITS,)),
    "bridge, fitted": lambda hard: dab.FittedBridge(hard, in_shape=(UNITS,), fits=8, past=40),
}


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, UNITS))


def score(hard: Callable[[Tensor], Tensor], layer: nn.Module, seed: int, steps: int = 150) -> float:
    torch.manual_seed(seed)
    teacher, student = net().requires_grad_(False), net()
    optimizer = torch.optim.Adam([*student.parameters(), *layer.parameters()], lr=2e-2)
    for _ in range(steps):
        x = torch.randn(128, 4)
        y, penalty = layer(student(x))
        loss = (y - hard(teacher(x))).square().mean() + penalty.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    x = torch.randn(2000, 4)
    target = hard(teacher(x))
    return 1 - ((hard(student(x)) - target).square().mean() / target.var(0).mean()).item()


def scores_of(hard: Callable[[Tensor], Tensor]) -> dict[str, float]:
    """By layer, for those that fit."""
    keeps_shape = hard(torch.zeros(1, UNITS)).shape[1] == UNITS
    fitting = {name: make for name, make in LAYERS.items() if keeps_shape or name != "straight-through"}
    return {name: sum(score(hard, make(hard), seed) for seed in range(3)) / 3 for name, make in fitting.items()}


scores = {hard.__name__: scores_of(hard) for hard in (to_grid, zigzag, who_wins)}
print("".join(f"{word:20}" for word in ("", *LAYERS)))
for name, of_layers in scores.items():
    cells = (f"{of_layers[layer]:.2f}" if layer in of_layers else "cannot" for layer in LAYERS)
    print("".join(f"{word:20}" for word in (name, *cells)))
