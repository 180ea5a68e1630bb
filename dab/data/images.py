"""Images that stay bytes until they are used, with or without labels, augmented on the device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, Unpack

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from dab.data.dataset import Tensors
from dab.data.files import Bytes
from dab.data.mixing import beta, cut_out, mixed
from dab.data.resident import Resident, ResidentOptions
from dab.data.shared import Shared
from dab.keys import generator
from dab.ranges import CountOr0, NotNegative, ranged

Array = TypeVar("Array", bound=NDArray[Any])
Labels = NDArray[np.integer[Any]]


class Augmented(Shared):
    """The bytes [B, C, H, W] of the next class in line, as floats in 0..1; whatever comes with them stays beside them.

    Training images may be augmented: keyed by (seed, step) and drawn for the global batch, of which every worker keeps
    its rows. Evaluation sees all splits as they are, the training set too.
    """

    crop, flip = 0, False

    def batch(self, step: int) -> Tensors:
        x, *labels = super().batch(step)
        return (self.scaled(self._augmented(x, step) if self.crop or self.flip else x), *labels)

    def batches(self, split: str) -> Iterator[Tensors]:
        for x, *labels in super().batches(split):
            yield (self.scaled(x), *labels)

    def scaled(self, x: Tensor) -> Tensor:
        """The bytes that are kept, as floats in 0..1."""
        return x.float().div_(255)

    def _augmented(self, x: Tensor, step: int) -> Tensor:
        random = generator("augment", self.seed, step, device=self.device)
        shift = torch.randint(2 * self.crop + 1, (self.batch_size, 2), generator=random, device=self.device)
        mirrored = torch.rand(self.batch_size, generator=random, device=self.device) < (0.5 if self.flip else 0.0)
        top, left = self.share(shift).unbind(1)
        return windows(x, self.crop, top, left, self.share(mirrored))


class Images(Augmented, Resident):
    """Batches (x [B, C, H, W],) in 0..1.

    images      uint8 [N, C, H, W] of "train", "valid" and "test"; one byte a pixel is all that is kept
    crop        training images are shifted by up to so many pixels each way; what moves in is 0
    flip        half of the training images are mirrored, left to right
    """

    @ranged
    def __init__(
        self,
        images: dict[str, Bytes],
        labels: Mapping[str, Labels] | None = None,
        crop: CountOr0 = 0,
        flip: bool = False,
        **resident: Unpack[ResidentOptions],
    ):
        for name, pixels in images.items():
            if pixels.dtype != np.uint8 or pixels.ndim != 4:
                raise ValueError(f"images must be uint8 [N, C, H, W], {name} is {pixels.dtype} {list(pixels.shape)}")
        shortest = min(images["train"].shape[2:])
        if crop >= shortest:
            raise ValueError(f"crop must be less than the {shortest} pixels of an image's shorter side, given {crop}")
        splits: dict[str, Tensors] = {name: (_tensor(pixels),) for name, pixels in images.items()}
        self.mean = _mean(splits["train"][0]) / 255  # [C, H, W]
        if labels is not None:
            splits = {name: (x, _tensor(labels[name]).long()) for name, (x,) in splits.items()}
        super().__init__(splits, **resident)
        self.mean = self.mean.to(self.device)
        self.crop, self.flip = crop, flip


class LabelledImages(Images):
    """Batches (x [B, C, H, W] in 0..1, labels [B]), labels from 0 to `classes` - 1.

    cutout      a square of so many pixels of every training image is replaced by the mean image
    mixup       training images are blended in pairs, by a share from Beta(mixup, mixup), and their labels as well:
                then labels of training batches are probabilities [B, classes]
    """

    @ranged
    def __init__(
        self,
        images: dict[str, Bytes],
        labels: Mapping[str, Labels],
        classes: int,
        crop: CountOr0 = 0,
        flip: bool = False,
        cutout: CountOr0 = 0,
        mixup: NotNegative = 0.0,
        **resident: Unpack[ResidentOptions],
    ):
        for name, pixels in images.items():
            of_split = labels[name]
            if of_split.shape != (len(pixels),) or of_split.min() < 0 or of_split.max() >= classes:
                raise ValueError(
                    f"{name} has {len(pixels)} images and {list(of_split.shape)} labels from {of_split.min()} to "
                    f"{of_split.max()}: there must be one for each image, from 0 to {classes - 1}"
                )
        super().__init__(images, labels, crop, flip, **resident)
        if cutout >= (blank := 2 * max(images["train"].shape[2:])):
            raise ValueError(f"cutout must be less than {blank} pixels, or nothing of an image is left, given {cutout}")
        self.classes, self.cutout, self.mixup = classes, cutout, mixup

    def batch(self, step: int) -> Tensors:
        x, labels = super().batch(step)
        if self.cutout:
            random = generator("cutout", self.seed, step, device=self.device)
            sides = torch.tensor(x.shape[2:], device=self.device)
            centre = (torch.rand(self.batch_size, 2, generator=random, device=self.device) * sides).long()
            x = cut_out(x, self.cutout, self.share(centre), self.mean)
        if self.mixup:
            share = beta(self.mixup, self.batch_size, generator("mixup", self.seed, step, device=self.device))
            x, labels = mixed(x, labels, self.share(share), self.classes)
        return x, labels


def windows(x: Tensor, margin: int, top: Tensor, left: Tensor, mirrored: Tensor) -> Tensor:
    """Of every image, set in a margin of zeros, the window of its own size at (top, left), mirrored where asked.

    x: [B, C, H, W]; top, left: [B] from 0 to 2 * margin, `margin` being the image itself; mirrored: [B]
    """
    if margin == 0:
        return torch.where(mirrored[:, None, None, None], x.flip(3), x)
    batch, channels, height, width = x.shape
    rows = top[:, None] + torch.arange(height, device=x.device)  # [B, H]
    across = torch.arange(width, device=x.device).expand(batch, width)
    columns = left[:, None] + torch.where(mirrored[:, None], across.flip(1), across)  # [B, W]
    places = rows[:, :, None] * (width + 2 * margin) + columns[:, None, :]  # [B, H, W]
    set_in = F.pad(x, (margin, margin, margin, margin)).flatten(2)
    return set_in.gather(2, places.view(batch, 1, -1).expand(-1, channels, -1)).view_as(x)


def permuted(array: Array, name: str) -> Array:
    """In an order that is fixed for ever, to split by; images and labels of one name stay together."""
    return array[torch.randperm(len(array), generator=generator("split", name)).numpy()]


def with_valid(train: Array, test: Array, name: str, size: int) -> dict[str, Array]:
    """Three splits of two: `size` samples of the training set, the same ones for ever, are the validation set."""
    order = permuted(train, name)
    return {"train": order[:-size], "valid": order[-size:], "test": test}  # type: ignore[dict-item]


def _mean(x: Tensor) -> Tensor:
    """Over the first dimension, of bytes; in parts, since all of CIFAR10 in floats takes half a gigabyte."""
    return torch.stack([part.float().sum(0) for part in x.split(1024)]).sum(0) / len(x)


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
