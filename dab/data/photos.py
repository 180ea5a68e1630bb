"""Photos in a tree of folders, one for each class, and the square that is cut out of each."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from dab.data.files import Bytes
from dab.data.image_cache import ImageCache

# torchvision.datasets.ImageFolder's, and the formats they stand for. Pillow knows others; some start programs.
ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP", "GIF")


def photos_by_class(folder: Path) -> dict[str, list[str]]:
    """The paths of all photos below every subfolder that has some, relative to `folder`, in a fixed order."""
    subfolders = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    found = {name: [f"{name}/{photo}" for photo in photos_of(folder / name)] for name in subfolders}
    return {name: photos for name, photos in found.items() if photos}


def photos_of(folder: Path) -> list[str]:
    """Of all photos at any depth."""
    found, start = [], len(str(folder)) + 1
    for place, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        found += [os.path.join(place, name)[start:] for name in sorted(names) if name.lower().endswith(ENDINGS)]
    return found


class Squares:
    """The squares of photos below `root`, from the cache where they are in it."""

    def __init__(self, root: Path, size: int, cache: ImageCache | None = None):
        from PIL import Image

        Image.init()  # now: threads that load Pillow's formats at the same time may find one of them missing
        self.root, self.size, self.cache = root, size, cache

    def read(self, name: str, into: Bytes) -> None:
        path = self.root / name
        if self.cache is None:
            square(path, into)
            return
        source = path.stat()
        if not self.cache.read(name, source, into):
            square(path, into)
            self.cache.write(name, source, into)


def square(path: Path, into: Bytes) -> None:
    """The middle of a photo whose shorter side becomes as long as those of `into` [3, size, size], in colour.

    What `v2.Resize(size)` and `v2.CenterCrop(size)` of torchvision give, within one grey level; what they cut off is
    not computed in the first place.
    """
    from PIL import Image

    size = into.shape[-1]
    with Image.open(path, formats=FORMATS) as photo:
        colours = photo if photo.mode == "RGB" else photo.convert("RGB")
        middle = colours.resize((size, size), Image.Resampling.BILINEAR, box=middle_of(colours.size, size))
    for channel, band in zip(into, middle.split()):
        channel[...] = np.asarray(band)


def middle_of(photo: tuple[int, int], size: int) -> tuple[float, float, float, float]:
    """The part of a photo, in its own pixels, that ends up in the square: left, top, right, bottom."""
    width, height = photo
    scaled = (size, size * height // width) if width <= height else (size * width // height, size)
    starts = [round((length - size) / 2) for length in scaled]
    left, top = (start * before / after for start, before, after in zip(starts, photo, scaled))
    right, bottom = ((start + size) * before / after for start, before, after in zip(starts, photo, scaled))
    return left, top, right, bottom
