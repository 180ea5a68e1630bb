"""How long a folder of images takes to become .dab files and images again, after loading the model."""

from __future__ import annotations

import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from dab import strip
from dab.compress import Compressor, carry_out, planned
from dab.data.picture import write_picture
from dab.engine.build import build_task
from dab.engine.compose import resolve

ROOT = Path(__file__).resolve().parents[1]
SHAPE = (1, 28, 28)


def measure_compress(count: int = 1000) -> dict[str, float]:
    """FashionMNIST's autoencoder as it is before training, on noise: neither changes the time."""
    torch.set_num_threads(1)
    config = resolve(ROOT / "conf", ["experiment=representation/fashion_mnist", "hard=signum", "logger=none"])
    compressor = Compressor(strip(build_task(config, SHAPE)), run="0" * 12, weights=b"")
    random = np.random.RandomState(0)
    with tempfile.TemporaryDirectory() as folder:
        images, packed, back = (Path(folder) / name for name in ("images", "packed", "back"))
        images.mkdir()
        for number in range(count):
            write_picture(random.randint(0, 256, SHAPE).astype(np.uint8), images / f"{number:04}.png")
        times = [time.perf_counter()]
        for source, out in ((images, packed), (packed, back)):
            carry_out(planned(source, out), compressor)
            times.append(time.perf_counter())
    there, again = (end - start for start, end in pairwise(times))
    return {f"seconds of {count:,} images of 28 x 28": there, "seconds of as many files back": again}
