"""CIFAR10: 32x32 colour pictures of ten kinds of things."""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from dab.data.files import Bytes, check, have, reading
from dab.data.images import LabelledImages, with_valid
from dab.data.resident import ResidentOptions
from dab.ranges import CountOr0, NotNegative, ranged

NPZ = "cifar10.npz"
TAR = "cifar-10-python.tar.gz"
URL = f"https://www.cs.toronto.edu/~kriz/{TAR}"
PICKLES = "cifar-10-batches-py"
TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST = ("test_batch",)
NUMPY = {("numpy.core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype")}
VALID = 5_000
CLASSES = 10

# sha256 of the values, one byte each: images as [N, 32, 32, 3], labels as [N], in the official order.
SHA256 = {
    "x_train": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
    "y_train": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
    "x_test": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
    "y_test": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
}


class CIFAR10(LabelledImages):
    """45,000 / 5,000 / 10,000 images of 32x32 in ten classes; the validation set is a fixed part of the training set.

    Read from `folder`: `cifar10.npz` (x_train [50000, 32, 32, 3], y_train, x_test, y_test, all uint8), the official
    pickles in `cifar-10-batches-py`, or `cifar-10-python.tar.gz`, which holds these and is fetched if all are missing.
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
        known = arrays(Path(folder))
        x, x_test = (channel_first(known[name]) for name in ("x_train", "x_test"))
        images = with_valid(x, x_test, "cifar10", VALID)
        labels = with_valid(known["y_train"], known["y_test"], "cifar10", VALID)
        super().__init__(images, labels, CLASSES, crop, flip, cutout, mixup, **resident)


def channel_first(x: Bytes) -> Bytes:
    """[N, H, W, C] → [N, C, H, W], in an eighth of the time that numpy takes."""
    return torch.from_numpy(x).permute(0, 3, 1, 2).contiguous().numpy()


def arrays(folder: Path) -> dict[str, Bytes]:
    """All four by name; images channel last."""
    formats: dict[str, Callable[[Path], dict[str, Bytes]]] = {NPZ: read_npz, PICKLES: read_pickles, TAR: read_tar}
    name = next((name for name in formats if (folder / name).exists()), TAR)
    have([folder / name], [URL], instead=f"{NPZ}, {PICKLES} or ")
    with reading(folder / name):
        known = formats[name](folder / name)
    for array, expected in SHA256.items():
        check(f"{array} in {folder / name}", known[array], expected)
    return known


def read_npz(path: Path) -> dict[str, Bytes]:
    with np.load(path) as file:
        return {name: file[name] for name in SHA256}


def read_pickles(folder: Path) -> dict[str, Bytes]:
    return unpickled({name: (folder / name).read_bytes() for name in (*TRAIN, *TEST)})


def read_tar(path: Path) -> dict[str, Bytes]:
    with tarfile.open(path) as tar:  # one pass: going back in a .gz means starting over
        members = ((Path(member.name).name, tar.extractfile(member)) for member in tar if member.isfile())
        return unpickled({name: file.read() for name, file in members if file and name in (*TRAIN, *TEST)})


def unpickled(files: dict[str, bytes]) -> dict[str, Bytes]:
    known = {}
    for split, names in (("train", TRAIN), ("test", TEST)):
        batches = [DataOnly(io.BytesIO(files[name]), encoding="bytes").load() for name in names]
        pixels = np.concatenate([batch[b"data"].values().reshape(-1, 3, 32, 32) for batch in batches])
        known[f"x_{split}"] = pixels.transpose(0, 2, 3, 1)
        known[f"y_{split}"] = np.concatenate([batch[b"labels"] for batch in batches]).astype(np.uint8)
    return known


class Described:
    """Stands for whatever of numpy a pickle asks for, and keeps what it says of it: no foreign code runs."""

    def __init__(self, *said: Any):
        self.said = said

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def values(self) -> Bytes:
        """Of an array of bytes, whose state is (version, shape, dtype, by columns, values)."""
        _, shape, dtype, _, values = self.state
        if dtype.said[0] != b"u1":
            raise ValueError(f"an array of {dtype.said[0]!r}, expected bytes")
        return np.frombuffer(values, np.uint8).reshape(shape)


class DataOnly(pickle.Unpickler):
    """A data file is data: a pickle may hold plain values and numpy's arrays, and can call nothing."""

    def find_class(self, module: str, name: str) -> type[Described]:
        if (module, name) not in NUMPY:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR10 file does")
        return Described
