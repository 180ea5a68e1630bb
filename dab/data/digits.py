"""scikit-learn's 8x8 digits: they come with the library, so the whole path runs on any machine."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from dab.data.binarized import Binarized, permuted
from dab.data.resident import ResidentOptions

SIZES = {"train": 1297, "valid": 250, "test": 250}


class Digits(Binarized):
    """1,797 images of 8x8 in a fixed random split of 1,297 / 250 / 250."""

    def __init__(self, dynamic: bool = False, **resident: Unpack[ResidentOptions]):
        from sklearn.datasets import load_digits

        grey = np.rint(load_digits().images * 255 / 16).astype(np.uint8)  # 0..16 to 0..255
        parts = np.split(permuted(grey, "digits"), np.cumsum(list(SIZES.values()))[:-1])
        super().__init__(dict(zip(SIZES, parts)), dynamic, **resident)
