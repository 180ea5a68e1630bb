"""The input pipeline for photos against bare Pillow, by the time of processors: what one core can feed."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from dab.data.imagenet import ImageNet

BATCH, SIZE = 32, 512


def make_photos(root: Path, count: int = 64, size: tuple[int, int] = (640, 480)) -> None:
    """Smooth colours with some detail, at a camera's quality."""
    random = np.random.RandomState(0)
    for number in range(count):
        path = root / ("val" if number % 8 == 0 else "train") / f"class{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = random.randint(0, 256, (size[1] // 10, size[0] // 10, 3)).astype(np.uint8)
        Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC).save(path, quality=90)


def pillow(paths: list[Path]) -> Callable[[int], None]:
    """Decode and resize, and nothing else: no crop, no array, no batch."""

    def step(number: int) -> None:
        for place in range(number * BATCH, (number + 1) * BATCH):
            with Image.open(paths[place % len(paths)]) as photo:
                width, height = photo.size
                photo.resize((SIZE * width // height, SIZE), Image.Resampling.BILINEAR)

    return step


def pipeline(root: Path, **options: Any) -> Callable[[int], None]:
    """Whole batches of floats. Nothing is read ahead: that would be counted on somebody else's time."""
    data = ImageNet(root, SIZE, decoders=1, prefetch=0, seed=0, batch_size=BATCH, eval_batch_size=BATCH, **options)
    return lambda number: data.batch(number) and None


def measure_images(rounds: int) -> dict[str, float]:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_photos(root)
        sides = {
            "pillow": pillow(sorted((root / "train").rglob("*.jpg"))),
            "decoded": pipeline(root),
            "cached": pipeline(root, cache=str(root / "cache")),
        }
        times: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(-3, rounds):
            for name, step in sides.items():
                start = time.process_time()
                step(number + 3)
                if number >= 0:  # before: the cache fills up
                    times[name].append((time.process_time() - start) / BATCH)
    bare = times["pillow"]
    return {
        "images/s of Pillow's decode + resize": 1 / statistics.median(bare),
        "pipeline / Pillow": statistics.median(p / t for p, t in zip(bare, times["decoded"])),
        "pipeline with a cache / Pillow": statistics.median(p / t for p, t in zip(bare, times["cached"])),
    }
