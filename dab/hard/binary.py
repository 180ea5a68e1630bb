from typing import Any

import torch
from torch import Tensor, nn

from dab.choice import one_of


class Binary(nn.Module):
    """1 where z is at or above its mean, 0 otherwise.

    reference   the mean is taken over: sample (the units of one sample: works at batch 1, samples stay apart),
                batch (each unit over the batch; a running mean in evaluation), zero (no mean: the sign bit)
    momentum    of the running mean
    """

    bits_per_unit: float | None = 1.0
    running_mean: Tensor

    def __init__(self, reference: str = "sample", momentum: float = 0.1) -> None:
        super().__init__()
        self.reference = one_of("reference", reference, ("sample", "batch", "zero"))
        self.momentum = momentum
        if reference == "batch":
            # A scalar until the first training batch tells the shape of the units.
            self.register_buffer("running_mean", torch.zeros(()))

    def forward(self, z: Tensor) -> Tensor:
        if self.reference == "batch" and not self.training:
            return (z >= self.running_mean.to(z.dtype)).to(z.dtype)
        mean = mean_of(z, self.reference)
        if self.reference == "batch" and z.shape[0] > 0:
            self._track(mean.detach())
        return (z >= mean).to(z.dtype)

    def _track(self, mean: Tensor) -> None:
        if self.running_mean.shape != mean.shape:
            self.running_mean = self.running_mean.new_zeros(mean.shape)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(in_shape)

    def extra_repr(self) -> str:
        return f"reference={self.reference}"

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        saved = state_dict.get(prefix + "running_mean")
        if self.reference == "batch" and saved is not None:
            self.running_mean = self.running_mean.new_zeros(saved.shape)
        super()._load_from_state_dict(state_dict, prefix, *args)


def mean_of(z: Tensor, reference: str) -> Tensor:
    """What z is compared with in training, broadcastable to it.  z: [B, ...]"""
    if reference == "zero":
        return z.new_zeros(())
    if reference == "batch":
        return z.mean(0)
    return z.mean(tuple(range(1, z.dim())), keepdim=True) if z.dim() > 1 else z
