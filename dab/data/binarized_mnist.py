"""MNIST as bits: Larochelle's fixed binarization, or a fresh one every epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import numpy as np

from dab.data.binarized import Binarized
from dab.data.files import Bytes, DataError, check, have, reading
from dab.data.resident import ResidentOptions

SPLITS = ("train", "valid", "test")
AMAT = "binarized_mnist_{}.amat"
AMAT_URL = "http://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist/" + AMAT
GREY_URL = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"

# sha256 of the values, one byte a pixel: 50,000, 10,000 and 10,000 images of 0 and 1; 60,000 and 10,000 grey ones.
BITS_SHA256 = {
    "train": "43490d4d6ac9002727af4426d8748609fdb7e4094fa65ad8d681ea60082a7a5a",
    "valid": "069b4f0beb389b776478c3e872b4df71c95ac4be64d7cbe6d32e24ebac8e6d5e",
    "test": "ca0294c3b8d984c7a1dc891015a8eea6f37bae59a34e35ea0fc8c47110a8dd86",
}
GREY_SHA256 = {
    "x_train": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
    "x_test": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
}
VALID = 10_000


class BinarizedMNIST(Binarized):
    """50,000 / 10,000 / 10,000 images of 28x28.

    dynamic=False reads `binarized_mnist.npz` (arrays train, valid, test: uint8 [N, 98], bits packed along the pixels)
    or the original `binarized_mnist_{train,valid,test}.amat` (text, 784 times 0 or 1 a line) from `folder`, and
    fetches the latter if neither is there. dynamic=True needs the grey values: `mnist.npz` (x_train, x_test: uint8
    [N, 28, 28]), fetched if missing; the last 10,000 training images are the validation set.
    """

    def __init__(self, folder: str | Path, dynamic: bool = False, **resident: Unpack[ResidentOptions]):
        super().__init__(grey(Path(folder)) if dynamic else static(Path(folder)), dynamic, **resident)


def static(folder: Path) -> dict[str, Bytes]:
    """Larochelle's bits as 0 and 255, [N, 28, 28]."""
    packed = folder / "binarized_mnist.npz"
    if packed.exists():
        with reading(packed), np.load(packed) as file:
            bits = {name: np.unpackbits(file[name], axis=1) for name in SPLITS}
    else:
        paths = [folder / AMAT.format(name) for name in SPLITS]
        have(paths, [AMAT_URL.format(name) for name in SPLITS], instead=f"{packed.name} or ")
        bits = {name: read_amat(path) for name, path in zip(SPLITS, paths)}
    for name in SPLITS:
        check(f"the {name} split of binarized MNIST in {folder}", bits[name], BITS_SHA256[name])
    return {name: 255 * b.reshape(-1, 28, 28) for name, b in bits.items()}


def read_amat(path: Path) -> Bytes:
    """[N, 784] of 0 and 1."""
    with reading(path):
        text = np.fromfile(path, np.uint8)
    is_bit = (text == ord("0")) | (text == ord("1"))
    if not np.isin(text[~is_bit][:1000], [ord(c) for c in " \t\r\n"]).all() or is_bit.sum() % 784:
        raise DataError(f"{path} is not lines of 784 times 0 or 1: remove it and get it again")
    return (text[is_bit] - ord("0")).reshape(-1, 784)


def grey(folder: Path) -> dict[str, Bytes]:
    path = folder / "mnist.npz"
    have([path], [GREY_URL])
    with reading(path), np.load(path) as file:
        arrays = {name: file[name] for name in GREY_SHA256}
    for name, expected in GREY_SHA256.items():
        check(f"{name} in {path}", arrays[name], expected)
    train, test = arrays["x_train"], arrays["x_test"]
    return {"train": train[:-VALID], "valid": train[-VALID:], "test": test}
