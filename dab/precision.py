"""Where half precision stops: bridges and k-means compute in float32 at least, whatever autocast says."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn


def working_dtype(z: Tensor) -> torch.dtype:
    """float32 for anything narrower than float32, the dtype of `z` otherwise."""
    return torch.promote_types(z.dtype, torch.float32)


def widen_(module: nn.Module) -> None:
    """Parameters and buffers narrower than float32 become float32."""
    if any(t.is_floating_point() and t.dtype.itemsize < 4 for t in (*module.parameters(), *module.buffers())):
        module.float()


def full_precision(z: Tensor) -> AbstractContextManager[object]:
    """A context on the device of `z` in which autocast is off."""
    device = z.device.type
    # Devices that do not know autocast (meta) refuse even to turn it off.
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()
