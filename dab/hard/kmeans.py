import math

import torch
from torch import Tensor, nn

from dab.choice import one_of
from dab.keys import generator
from dab.precision import full_precision, working_dtype


class KMeans(nn.Module):
    """k-means within each sample.  [B, C, H, W] (any number of spatial dimensions from one up)

    points      positions: the H·W positions are points with C coordinates; channels: the C maps are points
    output      quantized: every point becomes its centroid (keeps the shape); centroids: the k centroids alone,
                [B, C, k] for positions and [B, k, H, W] for channels
    iterations  Lloyd steps, always that many
    start       farthest: the first centre is the point farthest from the mean, each next one the point farthest from
                all centres so far (the first of equals); outliers draw it astray. kmeans++: drawn with probability in
                proportion to the squared distance from the centres so far, the best of a few draws (as scikit-learn)
    seed        of the draws of kmeans++, which are the same in every call and for every sample

    Deterministic either way. A cluster without points keeps its centre.
    """

    bits_per_unit: float | None = None
    keeps_input = True
    uniforms: Tensor

    def __init__(
        self,
        k: int = 10,
        iterations: int = 10,
        points: str = "positions",
        output: str = "quantized",
        start: str = "farthest",
        seed: int = 0,
    ) -> None:
        super().__init__()
        if k < 1 or iterations < 0:
            raise ValueError(f"k must be at least 1 and iterations at least 0, given {k} and {iterations}")
        self.k = k
        self.iterations = iterations
        self.points = one_of("points", points, ("positions", "channels"))
        self.output = one_of("output", output, ("quantized", "centroids"))
        self.start = one_of("start", start, ("farthest", "kmeans++"))
        if start == "kmeans++":
            draws = torch.rand(k, 2 + int(math.log(k)), generator=generator("kmeans++", seed))
            self.register_buffer("uniforms", draws, persistent=False)

    def forward(self, z: Tensor) -> Tensor:
        with full_precision(z):
            x = self.as_points(z.to(working_dtype(z)))  # [B, N, D]
            mean = x.mean(1, keepdim=True)
            x = x - mean  # distances by products lose digits far from the origin
            centres = lloyd(x, self.first_centres(x), self.iterations)  # [B, k, D]
            if self.output == "quantized":
                index = nearest(x, centres)  # [B, N]
                centres = centres.gather(1, index.unsqueeze(-1).expand_as(x))  # [B, N, D]
            return self.from_points(centres + mean, z)

    def as_points(self, z: Tensor) -> Tensor:
        """[B, C, H, W] → [B, N, D]"""
        self.out_shape(tuple(z.shape[1:]))  # refuses too large a k
        return self._swap(z.flatten(2))

    def from_points(self, points: Tensor, z: Tensor) -> Tensor:
        """All points, or k centroids, as the output for z.  [B, N or k, D] → [B, ...]"""
        return self._swap(points).reshape(z.shape[0], *self.out_shape(tuple(z.shape[1:]))).to(z.dtype)

    def first_centres(self, x: Tensor) -> Tensor:
        """By the rule of `start`.  [B, N, D] with mean 0 → [B, k, D]"""
        return farthest_points(x, self.k) if self.start == "farthest" else plus_plus(x, self.uniforms.to(x.dtype))

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
        start = "" if self.start == "farthest" else f", start={self.start}"
        return f"k={self.k}, iterations={self.iterations}, points={self.points}, output={self.output}{start}"


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


def plus_plus(x: Tensor, uniforms: Tensor) -> Tensor:
    """k points of each sample by greedy k-means++.  x: [B, N, D], uniforms: [k, draws] → [B, k, D]"""
    centres: list[Tensor] = []
    gap = torch.ones_like(x[..., 0])  # [B, N]: squared distance to the nearest centre; before the first, all alike
    for u in uniforms:
        reached = gap.cumsum(1)  # [B, N]
        wanted = u[:, None] * reached[:, -1, None, None]  # [B, draws, 1]
        index = (reached.unsqueeze(1) < wanted).sum(-1).clamp(max=x.shape[1] - 1)  # [B, draws]
        drawn = x.gather(1, index.unsqueeze(-1).expand(-1, -1, x.shape[-1]))  # [B, draws, D]
        square = x.square().sum(-1).unsqueeze(1) + drawn.square().sum(-1, keepdim=True)
        distance = (square - 2 * drawn @ x.transpose(1, 2)).clamp(min=0)  # [B, draws, N]
        gaps = torch.minimum(gap.unsqueeze(1), distance) if centres else distance
        best = gaps.sum(-1).argmin(1)[:, None, None]  # [B, 1, 1]: what leaves the least distance
        centres.append(drawn.gather(1, best.expand(-1, 1, x.shape[-1])))  # [B, 1, D]
        gap = gaps.gather(1, best.expand(-1, 1, x.shape[1])).squeeze(1)
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
