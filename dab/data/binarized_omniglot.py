"""Omniglot as bits of 28x28, in two variants that are not comparable: Burda's file, and our own downsampling."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from dab.data.binarized import Binarized
from dab.data.files import Bytes, DataError, check, have, reading
from dab.data.images import permuted
from dab.data.resident import ResidentOptions
from dab.ranges import ranged

ZIP_URL = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/"
ZIPS = {"x_background": "images_background.zip", "x_evaluation": "images_evaluation.zip"}
AREA = "omniglot_28x28_area.npz"
CHARDATA = "chardata.mat"
CHARDATA_URL = "https://raw.githubusercontent.com/yburda/iwae/master/datasets/OMNIGLOT/chardata.mat"
BURDA_SIZES = {"data": 24_345, "testdata": 8_070}
VALID = {"burda": 1_345, "area": 1_280}

# sha256 of the images sorted by their bytes, so that it does not matter in which order a source lists them.
AREA_SHA256 = {
    "x_background": "2a9ed8d52d0d51503e2da006034cea4b327d22c4cdeff536f3f1e49e5f90633f",
    "x_evaluation": "6cc88e27b1d147d66b3454ac857dd6041e659cf8921df2757a6336441a4b2c24",
}


class BinarizedOmniglot(Binarized):
    """variant      burda: 23,000 / 1,345 / 8,070 images of `chardata.mat` (Burda et al. 2016), split and sampled with
                    the seeds of the REBAR code; what published likelihoods are measured on
                    area: the full-resolution images averaged over areas of 3.75 x 3.75 pixels. 18,000 / 1,280 of the
                    background set in a fixed random split; test is the evaluation set, 13,180 images of other
                    alphabets. Read from `omniglot_28x28_area.npz`, or made from the official zip files

    Files are looked for in `folder`, and fetched if missing.
    """

    @ranged
    def __init__(
        self,
        folder: str | Path,
        variant: Literal["burda", "area"] = "area",
        dynamic: bool = False,
        **resident: Unpack[ResidentOptions],
    ):
        self.variant = variant
        images = area(Path(folder)) if variant == "area" else burda(Path(folder), dynamic)
        super().__init__(images, dynamic, **resident)


def burda(folder: Path, dynamic: bool) -> dict[str, Bytes]:
    from scipy.io import loadmat

    path = folder / CHARDATA
    have([path], [CHARDATA_URL])
    with reading(path):
        file = loadmat(path)
        probability = {name: upright(file[name]) for name in BURDA_SIZES}
    for name, size in BURDA_SIZES.items():
        if len(probability[name]) != size:
            raise DataError(
                f"{path} holds {len(probability[name])} images in {name!r}, expected {size}: it is not Burda's file"
            )
    if dynamic:
        train, test = (np.rint(255 * p).astype(np.uint8) for p in probability.values())
    else:
        random = np.random.RandomState(5)
        train, test = (np.uint8(255) * (random.rand(*p.shape) < p) for p in probability.values())
    train = train[np.random.RandomState(123).permutation(len(train))]
    held_out = VALID["burda"]
    return {"train": train[:-held_out], "valid": train[-held_out:], "test": test}


def upright(columns: NDArray[np.floating]) -> NDArray[np.float32]:
    """[784, N], images column by column, to [N, 28, 28]."""
    return columns.T.astype(np.float32).reshape(-1, 28, 28).transpose(0, 2, 1)


def area(folder: Path) -> dict[str, Bytes]:
    sets = area_sets(folder)
    for name, images in sets.items():
        check(f"Omniglot's {name.removeprefix('x_')} set, downsampled, in {folder}", images, AREA_SHA256[name])
    background, held_out = permuted(sets["x_background"], "omniglot"), VALID["area"]
    return {"train": background[:-held_out], "valid": background[-held_out:], "test": sets["x_evaluation"]}


def area_sets(folder: Path) -> dict[str, Bytes]:
    """Both, their images in the order of their bytes."""
    ready = folder / AREA
    if ready.exists():
        with reading(ready), np.load(ready) as file:
            return {name: in_byte_order(file[name]) for name in ZIPS}
    paths = [folder / name for name in ZIPS.values()]
    have(paths, [ZIP_URL + name for name in ZIPS.values()], instead=f"{AREA} or ")
    return {name: read_zip(path) for name, path in zip(ZIPS, paths)}


def read_zip(path: Path) -> Bytes:
    with reading(path):
        return in_byte_order(downsampled(np.stack(list(drawings(path)))))


def in_byte_order(images: Bytes) -> Bytes:
    return images[np.lexsort(images.reshape(len(images), -1).T[::-1])]


def drawings(path: Path) -> Iterator[Bytes]:
    """Every drawing of an official zip file: ink 1, paper 0.  [105, 105]"""
    from PIL import Image

    with zipfile.ZipFile(path) as archive:
        for name in sorted(n for n in archive.namelist() if n.endswith(".png")):
            yield 1 - np.asarray(Image.open(io.BytesIO(archive.read(name)))).astype(np.uint8)


def downsampled(ink: Bytes) -> Bytes:
    """Exact area averages times 255, rounded.  0 or 1 [N, 105, 105] → [N, 28, 28]

    In integers: a cell is 15 x 15 quarter pixels, so that the average is n / 225 and never half-way between two values.
    """
    edges = 15 * np.arange(29)  # in quarters of a pixel
    pixel = 4 * np.arange(105)
    overlap = np.minimum(edges[1:, None], pixel + 4) - np.maximum(edges[:-1, None], pixel)  # [28, 105]
    weights = np.maximum(overlap, 0).astype(np.float32)  # sums stay far below 2^24: float32 is exact here
    n = weights @ ink.astype(np.float32) @ weights.T
    return ((n.astype(np.int64) * 255 * 2 + 225) // 450).astype(np.uint8)
