"""How small JPEG and WebP can make small images, and how good these still are: marks beside codes of as few bits.

python scripts/codec_floor.py [--dataset fashion_mnist|cifar10] [--images 1000] [--data data] [--out runs/codecs]

The first test images, each at the lowest quality that Pillow offers. Sizes are told twice, in bits for each pixel of
each channel as `model.bpp` counts them:

    bpp                     the whole file, the smallest one: JPEG with Huffman tables of its own or the standard
                            ones, progressive or not; WebP by any of its seven methods
    bpp_without_header      what is left without what every such file repeats. JPEG: the coded scan, by the standard
                            tables (its own would have to be sent). WebP: all behind the 30 bytes of RIFF, chunk, frame
                            tag, start code and size
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, features
from torch import Tensor

from dab.data import cifar10, fashion_mnist
from dab.data.cifar10 import channel_first
from dab.data.files import Bytes
from dab.engine.provenance import provenance
from dab.engine.records import write_json
from dab.metrics.images import msssim_shrink, msssim_upsampled, psnr

ROOT = Path(__file__).resolve().parents[1]
TESTS: dict[str, Callable[[Path], Bytes]] = {
    "fashion_mnist": lambda folder: fashion_mnist.arrays(folder)[2][:, None],
    "cifar10": lambda folder: channel_first(cifar10.arrays(folder)["x_test"]),
}
JPEG = {"format": "JPEG", "quality": 1, "subsampling": 2}  # every entry of the quantisation tables at its limit, 255
WEBP = {"format": "WEBP", "quality": 0}
WEBP_HEADER = 30
METRICS = (msssim_shrink, msssim_upsampled, psnr)


def encoded(image: Bytes, **options: Any) -> bytes:
    """[C, H, W]"""
    file = io.BytesIO()
    Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).save(file, **options)
    return file.getvalue()


def decoded(content: bytes, channels: int) -> Bytes:
    """[C, H, W]; WebP is in colour, whatever went in"""
    pixels = np.array(Image.open(io.BytesIO(content)).convert("L" if channels == 1 else "RGB"))
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def jpeg(image: Bytes) -> tuple[bytes, int]:
    """The smallest file, and the bytes without header."""
    plain = encoded(image, **JPEG)
    others = [encoded(image, **JPEG, optimize=True, progressive=progressive) for progressive in (False, True)]
    return min(plain, *others, key=len), scan_bytes(plain)


def webp(image: Bytes) -> tuple[bytes, int]:
    file = min((encoded(image, **WEBP, method=method) for method in range(7)), key=len)
    return file, len(file) - WEBP_HEADER


CODECS = {"jpeg": jpeg, "webp": webp}


def scan_bytes(file: bytes) -> int:
    """Of a baseline JPEG: what follows the header of its one scan, up to the end marker."""
    place = 2  # behind the start marker, segments: 0xff, kind, two bytes of length with themselves, content
    while file[place + 1] != 0xDA:
        place += 2 + int.from_bytes(file[place + 2 : place + 4], "big")
    return len(file) - 2 - (place + 2 + int.from_bytes(file[place + 2 : place + 4], "big"))


def floor(codec: Callable[[Bytes], tuple[bytes, int]], images: Bytes) -> dict[str, Any]:
    files, without = zip(*(codec(image) for image in images))
    sizes, bits = {"": [len(file) for file in files], "_without_header": list(without)}, 8 / images[0].size
    found, original = unit(np.stack([decoded(file, images.shape[1]) for file in files])), unit(images)
    return {
        **{f"bpp{name}": bits * float(np.mean(values)) for name, values in sizes.items()},
        **{f"bytes{name}": {"smallest": min(values), "largest": max(values)} for name, values in sizes.items()},
        **{metric.__name__: metric(found, original).mean().item() for metric in METRICS},
    }


def unit(images: Bytes) -> Tensor:
    return torch.from_numpy(images).float() / 255


def measure(dataset: str, images: Bytes) -> dict[str, Any]:
    versions = {name: features.version(name) for name in ("pil", "jpg", "libjpeg_turbo", "webp")}
    return {
        "dataset": dataset,
        "split": "test",
        "images": len(images),
        "shape": list(images.shape[1:]),
        "options": {"jpeg": JPEG, "webp": WEBP},
        "codecs": {name: floor(codec, images) for name, codec in CODECS.items()},
        "provenance": {**provenance(), **versions},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", choices=TESTS, default="fashion_mnist")
    parser.add_argument("--images", type=int, default=1000, help="how many, from the first on")
    parser.add_argument("--data", type=Path, default=Path("data"), help="where the data files are")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "codecs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    try:
        images = TESTS[arguments.dataset](arguments.data)[: arguments.images]
    except (FileNotFoundError, ValueError) as error:
        sys.exit(f"{error} (here: --data FOLDER)")
    found = measure(arguments.dataset, images)
    for name, marks in found["codecs"].items():
        print(name, *(f"{key} {value:.4g}" for key, value in marks.items() if isinstance(value, float)), sep="  ")
    path = arguments.out / f"{arguments.dataset}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, found)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
