"""One image file of any kind, as a model wants it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dab.data.files import Bytes
from dab.data.photos import FORMATS

if TYPE_CHECKING:
    from PIL import Image

MODES = {1: "L", 3: "RGB"}


def read_picture(path: Path, shape: tuple[int, ...], resize: bool = False) -> Bytes:
    """The pixels of an image of that shape, [C, H, W]; grey or in colour as the channels ask.

    resize      an image of another size is scaled, and what is too long on two sides is cut off; else it is refused
    """
    from PIL import Image, ImageOps

    channels, height, width = shape
    with _reading(path), Image.open(path, formats=FORMATS) as file:
        given = file.size
        if given == (width, height):
            return _channels_first(_converted(file, channels))
        if resize:
            whole = _converted(file, channels)
            return _channels_first(ImageOps.fit(whole, (width, height), Image.Resampling.BILINEAR))
    raise ValueError(
        f"{path} has {given[0]}x{given[1]} pixels where {width}x{height} are needed: scale it, or let --resize do it"
    )


def write_picture(pixels: Bytes, path: Path) -> None:
    """[C, H, W], without loss."""
    from PIL import Image

    Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).save(path, "PNG")


def _converted(image: Image.Image, channels: int) -> Image.Image:
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits, which Pillow would clip at 255
        image = Image.fromarray(np.rint(np.asarray(image) / 257).clip(0, 255).astype(np.uint8))
    return image.convert(MODES[channels])


def _channels_first(image: Image.Image) -> Bytes:
    array = np.array(image)  # a copy: Pillow's own bytes cannot be written to, which torch warns of
    return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Whatever a file makes Pillow raise, in one line."""
    from PIL import UnidentifiedImageError

    try:
        yield
    except UnidentifiedImageError as error:
        raise ValueError(f"{path} is no image; what can be read: {', '.join(FORMATS)}") from error
    except Exception as error:
        raise ValueError(f"{path} cannot be read ({' '.join(str(error).split())}): the image is damaged") from error
