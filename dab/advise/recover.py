"""The task: an encoder in front of the function learns to match what the function makes of a hidden teacher's output.

x [8] → encoder 8-64-64-units → z [*in_shape] → function → y, against function(teacher(x)). Nothing comes after the
function, so everything that is learned has passed it. Teacher and encoder are drawn from the same distribution.
"""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dab.keys import generator, key
from dab.nets import mlp
from dab.surrogate import hard_value

INPUTS, WIDTH = 8, 64
BATCH = 128
LOOK = 50  # steps between two looks at the clock and at whether the loss is still a number
WORST = -1.0  # the lowest score: below it everything has failed alike
GAIN = 1.0  # of the first layers: units that bend a little


class Encoder(nn.Module):
    """x [B, inputs] → z [B, *in_shape]; at the start every unit has mean 0 and standard deviation `scale` on x."""

    def __init__(self, x: Tensor, in_shape: tuple[int, ...], scale: float) -> None:
        super().__init__()
        self.in_shape = tuple(in_shape)
        self.net = mlp((x.shape[1], WIDTH, WIDTH, math.prod(in_shape)), "tanh")
        linear = [layer for layer in self.net if isinstance(layer, nn.Linear)]
        with torch.no_grad():
            for layer in linear:
                nn.init.xavier_normal_(layer.weight, GAIN)
                nn.init.zeros_(layer.bias)
            z = self.net(x)
            linear[-1].weight.mul_((scale / z.std(0))[:, None])
            linear[-1].bias.sub_(z.mean(0) * scale / z.std(0))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).view(len(x), *self.in_shape)


@dataclass(frozen=True)
class Trained:
    encoder: Encoder
    layer: nn.Module
    steps: int
    calls: float  # of the function, for every sample and step
    seconds: float  # of this thread's processor time


class Recover:
    """One teacher, one start of the encoder, and the samples: all by the seed.

    hard    a module, so that its calls can be counted
    scale   standard deviation of the function's inputs
    pool    training samples, used again and again; as many calls of the function
    held    validation samples, and as many for the test
    """

    def __init__(
        self,
        hard: nn.Module,
        in_shape: tuple[int, ...],
        seed: int = 0,
        scale: float = 1.0,
        pool: int = 8192,
        held: int = 2048,
    ) -> None:
        self.hard, self.in_shape, self.seed = hard, tuple(in_shape), seed
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(key("recover", seed))
            sizes = {"train": pool, "valid": held, "test": held}
            self.x = {split: torch.randn(size, INPUTS) for split, size in sizes.items()}
            self.teacher, self.start = (Encoder(self.x["train"][:1024], in_shape, scale) for _ in range(2))
            self.y = {split: self._output(self.teacher, x) for split, x in self.x.items()}
            self.variance = max(float(_units(self.y["train"]).var(0).mean()), 1e-12)
            # A function that draws its output: not even the teacher matches itself.
            self.least = {split: self.error(self.teacher, split) for split in ("valid", "test")}
            self.frozen = {split: self.error(self.start, split) for split in ("valid", "test")}

    @torch.no_grad()
    def _output(self, encoder: Encoder, x: Tensor) -> Tensor:
        return hard_value(self.hard, encoder(x))

    def error(self, encoder: Encoder, split: str) -> float:
        """Squared, of a unit, in the mean."""
        return float((self._output(encoder, self.x[split]) - self.y[split]).square().mean())

    def score(self, encoder: Encoder, split: str) -> float:
        """0 as the encoder that never learned, 1 as the teacher; at least -1."""
        left = (self.error(encoder, split) - self.least[split]) / max(self.frozen[split] - self.least[split], 1e-12)
        return max(1.0 - left, WORST) if math.isfinite(left) else WORST

    def explained(self, encoder: Encoder, split: str) -> float:
        """The share of the outputs' variance, 0 for their mean; at least -1000."""
        left = self.error(encoder, split) / self.variance
        return max(1.0 - left, -1000.0) if math.isfinite(left) else -1000.0

    def train(self, layer: nn.Module, rate: float, steps: int, deadline: float = math.inf) -> Trained:
        """The encoder after so many steps through `layer`: Adam, the learning rate falling to zero by a cosine.

        deadline    on time.monotonic's clock: TimeoutError beyond
        """
        encoder = copy.deepcopy(self.start)
        with torch.random.fork_rng(devices=[]), Counted(self.hard) as counted:
            torch.manual_seed(key("train", self.seed))
            parameters = [p for p in (*encoder.parameters(), *layer.parameters()) if p.requires_grad]
            optimizer = torch.optim.Adam(parameters, lr=rate, fused=True)
            draw, before = generator("batches", self.seed), time.thread_time()
            for step in range(steps):
                optimizer.param_groups[0]["lr"] = rate * (1 + math.cos(math.pi * step / steps)) / 2
                loss = self._loss(encoder, layer.train(), draw)
                if loss.requires_grad:  # a layer may send nothing back
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                if step % LOOK == 0:
                    if not loss.isfinite():
                        break
                    if time.monotonic() > deadline:
                        raise TimeoutError
        return Trained(encoder, layer, step + 1, counted.rows / ((step + 1) * BATCH), time.thread_time() - before)

    def _loss(self, encoder: Encoder, layer: nn.Module, draw: torch.Generator) -> Tensor:
        rows = torch.randint(len(self.x["train"]), (BATCH,), generator=draw)
        y, penalty = layer(encoder(self.x["train"][rows]))
        return (y - self.y["train"][rows]).square().mean() / self.variance + penalty.mean()


class Counted:
    """How many rows a module is given while this is open."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.rows = module, 0

    def __enter__(self) -> Counted:
        self._hook = self.module.register_forward_pre_hook(self._count)
        return self

    def _count(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self.rows += len(inputs[0])

    def __exit__(self, *error: object) -> None:
        self._hook.remove()


def _units(h: Tensor) -> Tensor:
    return h.flatten(1) if h.dim() > 1 else h.unsqueeze(1)  # [B, ...] → [B, units]
