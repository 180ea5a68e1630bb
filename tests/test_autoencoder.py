"""Images through codes of a given number of bits."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import dab
from dab.data.digits import DigitImages
from dab.hard import Bernoulli, Binary, Categorical, Levels, Nearest, Signum, Sort1d, Threshold
from dab.models.autoencoder import Autoencoder, units_within
from dab.models.linear_code import LinearCode

FASHION, COLOUR = (1, 28, 28), (3, 32, 32)
AUTHORS = {"channels": (32, 64, 128, 256, 512), "kernels": (5, 4, 4, 4, 4), "strides": (1, 2, 1, 2, 1)}
AUTHORS |= {"paddings": (2, 0, 0, 0, 0), "hidden": ()}


def autoencoder(hard: nn.Module, shape: tuple[int, ...] = FASHION, bpp: float = 0.1, **options) -> Autoencoder:
    code_shape = Autoencoder.code_shape(shape, hard, bpp=bpp)
    return Autoencoder(dab.StraightThrough(hard), shape, code_shape, hard, bpp, **options)


@pytest.mark.parametrize(
    ("hard", "shape", "bpp", "units", "bits"),
    [
        (Binary(), FASHION, 0.1, 78, 78),
        (Signum(), FASHION, 0.1, 49, 49 * math.log2(3)),
        (Categorical(8), FASHION, 0.1, 26, 78),
        (Levels(5), FASHION, 0.1, 33, 33 * math.log2(5)),
        (Nearest(64, 8), FASHION, 0.1, 13, 78),
        (Bernoulli(), COLOUR, 0.1, 307, 307),
        (Signum(), (3, 512, 512), 1 / 1024, 484, 484 * math.log2(3)),  # not the 496 of the paper, which are 786 bits
        (Binary(), (3, 512, 512), 1 / 1024, 768, 768),
    ],
)
def test_a_code_has_as_many_whole_units_as_fit(hard, shape, bpp, units, bits) -> None:
    code_shape = Autoencoder.code_shape(shape, hard, bpp=bpp)
    assert code_shape == (units, *getattr(hard, "unit_shape", ()))
    assert units * hard.bits_per_unit == pytest.approx(bits)
    assert units * hard.bits_per_unit <= bpp * math.prod(shape) < (units + 1) * hard.bits_per_unit


def test_functions_without_bits_and_codes_without_units_are_refused() -> None:
    with pytest.raises(ValueError, match="Sort1d has no bits per unit"):
        units_within(10, Sort1d())
    with pytest.raises(ValueError, match="less than one unit of Signum"):
        units_within(1.0, Signum())


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        (FASHION, {}),
        ((1, 8, 8), {}),
        ((1, 29, 27), {}),  # sides that do not halve
        (FASHION, AUTHORS),
        (COLOUR, {"encoder": "coordconv", "decoder": "dense", "channels": (8, 8, 8), "decoder_hidden": (16,)}),
        ((3, 64, 48), {"encoder": "resnet18", "decoder": "upsampling", "decoder_hidden": (8, 8, 4)}),
        ((1, 32, 32), {"encoder": "resnet18", "decoder": "dense", "decoder_hidden": (16,)}),
    ],
)
@pytest.mark.parametrize("hard", [Signum(), Categorical(4, evaluate="mode")])
def test_every_stack_gives_back_an_image_and_nothing_leads_around_the_code(shape, options, hard) -> None:
    torch.manual_seed(0)
    model = autoencoder(hard, shape, **options)
    x = torch.rand(3, *shape)
    decoded, penalty = model(x)
    assert decoded.shape == x.shape and penalty.shape == (3,)
    model.eval()
    code = model.code(x)
    assert torch.equal(model.decode(code), model(x)[0])
    if isinstance(hard, Signum):
        assert set(code.unique().tolist()) <= {-1.0, 0.0, 1.0}
    # The image depends on the input through the code alone.
    assert torch.autograd.grad(decoded.sum(), list(model.encoder.parameters()), allow_unused=True)[0] is None


def test_impossible_stacks_are_refused() -> None:
    with pytest.raises(ValueError, match="no mirror"):
        autoencoder(Binary(), COLOUR, encoder="resnet18")
    with pytest.raises(ValueError, match="decoder_hidden"):
        autoencoder(Binary(), COLOUR, decoder="upsampling")
    with pytest.raises(ValueError, match="too small"):
        autoencoder(Binary(), (1, 8, 8), **AUTHORS)
    with pytest.raises(ValueError, match="as many numbers"):
        autoencoder(Binary(), kernels=(4, 4, 4))


def test_a_position_is_told_to_every_coordinate_convolution() -> None:
    """A constant image: an ordinary convolution answers alike away from the border, this one does not."""
    from dab.models.image_nets import CoordConv

    torch.manual_seed(0)
    answer = CoordConv(1, 4, 3, 1, 0)(torch.zeros(1, 1, 9, 9))
    assert answer.flatten(2).std(2).min() > 1e-3


def digits() -> DigitImages:
    return DigitImages(seed=0, batch_size=64, eval_batch_size=500)


def floor(kind: str, hard: nn.Module, bpp: float = 0.5) -> LinearCode:
    data = digits()
    code_shape = LinearCode.code_shape(data.input_shape, hard, bpp=bpp, kind=kind)
    model = LinearCode(dab.StraightThrough(hard), data.input_shape, code_shape, hard, bpp, kind)
    model.prepare(data)
    return model.eval()


def error(model: nn.Module) -> float:
    x = next(digits().batches("test"))[0]
    return (model(x)[0] - x).square().mean().item()


def test_signs_of_principal_components_beat_random_directions_and_more_bits_fewer() -> None:
    sign = Binary("zero")
    nothing = (next(digits().batches("test"))[0] - digits().mean).square().mean().item()
    assert error(floor("pca", sign)) < error(floor("random", sign)) < nothing
    assert error(floor("pca", sign)) < error(floor("pca", sign, bpp=0.2))
    assert error(floor("downsampled", Threshold(0.3))) < nothing


def test_principal_components_are_scikit_learns() -> None:
    from sklearn.decomposition import PCA

    model, x = floor("pca", Binary("zero"), bpp=0.2), torch.cat([x for x, _ in digits().batches("train")])
    expected = PCA(12, whiten=True).fit(x.flatten(1).numpy()).transform(x.flatten(1).numpy())
    found = model.encode(x)
    assert found.shape == (len(x), 12)
    for column in range(12):  # up to their signs
        product = torch.corrcoef(torch.stack([found[:, column], torch.from_numpy(expected[:, column]).float()]))[0, 1]
        assert abs(product) > 0.999
    torch.testing.assert_close(found.std(0), torch.ones(12), rtol=2e-2, atol=0)


def test_a_smaller_image_has_no_more_bits_than_there_are() -> None:
    for bpp in (0.025, 0.05, 0.1, 0.2, 0.3):
        shape = LinearCode.code_shape(FASHION, Threshold(), bpp=bpp, kind="downsampled")
        assert math.prod(shape) <= bpp * 784
        assert math.prod(shape) > 0.7 * bpp * 784
