"""Batch norm over the global batch: what it normalises by does not depend on how many workers share it."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def synchronise(module: nn.Module, device: torch.device) -> None:
    """Every batch norm inside becomes a global one with the same parameters: torch's on GPUs, which refuses CPUs."""
    if device.type == "cuda":
        nn.SyncBatchNorm.convert_sync_batchnorm(module)
        return
    for name, child in module.named_children():
        if isinstance(child, _BatchNorm):
            setattr(module, name, GlobalBatchNorm.of(child))
        else:
            synchronise(child, device)


def is_synchronised(module: nn.Module) -> bool:
    return isinstance(module, nn.SyncBatchNorm | GlobalBatchNorm)


class GlobalBatchNorm(_BatchNorm):
    """On several workers, which have as many rows each. In evaluation as every other."""

    @classmethod
    def of(cls, norm: _BatchNorm) -> GlobalBatchNorm:
        made = cls(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
        made._parameters, made._buffers = norm._parameters, norm._buffers  # the optimizer holds the same ones
        return made.train(norm.training)

    def _check_input_dim(self, x: Tensor) -> None:
        pass  # the layer whose place this is would have refused it

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        shape = (1, -1, *(1 for _ in x.shape[2:]))
        mean = _mean(x)
        centred = x - mean.view(shape)
        variance = _mean(centred.square())
        self._track(mean.detach(), variance.detach(), x.numel() // x.shape[1] * dist.get_world_size())
        y = centred * (variance + self.eps).rsqrt().view(shape)
        return y if self.weight is None else y * self.weight.view(shape) + self.bias.view(shape)

    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """As torch does: the variance without bias."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        momentum = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_(variance * (count / max(count - 1, 1)), momentum)


def _mean(x: Tensor) -> Tensor:
    """Of every channel, over the rows of all workers.  [B, C, ...] → [C]"""
    return _Sum.apply(x.mean([0, *range(2, x.dim())])) / dist.get_world_size()


class _Sum(torch.autograd.Function):
    """Over the workers, forward and backward: each one's loss depends on everybody's rows."""

    @staticmethod
    def forward(_ctx: Any, values: Tensor) -> Tensor:
        dist.all_reduce(total := values.clone())
        return total

    @staticmethod
    def backward(_ctx: Any, *gradients: Tensor) -> Tensor:
        dist.all_reduce(total := gradients[0].contiguous().clone())
        return total
