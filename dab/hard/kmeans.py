import math
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from dab.keys import generator
from dab.precision import full_precision, working_dtype
from dab.ranges import Count, CountOr0, Key, When, ranged


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

    @ranged
    def __init__(
        self,
        k: Count = 10,
        iterations: CountOr0 = 10,
        points: Literal["positions", "channels"] = "positions",
        output: Literal["quantized", "centroids"] = "quantized",
        start: Literal["farthest", "kmeans++"] = "farthest",
        seed: Annotated[Key, When("start", ("kmeans++",))] = 0,
    ) -> None:
        super().__init__()
        self.k = k
        self.iterations = iterations
        self.points = points
        self.output = output
        self.start = start
        if start == "kmeans++":
            draws = torch.rand(k, 2 + int(math.log(k)), generator=generator("kmeans++", seed))
            self.register_buffer("uniforms", draws, persistent=False)

    def forward(self, z: Tensor) -> Tensor:
        with full_precision(z):
            x = self.as_points(z.to(working_dtype(z)))  # [B, N, D]
            mean = x.mean(1, keepdim=True)
            x = x - mean  # distances by products lose digits far from the origin
            points = Points(x)
            weights = self.weights(points, self.iterations)  # [B, k, N]
            return self.from_points(self._values(points, weights, x) + mean, z)

    def _values(self, points: "Points", weights: Tensor, x: Tensor) -> Tensor:
        """The centres, or every point's own.  [B, k or N, D]"""
        if self.output == "centroids":
            return weights @ x
        index = points.nearest(weights)
        if points.pairs is None:
            return _rows(weights @ x, index)
        return (x.mT @ _rows(weights, index).mT).mT  # lies in memory as z does

    def as_points(self, z: Tensor) -> Tensor:
        """[B, C, H, W] → [B, N, D]"""
        self.out_shape(tuple(z.shape[1:]))  # refuses too large a k
        return self._swap(z.flatten(2))

    def from_points(self, points: Tensor, z: Tensor) -> Tensor:
        """All points, or k centroids, as the output for z.  [B, N or k, D] → [B, ...]"""
        return self._swap(points).reshape(z.shape[0], *self.out_shape(tuple(z.shape[1:]))).to(z.dtype)

    def weights(self, points: "Points", iterations: int) -> Tensor:
        """The centres after so many steps, as weighted means of the points.  → [B, k, N]"""
        farthest = self.start == "farthest"
        first = farthest_points(points, self.k) if farthest else plus_plus(points, self.uniforms)
        return lloyd(points, points.chosen(first), iterations)

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


class Points:
    """The points of every sample, [B, N, D] with mean 0, and the distances of centres that are weighted means of them.

    Distances take inner products alone. Where a sample has fewer points than coordinates, those of all pairs are
    computed once, and no step looks at coordinates again.
    """

    pairs: Tensor | None

    def __init__(self, x: Tensor) -> None:
        self.x, self.pairs = x.detach(), None
        if x.shape[1] <= x.shape[2]:
            self.pairs = self.x @ self.x.mT  # [B, N, N]
            self.squares = self.pairs.diagonal(dim1=1, dim2=2)  # [B, N]
        else:
            self.x = self.x.contiguous()
            self.squares = self.x.square().sum(-1)
        self.places = torch.arange(x.shape[1], device=x.device)

    def chosen(self, index: Tensor) -> Tensor:
        """Single points as weights.  [B, m] → [B, m, N]"""
        return (index.unsqueeze(-1) == self.places).to(self.x.dtype)

    def distances(self, index: Tensor) -> Tensor:
        """Squared, of chosen points from all.  [B, m] → [B, m, N]"""
        products = _rows(self.x, index) @ self.x.mT if self.pairs is None else _rows(self.pairs, index)
        squares = self.squares.unsqueeze(1) + self.squares.gather(1, index).unsqueeze(-1)
        return (squares - 2 * products).clamp(min=0)

    def nearest(self, weights: Tensor) -> Tensor:
        """The index of the nearest centre of each point.  [B, k, N] → [B, N]"""
        if self.pairs is None:
            return nearest(self.x, weights @ self.x)
        products = weights @ self.pairs  # [B, k, N]
        return ((products * weights).sum(-1, keepdim=True) - 2 * products).argmin(1)


def nearest(x: Tensor, centres: Tensor) -> Tensor:
    """The index of the nearest centre of each point.  [B, N, D], [B, k, D] → [B, N]"""
    # |x - c|² without |x|², which is the same for every centre.
    return (centres.square().sum(-1).unsqueeze(1) - 2 * x @ centres.transpose(1, 2)).argmin(-1)


def _rows(x: Tensor, index: Tensor) -> Tensor:
    """[B, N, D], [B, m] → [B, m, D]"""
    return x.gather(1, index.unsqueeze(-1).expand(-1, -1, x.shape[2]))


def farthest_points(points: Points, k: int) -> Tensor:
    """k points of each sample, far from one another.  → [B, k], where they stand"""
    chosen: list[Tensor] = []
    gap = points.squares  # [B, N]: squared distance to the mean, later to the nearest centre
    for step in range(k):
        chosen.append(gap.argmax(1, keepdim=True))
        distance = points.distances(chosen[-1]).squeeze(1)
        gap = distance if step == 0 else torch.minimum(gap, distance)
    return torch.cat(chosen, 1)


def plus_plus(points: Points, uniforms: Tensor) -> Tensor:
    """k points of each sample by greedy k-means++.  uniforms: [k, draws] → [B, k], where they stand"""
    chosen: list[Tensor] = []
    gap = torch.ones_like(points.squares)  # [B, N]: squared distance to the nearest centre; before the first, all alike
    for u in uniforms.to(gap.dtype):
        reached = gap.cumsum(1)  # [B, N]
        wanted = u[:, None] * reached[:, -1, None, None]  # [B, draws, 1]
        index = (reached.unsqueeze(1) < wanted).sum(-1).clamp(max=gap.shape[1] - 1)  # [B, draws]
        distance = points.distances(index)  # [B, draws, N]
        gaps = torch.minimum(gap.unsqueeze(1), distance) if chosen else distance
        best = gaps.sum(-1).argmin(1, keepdim=True)  # [B, 1]: what leaves the least distance
        chosen.append(index.gather(1, best))
        gap = _rows(gaps, best).squeeze(1)
    return torch.cat(chosen, 1)


def lloyd(points: Points, weights: Tensor, iterations: int) -> Tensor:
    """Lloyd's steps, samples apart.  [B, k, N] → [B, k, N]"""
    cluster = torch.arange(weights.shape[1], device=weights.device)[:, None]
    for _ in range(iterations):
        # A comparison, because one_hot reads its input on the host.
        member = (points.nearest(weights).unsqueeze(1) == cluster).to(weights.dtype)  # [B, k, N]
        size = member.sum(-1, keepdim=True)  # [B, k, 1]
        weights = torch.where(size > 0, member / size.clamp(min=1), weights)
    return weights
