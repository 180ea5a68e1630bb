"""Binary images, sampled from grey ones: once for all, or anew every epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

import torch
from torch import Tensor

from dab.data.dataset import Tensors
from dab.data.files import Bytes
from dab.data.images import Images
from dab.data.resident import ResidentOptions
from dab.keys import generator


class Binarized(Images):
    """Batches (x [B, 1, H, W],) of 0.0 and 1.0; a pixel is 1 with probability grey / 255.

    Validation and test images are sampled once and do not depend on the seed: all runs are measured on the same ones.
    So are training images, unless `dynamic`: then every epoch samples them anew, by (seed, epoch). Images that are 0
    and 255 alone stay what they are. `mean` is that of the grey values.

    images      grey uint8 [N, H, W] of "train", "valid" and "test"; one byte a pixel is all that is kept
    """

    def __init__(self, images: dict[str, Bytes], dynamic: bool, **resident: Unpack[ResidentOptions]):
        super().__init__({name: grey[:, None] for name, grey in images.items()}, **resident)
        self._grey = self.splits["train"][0] if dynamic else None
        self._sampled: int | str = ""
        for name, (grey,) in self.splits.items():  # on the CPU: the same bits whatever the device
            self.splits[name] = (sampled(grey.cpu(), generator("binarize", name)).to(self.device),)

    def scaled(self, x: Tensor) -> Tensor:
        return x.float()  # 0 and 1 already

    def batch(self, step: int) -> Tensors:
        if self._grey is not None:
            self._sample(step // max(1, len(self._grey) // self.batch_size))
        return super().batch(step)

    def batches(self, split: str) -> Iterator[Tensors]:
        if split == "train" and self._grey is not None:
            self._sample("evaluate")  # an epoch of its own: what is measured does not depend on where training stands
        yield from super().batches(split)

    def _sample(self, epoch: int | str) -> None:
        """Training bits of this epoch, the same on every worker."""
        if epoch != self._sampled:
            assert self._grey is not None
            random = generator("binarize", "train", self.seed, epoch, device=self.device)
            self.splits["train"], self._sampled = (sampled(self._grey, random),), epoch


def sampled(grey: Tensor, random: torch.Generator) -> Tensor:
    """uint8 0..255 to uint8 0 or 1: 1 with probability grey / 255 exactly, as 255 equally likely thresholds."""
    thresholds = torch.randint(0, 255, grey.shape, generator=random, dtype=torch.uint8, device=grey.device)
    return (grey > thresholds).to(torch.uint8)
