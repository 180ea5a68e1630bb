"""Many small images as one picture."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from torch import Tensor
from torch.nn import functional as F

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def draw_grid(images: Tensor, path: Path, columns: int = 10, zoom: int = 3) -> Path:
    """images: [N, H, W] in 0..1, row by row; ink is black."""
    path.parent.mkdir(parents=True, exist_ok=True)
    missing = -len(images) % columns
    framed = F.pad(images.detach().cpu(), (1, 1, 1, 1, 0, missing))  # a line of paper around each
    _, height, width = framed.shape
    grid = framed.view(-1, columns, height, width).transpose(1, 2).reshape(-1, columns * width)
    grid = grid.repeat_interleave(zoom, 0).repeat_interleave(zoom, 1)
    plt.imsave(path, grid.numpy(), cmap="gray_r", vmin=0, vmax=1)
    return path
