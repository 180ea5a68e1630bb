"""Many small images as one picture."""

from __future__ import annotations

from pathlib import Path

from PIL import Image
from torch.nn import functional as F

from dab.tasks.task import Grid


def draw_grid(grid: Grid, path: Path, zoom: int = 3) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    images, columns = grid.images.detach().float().cpu().clamp(0, 1), grid.columns
    if images.dim() == 3:
        images = images.unsqueeze(1)
    count, channels, _, width = images.shape
    if channels not in (1, 3):
        raise ValueError(f"images to look at have 1 or 3 channels, given {channels} in {list(grid.images.shape)}")
    colours = images if channels == 3 else (1 - images).expand(-1, 3, -1, -1)
    framed = F.pad(colours, (1, 1, 1, 1, 0, 0, 0, -count % columns), value=1.0)  # a line of paper around each
    rows = framed.unflatten(0, (-1, columns)).permute(0, 3, 1, 4, 2)  # [rows, H, columns, W, 3]
    picture = rows.reshape(-1, columns * (width + 2), 3).repeat_interleave(zoom, 0).repeat_interleave(zoom, 1)
    Image.fromarray(picture.mul(255).round().byte().numpy()).save(path)
    return path
