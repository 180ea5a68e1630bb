"""The paper's toy figure: a small net learns the signum, and its gradient grows two bumps at ±eps.

python scripts/figure_bridge.py [--out figures/bridge.png]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn

from dab.hard import Signum
from dab.keys import generator, key
from experiments.drawing import WIDTH, plt
from experiments.methods import method_of

EPS = 0.5
BRIDGE, GRADIENT = (method.colour for name in ("Dense bridge", "Straight-through") if (method := method_of(name)))
MOMENTS = {"near the start": 30, "in the middle": 300, "at the end": 3000}  # training steps


def three_layer_net(width: int = 64) -> nn.Sequential:
    return nn.Sequential(nn.Linear(1, width), nn.ELU(), nn.Linear(width, width), nn.ELU(), nn.Linear(width, 1))


def predictions_and_gradients(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """The net's output at x [N, 1], and its derivative there."""
    x = x.clone().requires_grad_()
    y = net(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    return y.detach(), gradient


def train(moments: dict[str, int], batch: int = 256, lr: float = 3e-3) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """(x, prediction, gradient) at each of the moments."""
    torch.manual_seed(key("toy"))
    net, hard = three_layer_net(), Signum(EPS)
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    random = generator("toy", "data")
    seen = {}
    for step in range(1, max(moments.values()) + 1):
        x = 2 * torch.rand(batch, 1, generator=random) - 1
        loss = (net(x) - hard(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for name, at in moments.items():
            if step == at:
                points = 2 * torch.rand(400, 1, generator=random) - 1
                seen[name] = (points, *predictions_and_gradients(net, points))
    return seen


def draw(seen: dict[str, tuple[Tensor, Tensor, Tensor]], path: Path) -> None:
    figure, axes = plt.subplots(1, len(seen), figsize=(WIDTH, 3), sharey=True, layout="constrained")
    grid = torch.linspace(-1, 1, 1001)
    for axis, (name, (x, y, gradient)) in zip(axes, seen.items()):
        axis.plot(grid, Signum(EPS)(grid), color="0.7", label="hard signum")
        axis.scatter(x, y, s=5, color=BRIDGE, label="prediction")
        axis.scatter(x, gradient, s=5, color=GRADIENT, label="its gradient")
        axis.set(title=f"{name} (step {MOMENTS[name]})", xlabel="x")
    axes[0].legend(frameon=False, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("figures/bridge.png"))
    path = parser.parse_args().out
    draw(train(MOMENTS), path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
