"""How near images are to their originals: MS-SSIM in the definitions that small ones allow, and PSNR.

x, y: [B, C, H, W] in 0..1. Of every pair one value, and 1 is the best MS-SSIM there is. With its window of 11 pixels
and five scales MS-SSIM needs sides over 160; below that it is a matter of definition, so each goes by a name:

msssim                  the standard one, for sides over 160
msssim_upsampled        the standard one, of images stretched to 176 pixels
msssim_shrink           the window shrinks with the image, as in the metric code of the paper's authors
msssim_shrink_batch     that code to the letter, for comparison: one value for the whole batch
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)  # of the scales, the finest first (Wang et al. 2003)
WINDOW, SIGMA = 11, 1.5
C1, C2 = 0.01**2, 0.03**2  # what keeps ratios finite where images are black or flat
SMALLEST = (WINDOW - 1) * 2 ** (len(WEIGHTS) - 1) + 1
UPSAMPLED = 176  # halves four times without a rest, down to one window
IMPERCEPTIBLE = 1e-10  # 100 dB, a 400th of a grey level: identical images must not make an average infinite
CHUNK = 2**19  # pixels at a time: memory stays bounded, and most of it in the processor's cache


@torch.no_grad()
def psnr(x: Tensor, y: Tensor) -> Tensor:
    """-10 log10 of the mean squared error, in dB, and at most 100.  → [B]"""
    check(x, y)
    error = by_chunks(lambda a, b: (a - b).square().mean((1, 2, 3)), x, y, x[0].numel())
    return -10 * error.clamp(min=IMPERCEPTIBLE).log10()


@torch.no_grad()
def msssim(x: Tensor, y: Tensor) -> Tensor:
    """pytorch-msssim's: over the scales a product for every channel, of which the mean.  → [B]"""
    from pytorch_msssim import ms_ssim

    check(x, y)
    if min(x.shape[2:]) < SMALLEST:
        raise ValueError(
            f"msssim needs images of at least {SMALLEST} pixels a side, given {x.shape[2]} x {x.shape[3]}: "
            "take msssim_shrink or msssim_upsampled"
        )
    return by_chunks(lambda a, b: ms_ssim(a, b, data_range=1.0, size_average=False), x, y, x[0].numel())


@torch.no_grad()
def msssim_upsampled(x: Tensor, y: Tensor) -> Tensor:
    """`msssim` of images stretched bilinearly to 176 x 176, in a quarter of pytorch-msssim's time.  → [B]"""
    check(x, y)
    of_scales = by_chunks(lambda a, b: terms(stretched(a), stretched(b)), x, y, x.shape[1] * UPSAMPLED**2)
    return product(of_scales.clamp(min=0)).mean(1)


@torch.no_grad()
def msssim_shrink(x: Tensor, y: Tensor) -> Tensor:
    """Five scales at any size: a window larger than the image becomes as large as the image.  → [B]

    As in the authors' code images are bytes, and the term of a scale is the mean over pixels and channels together,
    taken before the product over the scales. Unlike there it is that of one image, bytes are rounded to, and a
    negative term counts as 0.
    """
    check(x, y)
    of_scales = by_chunks(lambda a, b: terms(*(t.double().mul(255).round() / 255 for t in (a, b))), x, y, x[0].numel())
    return product(of_scales.mean(1).clamp(min=0)).to(x.dtype)


@torch.no_grad()
def msssim_shrink_batch(x: Tensor, y: Tensor) -> Tensor:
    """The authors' own: terms are means over the whole batch, before the product.  → []

    As there, bytes are cut down to, not rounded, and a negative term gives NaN.
    """
    check(x, y)
    of_scales = by_chunks(lambda a, b: terms(*(t.mul(255).floor().double() / 255 for t in (a, b))), x, y, x[0].numel())
    return product(of_scales.mean((0, 1))).to(x.dtype)


def check(x: Tensor, y: Tensor) -> None:
    if x.shape != y.shape or x.dim() != 4 or x.numel() == 0:
        raise ValueError(f"two batches of images [B, C, H, W] are compared, given {list(x.shape)} and {list(y.shape)}")
    for low, high in (x.aminmax(), y.aminmax()):
        if low < 0 or high > 1:  # NaN passes, and is what comes out
            raise ValueError(f"images must be in 0..1, given {low:g} to {high:g}: scale or clamp them")


def by_chunks(compare: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, pixels: int) -> Tensor:
    """`compare` of a few images at a time, each of which comes to so many `pixels`."""
    size = max(1, CHUNK // pixels)
    return torch.cat([compare(a, b) for a, b in zip(x.split(size), y.split(size))])


def stretched(x: Tensor) -> Tensor:
    return F.interpolate(x, size=(UPSAMPLED, UPSAMPLED), mode="bilinear", align_corners=False)


def terms(x: Tensor, y: Tensor) -> Tensor:
    """Of every scale but the last the contrast and structure, of that one the whole similarity.  → [B, C, scales]"""
    found = []
    for left in reversed(range(len(WEIGHTS))):
        found.append(similarity(x, y, luminance=left == 0))
        if left:
            # What is left over at an odd border stands for itself: reflecting it there says the same.
            x, y = (F.avg_pool2d(t, 2, ceil_mode=True) for t in (x, y))
    return torch.stack(found, -1)


def similarity(x: Tensor, y: Tensor, luminance: bool) -> Tensor:
    """SSIM of one scale, or without its luminance: the mean over all places of the window.  → [B, C]"""
    size = min(WINDOW, *x.shape[2:])
    mean_x, mean_y, products, squares = (blurred(t, size) for t in (x, y, x * y, x.square() + y.square()))
    means, mean_squares = mean_x * mean_y, mean_x.square_().add_(mean_y.square_())
    value = (2 * (products - means) + C2) / (squares - mean_squares + C2)
    if luminance:
        value *= (2 * means + C1) / (mean_squares + C1)
    return value.mean((2, 3))


def blurred(x: Tensor, size: int) -> Tensor:
    """By a Gaussian window of `size`, where it fits.  [B, C, H, W] → [B, C, H - size + 1, W - size + 1]"""
    # Shifted sums: for a few taps and one channel they take a quarter of a convolution's time.
    sigma = SIGMA * size / WINDOW
    window = [math.exp(-((i - (size - 1) / 2) ** 2) / (2 * sigma**2)) for i in range(size)]
    for dim in (2, 3):
        places = x.shape[dim] - size + 1
        total = x.narrow(dim, 0, places) * (window[0] / sum(window))
        for i in range(1, size):
            total.add_(x.narrow(dim, i, places), alpha=window[i] / sum(window))
        x = total
    return x


def product(of_scales: Tensor) -> Tensor:
    """[..., scales] → [...]"""
    return of_scales.pow(of_scales.new_tensor(WEIGHTS)).prod(-1)
