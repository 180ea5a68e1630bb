from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from dab.hard.bits import or_nan
from dab.ranges import ShareAbove0, When, ranged


class Binary(nn.Module):
    """1 where z is at or above its mean, 0 otherwise.

    reference   the mean is taken over: sample (the units of one sample: works at batch 1, samples stay apart),
                batch (each unit over the batch; a running mean in evaluation), zero (no mean: the sign bit)
    momentum    of the running mean
    """

    bits_per_unit: float | None = 1.0
    values = (0.0, 1.0)
    keeps_input = True
    running_mean: Tensor

    @ranged
    def __init__(
        self,
        reference: Literal["sample", "batch", "zero"] = "sample",
        momentum: Annotated[ShareAbove0, When("reference", ("batch",))] = 0.1,
    ) -> None:
        super().__init__()
        self.reference = reference
        self.momentum = momentum
        self.row_wise = reference != "batch"
        if reference == "batch":
            # A scalar until the first training batch tells the shape of the units.
            self.register_buffer("running_mean", torch.zeros(()))

    def forward(self, z: Tensor) -> Tensor:
        if self.reference == "batch" and not self.training:
            mean = self.running_mean.to(z.dtype)
        else:
            mean = mean_of(z, self.reference)
            if self.reference == "batch" and z.shape[0] > 0:
                self._track(mean.detach())
        return or_nan(z >= mean, z, mean)

    def _track(self, mean: Tensor) -> None:
        running = self.running_mean
        try:
            if running.shape != mean.shape:
                running = running.zero_().new_zeros(mean.shape)  # zero_ is refused where a new buffer would not last
            running.lerp_(mean.to(running.dtype), self.momentum)
        except RuntimeError as error:
            raise RuntimeError(
                'Binary("batch") moves a running mean in training mode, which torch.func does not allow: call .eval(), '
                'give its buffer to functional_call as an input of the transform, or use Binary("sample")'
            ) from error
        self.running_mean = running

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
