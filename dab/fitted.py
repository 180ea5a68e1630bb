"""A bridge that is fitted well: standardised, by an optimizer of its own, several times a step.

The printed bridge fits its approximator by a penalty in the model's loss: one step of the model's optimizer for each
batch, on numbers of whatever size. On unbounded outputs it diverges, on all others it lags. Here the approximator
maps standardised inputs to standardised outputs and is trained inside the layer, on this batch and on past ones.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from dab.bridge import Bridge, check_shape
from dab.estimators.traits import Calls
from dab.pooled import pooled
from dab.precision import full_precision, working_dtype
from dab.ranges import Count, CountOr0, Positive, ShareAbove0, When, ranged
from dab.stateless import call_with, parameters_by_name
from dab.surrogate import hard_value, value_with_gradient, zero_penalty

_STRIDE = 7919  # between the past rows of one fit: a prime, so that they come from all over the buffer
_BETAS, _EPS = (0.9, 0.999), 1e-8  # Adam's usual ones
_NARROW = 1e-6  # least standard deviation, of the largest: a unit that never moves is not blown up
_FLAT = 0.05  # the same of an input, of that of all: one over it is a slope, a unit that hardly moves got thousands


class FittedBridge(Bridge):
    """A bridge whose approximator is fitted inside the layer. The penalty is zero: there is nothing to add to a loss.

    y, _ = bridge(z)            # z: [B, ...] → y: [B, ...]
    loss = task(y)

    Backward, J'g as in the `released` routing, with J the Jacobian of  mean_h + std_h net((z - mean_z) / std_z).
    Running means and deviations, the optimizer's moments and the past pairs are buffers: a checkpoint has them.
    With torch.distributed the workers pool their pairs (of equal number), and so fit the same approximator.
    For black boxes take fits=8, past=40 (estimator=auto): more fits cost no call of `hard`, and at equal calls that was
    ahead of every bridge that asks it more often, in trials on counts, trees, parities and an actuator.
    Not for torch.func, nor for torch.compile with fullgraph=True: fitting happens in the forward pass of training.

    hard, approximator, in_shape    as for Bridge; the approximator must have something to train
    lr          learning rate of the fits (Adam)
    fits        a step: the first on this batch, the others on past pairs, without a call of `hard`
    past        how many batches of pairs are kept
    perturbed   further calls of `hard` a step, at z + spread · std_z · noise: what happens around the batch
    spread      of these perturbations
    momentum    of the running means

    `misfit` is the share of the outputs' variance that the last fit left unexplained.
    """

    fits_itself = True  # no optimizer of a model has anything to do with its approximator
    mean_z: Tensor
    mean_h: Tensor
    past_z: Tensor
    past_h: Tensor
    moments: Tensor
    seen: Tensor  # pairs
    updates: Tensor
    misfit: Tensor

    @ranged
    def __init__(
        self,
        hard: Callable[[Tensor], Tensor],
        approximator: nn.Module | None = None,
        lr: Positive = 3e-3,
        fits: Count = 4,
        past: Count = 8,
        perturbed: CountOr0 = 0,
        spread: Annotated[Positive, When("perturbed")] = 0.3,
        momentum: ShareAbove0 = 0.01,
        in_shape: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(hard, approximator, in_shape=in_shape)
        if not any(p.requires_grad for p in self._net().parameters()):
            raise ValueError("the approximator has no parameter to train: a frozen one goes into dab.Bridge")
        self._net().requires_grad_(False)  # nobody else's to train: not the model's optimizer's, not DDP's
        self.lr, self.fits, self.past, self.momentum = lr, fits, past, momentum
        self.perturbed, self.spread = perturbed, spread

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        h = hard_value(self.hard, z)
        if not self.training:
            return h, zero_penalty(z)
        with full_precision(z):
            x = z.to(working_dtype(z))
            if torch.is_grad_enabled() or "seen" not in self._buffers:
                self._fit(x.detach(), h.to(x.dtype))
            s = self._stand_in(x)
        return value_with_gradient(h, gradient_of=s), zero_penalty(z)

    def _stand_in(self, x: Tensor) -> Tensor:
        """What has the gradient that is passed on.  [B, ...] → [B, ...]"""
        return self._imitation()(x)

    def _imitation(self) -> Callable[[Tensor], Tensor]:
        """The approximator as it is now, between inputs and outputs as they come."""
        # Copies, because the next forward changes all of this in place, perhaps before this one's backward.
        phi = {name: p.clone() for name, p in parameters_by_name(self._net()).items()}
        (mean_z, std_z), (mean_h, std_h) = ((getattr(self, f"mean_{n}").clone(), self._std(n)) for n in "zh")
        return lambda x: call_with(self._net(), phi, (x - mean_z) / std_z) * std_h + mean_h

    @torch.no_grad()
    def _fit(self, z: Tensor, h: Tensor) -> None:
        z, h = self._with_perturbed(z, h)
        z, h = pooled(z), pooled(h)
        if "seen" not in self._buffers:
            self._start(z, h)
        self._track(z, h)
        self._remember(z, h)
        for pairs in self._batches(z, h):
            self._update(*pairs)

    def _with_perturbed(self, z: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        std = self._std("z") if "seen" in self._buffers else z.std(0)
        near = [z + self.spread * std * torch.randn_like(z) for _ in range(self.perturbed)]
        return torch.cat([z, *near]), torch.cat([h, *(hard_value(self.hard, n).to(h.dtype) for n in near)])

    def _start(self, z: Tensor, h: Tensor) -> None:
        """The buffers, once shapes are known."""
        for name, t in (("z", z), ("h", h)):
            self.register_buffer(f"mean_{name}", t.new_zeros(t.shape[1:]))
            self.register_buffer(f"square_{name}", t.new_zeros(t.shape[1:]))
            self.register_buffer(f"past_{name}", t.new_zeros(self.past * len(t), *t.shape[1:]))
        size = sum(p.numel() for p in self._net().parameters())
        self.register_buffer("moments", z.new_zeros(2, size))
        for name in ("seen", "updates"):
            self.register_buffer(name, torch.zeros((), dtype=torch.long, device=z.device))
        self.register_buffer("misfit", z.new_ones(()))

    def _track(self, z: Tensor, h: Tensor) -> None:
        """Running means; plain averages until there is enough to forget."""
        rate = self._rate(self.updates // self.fits).to(z.dtype)
        for name, t in (("z", z), ("h", h)):
            self._track_one(name, t, rate)

    def _track_one(self, name: str, t: Tensor, rate: Tensor) -> None:
        getattr(self, f"mean_{name}").lerp_(t.mean(0), rate)
        getattr(self, f"square_{name}").lerp_(t.square().mean(0), rate)

    def _rate(self, steps: Tensor) -> Tensor:
        """How much of a running mean is this step's, after so many others."""
        return (1 / (steps + 1)).clamp(min=self.momentum)

    def _std(self, name: str) -> Tensor:
        variance = getattr(self, f"square_{name}") - getattr(self, f"mean_{name}").square()
        std = variance.clamp(min=0).sqrt()
        least = _FLAT * std.square().mean().sqrt() if name == "z" else _NARROW * std.max()
        return torch.maximum(std, _NARROW + least)

    def _remember(self, z: Tensor, h: Tensor) -> None:
        z, h = z[-len(self.past_z) :], h[-len(self.past_z) :]  # a batch may be larger than all that is kept
        rows = (self.seen + torch.arange(len(z), device=z.device)) % len(self.past_z)
        self.past_z.index_copy_(0, rows, z)
        self.past_h.index_copy_(0, rows, h)
        self.seen += len(z)

    def _batches(self, z: Tensor, h: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """This batch, then past pairs. By stride instead of by chance: no random number is used up, workers agree."""
        yield z, h
        there = self.seen.clamp(max=len(self.past_z))
        place = torch.arange(len(z), device=z.device)
        for fit in range(1, self.fits):
            rows = (self.seen + fit + _STRIDE * place) % there
            yield self.past_z.index_select(0, rows), self.past_h.index_select(0, rows)

    def _update(self, z: Tensor, h: Tensor) -> None:
        """One step of Adam on the squared error, both sides standardised."""
        net = self._net()
        x, target = (z - self.mean_z) / self._std("z"), (h - self.mean_h) / self._std("h")
        with torch.enable_grad():
            net.requires_grad_()
            s = net(x)
            check_shape(s, target, z)
            loss = (s - target).square().mean()
            gradients = torch.autograd.grad(loss, list(net.parameters()))
            net.requires_grad_(False)
        self.misfit.copy_(loss.detach())
        self.updates += 1
        gradient = torch.cat([g.flatten() for g in gradients])
        first, second = self.moments
        first.lerp_(gradient, 1 - _BETAS[0])
        second.lerp_(gradient.square(), 1 - _BETAS[1])
        unbiased = [m / (1 - beta**self.updates) for m, beta in zip((first, second), _BETAS)]
        step = self.lr * unbiased[0] / (unbiased[1].sqrt() + _EPS)
        for p, part in zip(net.parameters(), step.split([p.numel() for p in net.parameters()])):
            p.sub_(part.view_as(p))

    def _net(self) -> nn.Module:
        if self.approximator is None:
            raise RuntimeError(
                "this bridge was stripped for inference: call .eval() on it, or train the original model"
            )
        return self.approximator

    def strip_(self) -> None:
        super().strip_()
        self._buffers.clear()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        saved = {name: state_dict.get(prefix + name) for name in ("past_z", "past_h")}
        if "seen" not in self._buffers and all(isinstance(t, Tensor) for t in saved.values()):
            z, h = ((t[: len(t) // self.past]) for t in saved.values())  # type: ignore[index,arg-type]
            self._start(z, h)
        super()._load_from_state_dict(state_dict, prefix, *args)

    @property
    def calls(self) -> Calls:
        return Calls(1 + self.perturbed)

    def extra_repr(self) -> str:
        return f"lr={self.lr:g}, fits={self.fits}, past={self.past}, perturbed={self.perturbed}"
