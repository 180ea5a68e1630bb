"""One tensor in, one tensor out: a layer estimator that brings its penalty along in its own backward."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class _Carry(torch.autograd.Function):
    """Forward: y. Backward: what arrives goes to y, and the penalty gets what a loss gives its terms: 1."""

    generate_vmap_rule = True

    @staticmethod
    def forward(y: Tensor, penalty: Tensor) -> Tensor:
        return y.clone()  # under torch.func y must not be returned as it is

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.dtype = inputs[1].dtype

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        return grad, grad.new_ones((), dtype=ctx.dtype)


class Inline(nn.Module):
    """y = layer(z), as if `weight * penalty.mean()` had been added to the loss.  [B, ...] → [B, ...]  See `inline`."""

    def __init__(self, layer: nn.Module, weight: float = 1.0) -> None:
        super().__init__()
        self.layer = layer
        self.weight = weight

    def forward(self, z: Tensor) -> Tensor:
        y, penalty = self.layer(z)
        if not penalty.requires_grad:  # evaluation, no_grad, or an estimator without penalty
            return y
        return _Carry.apply(y, self.weight * penalty.sum() / max(len(penalty), 1))

    def extra_repr(self) -> str:
        return f"weight={self.weight:g}"


def inline(layer: nn.Module, weight: float = 1.0) -> Inline:
    """Any layer estimator as a module for `nn.Sequential`: nobody can forget the penalty.

    model = nn.Sequential(nn.Linear(2, 8), dab.inline(dab.Bridge(hard, in_shape=(8,))), nn.Linear(8, 1))
    loss_of(model(x)).backward()

    Every backward that reaches y adds the gradient of `weight * penalty.mean()`, whatever gradient arrives there: how
    the loss was scaled cannot be seen from it. So whoever scales the loss sets `weight` alike: to 1 / k where the loss
    is divided by k for accumulation, to `scaler.get_scale()` before each forward with a GradScaler. (Autocast alone
    changes nothing: the penalty is float32 or wider.) Two backwards through one forward add it twice; DDP averages it
    as it does the rest. A second derivative is refused: use `y, penalty = layer(z)` for that. In evaluation mode and
    after `dab.strip` y is the hard value and that is all.
    """
    return Inline(layer, weight)
