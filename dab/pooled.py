"""What all workers of a run have seen together, for layers that learn from statistics."""

import torch
from torch import Tensor


def pooled(t: Tensor) -> Tensor:
    """The rows of all workers (of equal number), on every worker. A process alone has its own."""
    dist = torch.distributed
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return t
    rows = [torch.empty_like(t) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, t.contiguous())
    # In the order of the global batch, of which worker r has the rows r, r + world, ...
    return torch.stack(rows, 1).flatten(0, 1)
