"""MS-SSIM against loops in numpy and against pytorch-msssim, and what any measure of images must do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.ndimage import convolve
from torch import Tensor

from dab.data.digits import digits
from dab.metrics.images import msssim, msssim_shrink, msssim_shrink_batch, msssim_upsampled, psnr

WEIGHTS = np.array([0.0448, 0.2856, 0.3001, 0.2363, 0.1333])
Array = NDArray[np.float64]
SHAPES = [(1, 28, 28), (3, 32, 32), (1, 8, 8), (2, 27, 45), (1, 1, 5)]
ALL = [msssim, msssim_upsampled, msssim_shrink, psnr]


def textured(*shape: int) -> Tensor:
    """Images with structure at several scales, in 0..1."""
    coarse = torch.rand(*shape[:2], 4, 4)
    smooth = torch.nn.functional.interpolate(coarse, size=shape[2:], mode="bicubic").clamp(0, 1)
    return 0.7 * smooth + 0.3 * torch.rand(*shape)


def noisy(x: Tensor, strength: float) -> Tensor:
    torch.manual_seed(1)
    return (x + strength * torch.randn(x.shape)).clamp(0, 1)


def scale_terms(x: Array, y: Array) -> tuple[Array, Array]:
    """Contrast and SSIM at each place of the window, by moments about its mean.  [H, W] → twice [places, places]"""
    size = min(11, *x.shape)
    places = np.arange(size) - (size - 1) / 2
    window = np.exp(-(places[:, None] ** 2 + places[None] ** 2) / (2 * (1.5 * size / 11) ** 2))
    window /= window.sum()
    contrast = np.empty((x.shape[0] - size + 1, x.shape[1] - size + 1))
    whole = np.empty_like(contrast)
    for i, j in np.ndindex(contrast.shape):
        a, b = x[i : i + size, j : j + size], y[i : i + size, j : j + size]
        mean_a, mean_b = (window * a).sum(), (window * b).sum()
        var_a, var_b = (window * (a - mean_a) ** 2).sum(), (window * (b - mean_b) ** 2).sum()
        covariance = (window * (a - mean_a) * (b - mean_b)).sum()
        contrast[i, j] = (2 * covariance + 7.65**2) / (var_a + var_b + 7.65**2)
        whole[i, j] = contrast[i, j] * (2 * mean_a * mean_b + 2.55**2) / (mean_a**2 + mean_b**2 + 2.55**2)
    return contrast, whole


def terms(x: Tensor, y: Tensor, to_bytes) -> Array:
    """[images, scales], means over pixels and channels: bytes 0..255 as the authors have them."""
    found = np.empty((len(x), 5))
    for image in range(len(x)):
        pair = [to_bytes(t[image].double().numpy() * 255) for t in (x, y)]  # [C, H, W]
        for scale in range(5):
            maps = [scale_terms(a, b)[scale == 4] for a, b in zip(*pair)]
            found[image, scale] = np.mean(maps)
            pair = [convolve(t, np.full((1, 2, 2), 0.25), mode="reflect")[:, ::2, ::2] for t in pair]
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_shrink_agrees_with_loops_in_numpy(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = textured(3, *shape)
    y = torch.stack([x[0], noisy(x[1], 0.1), 1 - x[2]])  # the same, near, and against
    wanted = (terms(x, y, np.rint).clip(min=0) ** WEIGHTS).prod(1)
    found = msssim_shrink(x, y)
    assert found.dtype == torch.float32 and np.abs(found.numpy() - wanted).max() < 1e-5
    assert wanted[0] == pytest.approx(1) and wanted[1] > wanted[2]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_authors_own_is_a_mean_over_the_batch_before_the_product(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = textured(3, *shape)
    y = torch.stack([x[0], noisy(x[1], 0.1), noisy(x[2], 0.5)])
    of_scales = terms(x, y, np.floor).mean(0)
    assert float(msssim_shrink_batch(x, y)) == pytest.approx((of_scales**WEIGHTS).prod(), abs=1e-5)


def test_the_order_of_mean_and_product_matters() -> None:
    x = textured(2, 1, 28, 28)
    y = torch.stack([x[0], noisy(x[1], 0.5)])
    assert msssim_shrink_batch(x, y) > msssim_shrink(x, y).mean() + 0.001


def test_a_negative_term_is_zero_for_an_image_and_nan_in_the_authors_own() -> None:
    x = (torch.arange(28).float() / 27).expand(2, 1, 28, 28)
    assert torch.equal(msssim_shrink(x, 1 - x), torch.zeros(2)) and msssim_shrink_batch(x, 1 - x).isnan()


def test_what_has_no_effect_on_bytes_has_none_on_shrink() -> None:
    x = torch.randint(0, 256, (4, 1, 28, 28)) / 255
    y = noisy(x, 0.1)
    assert torch.equal(msssim_shrink(x, y), msssim_shrink((x + 1e-3).clamp(max=1), y))
    assert torch.equal(msssim_shrink(x, (y * 255).round() / 255), msssim_shrink(x, y))


@pytest.mark.parametrize("channels", [1, 3])
def test_definitions_agree_where_they_must(channels: int) -> None:
    """At 256 pixels no window shrinks, and at 176 nothing is stretched. What is left of the difference to the standard
    one is bytes, for `shrink`, and that it averages over channels before the product: here all channels are alike."""
    torch.manual_seed(0)
    x = textured(3, 1, 256, 256)
    y = torch.stack([noisy(x[0], 0.05), noisy(x[1], 0.3), x[2].flip(-1)])
    x, y = (t.expand(-1, channels, -1, -1) for t in (x, y))
    assert torch.allclose(msssim_shrink(x, y), msssim(x, y), atol=1e-4)
    x, y = (t[..., :176, :176] for t in (x, y))
    assert torch.allclose(msssim_upsampled(x, y), msssim(x, y), atol=1e-5)


def test_upsampled_is_pytorch_msssim_of_stretched_images() -> None:
    x = torch.stack([textured(2, 3, 32, 32), torch.rand(2, 3, 32, 32)]).flatten(0, 1)
    y = torch.cat([noisy(x[:2], 0.2), 1 - x[2:]])
    large = [torch.nn.functional.interpolate(t, size=(176, 176), mode="bilinear") for t in (x, y)]
    assert torch.allclose(msssim_upsampled(x, y), msssim(*large), atol=1e-5)


@pytest.mark.parametrize("measure", ALL)
def test_a_measure_of_images(measure) -> None:
    torch.manual_seed(0)
    side = 170 if measure is msssim else 28
    x = textured(3, 2, side, side)
    best = 100 if measure is psnr else 1
    assert torch.allclose(measure(x, x), torch.full((3,), float(best)))
    assert torch.allclose(measure(x, noisy(x, 0.1)), measure(noisy(x, 0.1), x), atol=1e-6)
    levels = torch.stack([measure(x, noisy(x, strength)) for strength in (0.02, 0.05, 0.1, 0.2, 0.5)])
    assert (levels.diff(dim=0) < 0).all() and levels.max() < best
    flat = torch.cat([torch.zeros(1, 2, side, side), torch.full((1, 2, side, side), 0.3), torch.ones(1, 2, side, side)])
    for other in (flat, flat.flip(0), x):
        assert measure(flat, other).isfinite().all()
    broken = x.clone()
    broken[1, 0, 3, 3] = torch.nan
    assert measure(broken, x).isnan().tolist() == [False, True, False]


def test_chunks_change_nothing(monkeypatch) -> None:
    x = torch.rand(7, 3, 32, 32)
    y = noisy(x, 0.1)
    together = [measure(x, y) for measure in ALL[1:]]
    monkeypatch.setattr("dab.metrics.images.CHUNK", 2 * 3 * 32 * 32)
    for measure, values in zip(ALL[1:], together):
        assert torch.allclose(measure(x, y), values, atol=1e-6)


def test_tiny_digits() -> None:
    x = torch.from_numpy(digits()[0][:100, None]).float() / 255
    y, far = noisy(x, 0.1), noisy(x, 0.4)
    for measure in (msssim_shrink, msssim_upsampled, psnr):
        assert measure(x, y).mean() > measure(x, far).mean() > measure(x, x.roll(1, 0)).mean()


def test_psnr() -> None:
    x = torch.zeros(2, 1, 4, 4)
    assert torch.allclose(psnr(x, torch.full_like(x, 0.1)), torch.full((2,), 20.0))


@pytest.mark.parametrize("measure", [*ALL, msssim_shrink_batch])
def test_what_is_no_pair_of_images_is_refused(measure) -> None:
    x = torch.rand(2, 1, 170, 170)
    for wrong, message in (
        (255 * x, r"in 0\.\.1, given .*clamp"),
        (x[:1], "given .2, 1, 170, 170. and .1, 1, 170"),
        (x - 1, "0..1"),
    ):
        with pytest.raises(ValueError, match=message):
            measure(x, wrong)
    with pytest.raises(ValueError, match="161 pixels a side, given 28 x 28: take msssim_shrink"):
        msssim(x[..., :28, :28], x[..., :28, :28])
