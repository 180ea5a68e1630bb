import torch
from torch import Tensor, nn

from dab.choice import one_of
from dab.precision import full_precision, working_dtype


class KMeans(nn.Module):
    """k-means within each sample.  [B, C, H, W] (any number of spatial dimensions from one up)

    points      positions: the H·W positions are points with C coordinates; channels: the C maps are points
    output      quantized: every point becomes its centroid (keeps the shape); centroids: the k centroids alone,
                [B, C, k] for positions and [B, k, H, W] for channels
    iterations  Lloyd steps, always that many

    Deterministic: the first centre is the point farthest from the mean, each next one the point farthest from all
    centres so far (the first of equals). A cluster without points keeps its centre.
    """

    bits_per_unit: float | None = None

    def __init__(self, k: int = 10, iterations: int = 10, points: str = "positions", output: str = "quantized") -> None:
        super().__init__()
        if k < 1 or iterations < 0:
            raise ValueError(f"k must be at least 1 and iterations at least 0, given {k} and {iterations}")
        self.k = k
        self.iterations = iterations
        self.points = one_of("points", points, ("positions", "channels"))
        self.output = one_of("output", output, ("quantized", "centroids"))

    def forward(self, z: Tensor) -> Tensor:
        shape = (z.shape[0], *self.out_shape(tuple(z.shape[1:])))
        with full_precision(z):
            x = self._swap(z.to(working_dtype(z)).flatten(2))  # [B, N, D]
            mean = x.mean(1, keepdim=True)
            x = x - mean  # distances by products lose digits far from the origin
            centres = lloyd(x, farthest_points(x, self.k), self.iterations)  # [B, k, D]
            if self.output == "quantized":
                index = nearest(x, centres)  # [B, N]
                centres = centres.gather(1, index.unsqueeze(-1).expand_as(x))  # [B, N, D]
            return self._swap(centres + mean).reshape(shape).to(z.dtype)

    def _swap(self, t: Tensor) -> Tensor:
        return t.transpose(1, 2) if self.points == "positions" else t  # [B, C, HW] ↔ points first

    def out_shape(self, in_shape: tuple[int, ...]) -> tuple[int, ...]:
        if len(in_shape) < 2:
            raise ValueError(f"KMeans needs samples of shape [C, H, W] or [C, N], given {list(in_shape)}")
        channels, space = in_shape[0], tuple(in_shape[1:])
        count = channels if self.points == "channels" else torch.Size(space).numel()
        if self.k > count:
            raise ValueError(
                f"k = {self.k} is more than the {count} {self.points} of a sample {list(in_shape)}: lower k, "
                "or put the function where the map is larger"
            )
        if self.output == "quantized":
            return tuple(in_shape)
        return (channels, self.k) if self.points == "positions" else (self.k, *space)

    def extra_repr(self) -> str:
        return f"k={self.k}, iterations={self.iterations}, points={self.points}, output={self.output}"


def farthest_points(x: Tensor, k: int) -> Tensor:
    """k points of each sample, far from one another.  x: [B, N, D] with mean 0 → [B, k, D]"""
    centres: list[Tensor] = []
    gap = x.square().sum(-1)  # [B, N]: squared distance to the mean, later to the nearest centre
    for step in range(k):
        index = gap.argmax(1)[:, None, None].expand(-1, 1, x.shape[-1])
        centres.append(x.gather(1, index))  # [B, 1, D]
        distance = (x - centres[-1]).square().sum(-1)
        gap = distance if step == 0 else torch.minimum(gap, distance)
    return torch.cat(centres, 1)


def lloyd(x: Tensor, centres: Tensor, iterations: int) -> Tensor:
    """Lloyd's steps, samples apart.  x: [B, N, D], centres: [B, k, D] → [B, k, D]"""
    cluster = torch.arange(centres.shape[1], device=x.device)
    for _ in range(iterations):
        # A comparison, because one_hot reads its input on the host.
        member = (nearest(x, centres).unsqueeze(-1) == cluster).to(x.dtype)  # [B, N, k]
        size = member.sum(1).unsqueeze(-1)  # [B, k, 1]
        mean = member.transpose(1, 2) @ x / size.clamp(min=1)
        centres = torch.where(size > 0, mean, centres)
    return centres


def nearest(x: Tensor, centres: Tensor) -> Tensor:
    """The index of the nearest centre of each point.  [B, N, D], [B, k, D] → [B, N]"""
    # |x - c|² without |x|², which is the same for every centre.
    return (centres.square().sum(-1).unsqueeze(1) - 2 * x @ centres.transpose(1, 2)).argmin(-1)
