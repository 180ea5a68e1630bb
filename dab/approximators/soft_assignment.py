"""k-means with soft edges: points belong to all centres, to near ones more."""

from torch import Tensor

from dab.hard import KMeans
from dab.hard.kmeans import Points

STAY = 1e-6  # how many points a cluster's last centre is worth: one without points keeps it


def soft_kmeans(z: Tensor, slope: Tensor, hard: KMeans) -> Tensor:
    """The last of Lloyd's steps and the choice of a centre, both by shares of softmax(-slope |x - c|² / D).

    The centres before are constants: which ones they are is no smooth question. |x - c|² / D is the mean over the D
    coordinates, so that a slope means the same for many and for few of them.
    """
    x = hard.as_points(z)  # [B, N, D]
    mean = x.mean(1, keepdim=True)
    x = x - mean
    centres = hard.weights(Points(x), max(0, hard.iterations - 1)) @ x  # [B, k, D]
    if hard.iterations:
        before = centres.detach()
        share = shares(x, before, slope)  # [B, N, k]
        centres = (share.mT @ x + STAY * before) / (share.sum(1).unsqueeze(-1) + STAY)
    if hard.output == "quantized":
        centres = shares(x, centres, slope) @ centres  # [B, N, D]
    return hard.from_points(centres + mean, z)


def shares(x: Tensor, centres: Tensor, slope: Tensor) -> Tensor:
    """[B, N, D], [B, k, D] → [B, N, k]"""
    # |x|² is the same for every centre.
    closeness = 2 * x @ centres.mT - centres.square().sum(-1).unsqueeze(1)
    return (closeness * slope / x.shape[-1]).softmax(-1)
