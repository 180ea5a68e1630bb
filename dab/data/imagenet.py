"""ImageNet, or any other photos in folders: too many to hold, decoded while the network trains."""

from __future__ import annotations

import sys
from functools import cached_property
from pathlib import Path
from typing import Literal, Unpack

import numpy as np
import torch
from torch import Tensor

from dab.data.image_cache import ImageCache
from dab.data.images import Augmented, permuted
from dab.data.photos import ENDINGS, Squares, photos_by_class, photos_of
from dab.data.reader import Reader, Samples
from dab.data.resident import ResidentOptions
from dab.data.streamed import Streamed
from dab.data.unreadable import Unreadable
from dab.ranges import Count, CountOr0, ShareWithin, Text, ranged

MEAN_OF = 256  # training images that `mean` is measured on


class ImageNet(Augmented, Streamed):
    """Batches (x [B, 3, size, size] in 0..1, labels [B]) of `train/<class>/*` and `val/<class>/*`, as torchvision's
    ImageFolder reads them, in `folder` or its subfolder `imagenet`.

    val is the test set; the validation set is `valid_share` of train, in a split that depends on the number of files
    alone. `mean` is that of 256 training images. A file that cannot be read is replaced by the next one of its split.

    size            the shorter side becomes this long, and the square in the middle is used
    flip            half of the training images are mirrored, left to right
    valid_share     of the training images are held out for validation
    cache           a folder for decoded squares: 3 * size * size bytes each, 1 TB for all of ImageNet at 512
    bad             skip: files that cannot be read are listed in unreadable.txt, beside the cache or else in `folder`;
                    error: the first one ends the run
    decoders        threads that decode
    prefetch        batches that are decoded ahead
    """

    @ranged
    def __init__(
        self,
        folder: str | Path,
        size: Count = 512,
        flip: bool = False,
        valid_share: ShareWithin = 0.01,
        cache: Text | None = None,
        bad: Literal["skip", "error"] = "skip",
        decoders: Count = 4,
        prefetch: CountOr0 = 2,
        **options: Unpack[ResidentOptions],
    ):
        root = root_of(Path(folder))
        train, test = (photos_in(root / name) for name in ("train", "val"))
        classes = list(train)
        if unknown := sorted(set(test) - set(classes)):
            raise ValueError(f"{root / 'val'} has classes that {root / 'train'} has not: {', '.join(unknown[:5])}")
        if len(classes) == 1 and options.get("rank", 0) == 0:
            print(f"{root / 'train'} has one class only ({classes[0]}): labels say nothing", file=sys.stderr)
        splits = {**held_out(samples("train", train, classes), valid_share), "test": samples("val", test, classes)}
        kept = None if cache is None else ImageCache(Path(cache), size)
        unreadable = Unreadable((root if cache is None else Path(cache)) / "unreadable.txt", bad)
        device = torch.device(options.get("device", "cpu"))
        reader = Reader(Squares(root, size, kept).read, (3, size, size), unreadable, decoders, device)
        super().__init__(splits, reader, prefetch, **options)
        self.classes, self.flip = len(classes), flip

    @cached_property
    def mean(self) -> Tensor:
        train = self.splits["train"]
        rows = torch.arange(min(MEAN_OF, len(train.names)))
        sums = [x.long().sum(0) for x, _ in self.reader.ahead(train, rows.split(32), self.prefetch)]
        return torch.stack(sums).sum(0) / (255 * len(rows))


def root_of(folder: Path) -> Path:
    for place in (folder, folder / "imagenet"):
        if (place / "train").is_dir() and (place / "val").is_dir():
            return place
    raise FileNotFoundError(
        f"no data: looked in {folder.absolute()} and in its subfolder imagenet for folders train and val, each with a "
        "folder of images for every class; put them there or set paths.data to where they are"
    )


def photos_in(folder: Path) -> dict[str, list[str]]:
    if found := photos_by_class(folder):
        return found
    loose = "images, but not in a folder for each class" if photos_of(folder) else "no images"
    raise FileNotFoundError(f"{folder} has {loose}: each class needs a folder with images ({', '.join(ENDINGS)}) in it")


def samples(split: str, photos: dict[str, list[str]], classes: list[str]) -> Samples:
    """All photos of a split by class, labelled by their class's place in `classes`."""
    names = [f"{split}/{name}" for of_class in photos.values() for name in of_class]
    counts = [len(of_class) for of_class in photos.values()]
    return Samples(names, np.repeat([classes.index(name) for name in photos], counts))


def held_out(train: Samples, share: float) -> dict[str, Samples]:
    """Training and validation set: which file goes where depends on their number alone."""
    count = max(1, int(share * len(train.names)))
    if count == len(train.names):
        raise ValueError(f"the training set has {count} image: one more is needed to hold one out for validation")
    order = permuted(np.arange(len(train.names)), "imagenet")
    parts = {"train": order[:-count], "valid": order[-count:]}
    return {name: Samples([train.names[row] for row in rows], train.labels[rows]) for name, rows in parts.items()}
