"""FashionMNIST: 28x28 grey pictures of ten kinds of clothes."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Unpack

import numpy as np

from dab.data.files import Bytes, check, have, reading
from dab.data.images import LabelledImages, with_valid
from dab.data.resident import ResidentOptions
from dab.ranges import CountOr0, NotNegative, ranged

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
VALID = 5_000
CLASSES = 10

# sha256 of the values, whatever they are wrapped in. Debian's files, given back the name and the time that gzip had
# written into the original ones, have the md5s that torchvision checks.
SHA256 = {
    "train-images-idx3-ubyte": "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
    "train-labels-idx1-ubyte": "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
    "t10k-images-idx3-ubyte": "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
    "t10k-labels-idx1-ubyte": "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
}


class FashionMNIST(LabelledImages):
    """55,000 / 5,000 / 10,000 images of 28x28 in ten classes; the validation set is a fixed part of the training set.

    The four idx files, plain or as .gz, are looked for in torchvision's place below `folder` (`FashionMNIST/raw`), in
    `folder` itself and where Debian's package dataset-fashion-mnist puts them. Otherwise they are fetched.
    """

    @ranged
    def __init__(
        self,
        folder: str | Path,
        crop: CountOr0 = 0,
        flip: bool = False,
        cutout: CountOr0 = 0,
        mixup: NotNegative = 0.0,
        **resident: Unpack[ResidentOptions],
    ):
        x, labels, x_test, labels_test = arrays(Path(folder))
        images = with_valid(x[:, None], x_test[:, None], "fashion_mnist", VALID)
        of_images = with_valid(labels, labels_test, "fashion_mnist", VALID)
        super().__init__(images, of_images, CLASSES, crop, flip, cutout, mixup, **resident)


def arrays(folder: Path) -> list[Bytes]:
    """Images [N, 28, 28] and labels [N] for training, then both for the test."""
    paths = found(folder)
    read = [read_idx(path) for path in paths]
    for path, array, expected in zip(paths, read, SHA256.values()):
        check(str(path), array, expected)
    return read


def found(folder: Path) -> list[Path]:
    """The four files, in the order of SHA256; fetched if they are nowhere."""
    raw = folder / "FashionMNIST" / "raw"
    for place in (raw, folder, DEBIAN):
        paths = [plain_or_gz(place, name) for name in SHA256]
        if all(path.exists() for path in paths):
            return paths
    paths = [plain_or_gz(raw, name) for name in SHA256]
    hint = f"or into {folder.absolute()} itself; Debian and Ubuntu have them: apt-get install dataset-fashion-mnist"
    have(paths, [f"{URL}{name}.gz" for name in SHA256], hint=hint)
    return paths


def plain_or_gz(place: Path, name: str) -> Path:
    return plain if (plain := place / name).exists() else place / f"{name}.gz"


def read_idx(path: Path) -> Bytes:
    """Bytes as MNIST's files hold them: 0, 0, 8 (for bytes), how many dimensions, the size of each, the values."""
    with reading(path):
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            raw = bytearray(file.read())
        if raw[:3] != b"\0\0\x08":
            raise ValueError("it is no idx file of bytes")
        shape = np.frombuffer(raw, ">i4", count=raw[3], offset=4)
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)
