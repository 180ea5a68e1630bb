"""Images over what is left of them: one row for each way of training a code of 0.1 bits a pixel.

python scripts/figure_reconstructions.py [--dataset fashion_mnist|cifar10] [--out FILE.png]

Draws from the weights of the study's finished runs in runs/; rows that are not there are left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import torch
from torch import Tensor

from dab.engine.build import build_data
from dab.engine.distributed import Workers
from dab.predict import load
from experiments.representation import CIFAR, FASHION, MIDDLE, Images
from experiments.runs import run_of

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLUMNS = 14
DATASETS = {images.name: images for images in (FASHION, CIFAR)}


@torch.no_grad()
def rows(images: Images, scale: str) -> dict[str, Tensor]:
    """Inputs and reconstructions by row, [N, C, H, W]."""
    found: dict[str, Tensor] = {}
    for cell in images.cells(scale):
        run = run_of(cell, scale)
        if cell.column != MIDDLE or cell.seed or run.result is None:
            continue
        if not found:
            found["input"] = next(build_data(run.config, Workers()).batches("test"))[0][:COLUMNS]
        task = load(run.dir)
        found[cell.row] = task.pixels(task.model(found["input"])[0])
    return found


def draw(pictures: dict[str, Tensor], path: Path) -> None:
    figure, axes = plt.subplots(len(pictures), 1, figsize=(9, 0.62 * len(pictures)), squeeze=False)
    for axis, (label, images) in zip(axes[:, 0], pictures.items()):
        strip = torch.cat(list(images), 2).permute(1, 2, 0)  # [H, N W, C]
        pixels = strip.squeeze(2) if strip.shape[2] == 1 else strip
        axis.imshow(pixels, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        axis.set_xticks([]), axis.set_yticks([])
        axis.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=8)
        axis.spines[:].set_visible(False)
    figure.subplots_adjust(left=0.25, right=1, top=1, bottom=0, hspace=0.02)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80, pil_kwargs={"optimize": True})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", choices=DATASETS, default="fashion_mnist")
    parser.add_argument("--scale", default="cpu")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    pictures = rows(DATASETS[arguments.dataset], arguments.scale)
    if not pictures:
        parser.exit(1, "no finished run of the study in runs/: make reproduce-figure-bpp first\n")
    out = arguments.out or Path(f"figures/reconstructions_{arguments.dataset}.png")
    draw(pictures, out)
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
