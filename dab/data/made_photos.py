"""A folder of small photos made on the spot, so that the whole path of photos runs on any machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from dab.data.imagenet import ImageNet
from dab.data.resident import ResidentOptions
from dab.ranges import Count, ShareWithin, ranged

CLASSES = ("discs", "rings", "squares", "stripes")
COUNTS = {"train": 12, "val": 4}  # of every class
NAME = "made_photos"


class MadePhotos(ImageNet):
    """Four classes of coloured shapes as JPEG files of many sizes, written to `folder`/made_photos when missing."""

    @ranged
    def __init__(
        self, folder: str | Path, size: Count = 176, valid_share: ShareWithin = 0.2, **options: Unpack[ResidentOptions]
    ):
        super().__init__(made(Path(folder) / NAME), size, valid_share=valid_share, **options)


def made(root: Path) -> Path:
    from PIL import Image

    for split, count in COUNTS.items():
        for label, name in enumerate(CLASSES):
            (root / split / name).mkdir(parents=True, exist_ok=True)
            for number in range(count):
                path = root / split / name / f"{number}.jpg"
                if not path.exists():
                    random = np.random.default_rng([len(split), label, number])
                    part = path.with_suffix(f".{os.getpid()}.part")  # workers may write at the same time
                    Image.fromarray(picture(name, random)).save(part, "JPEG")
                    os.replace(part, path)
    return root


def picture(name: str, random: np.random.Generator) -> NDArray[np.uint8]:
    """A shape somewhere on a sloping ground, both of random colours.  [H, W, 3]"""
    height, width = random.integers(180, 320, 2)
    y, x = np.mgrid[:height, :width] / min(height, width)
    middle, size = random.uniform(0.35, 0.65, 2), random.uniform(0.15, 0.3)
    far = np.hypot(y - middle[0], x - middle[1])
    inside = {
        "discs": far < size,
        "rings": abs(far - size) < size / 4,
        "squares": np.maximum(abs(y - middle[0]), abs(x - middle[1])) < size,
        "stripes": (y + x) % size < size / 2,
    }[name]
    ground, shape = random.uniform(0, 255, (2, 3))
    slope = (0.6 + 0.4 * y)[..., None]
    return np.where(inside[..., None], shape, ground * slope).clip(0, 255).astype(np.uint8)
