"""scikit-learn's 8x8 digits: they come with the library, so the whole path runs on any machine."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from dab.data.binarized import Binarized
from dab.data.files import Bytes
from dab.data.images import Array, LabelledImages, Labels, permuted
from dab.data.resident import ResidentOptions
from dab.ranges import CountOr0, NotNegative, ranged

SIZES = {"train": 1297, "valid": 250, "test": 250}
CLASSES = 10


class Digits(Binarized):
    """1,797 binary images of 8x8 in a fixed random split of 1,297 / 250 / 250."""

    def __init__(self, dynamic: bool = False, **resident: Unpack[ResidentOptions]):
        super().__init__(split(digits()[0]), dynamic, **resident)


class DigitImages(LabelledImages):
    """The same images in the same split, grey and with labels."""

    @ranged
    def __init__(
        self,
        crop: CountOr0 = 0,
        flip: bool = False,
        cutout: CountOr0 = 0,
        mixup: NotNegative = 0.0,
        **resident: Unpack[ResidentOptions],
    ):
        grey, labels = digits()
        super().__init__(split(grey[:, None]), split(labels), CLASSES, crop, flip, cutout, mixup, **resident)


def digits() -> tuple[Bytes, Labels]:
    """[1797, 8, 8], 0..16 as 0..255, and what they show."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    return np.rint(loaded.images * 255 / 16).astype(np.uint8), loaded.target


def split(array: Array) -> dict[str, Array]:
    parts = np.split(permuted(array, "digits"), np.cumsum(list(SIZES.values()))[:-1])
    return dict(zip(SIZES, parts))  # type: ignore[arg-type]
