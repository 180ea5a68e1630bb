"""Images with labels: bytes until they are used, augmented alike whatever the number of workers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dab.data.binarized_mnist import BinarizedMNIST
from dab.data.dataset import Dataset, Labelled
from dab.data.digits import DigitImages, Digits
from dab.data.images import Images, LabelledImages, windows
from dab.data.mixing import beta, cut_out, mixed
from dab.data.sorting import Sorting
from dab.keys import generator

SIZES = {"train": 40, "valid": 9, "test": 7}
OPTIONS = {"seed": 0, "batch_size": 8, "eval_batch_size": 4}
random = np.random.RandomState(0)
PIXELS = {name: random.randint(0, 256, (size, 3, 6, 5)).astype(np.uint8) for name, size in SIZES.items()}
LABELS = {name: random.randint(0, 4, size) for name, size in SIZES.items()}


def colour(**options) -> LabelledImages:
    return LabelledImages(PIXELS, LABELS, 4, **{**OPTIONS, **options})


def test_every_dataset_offers_what_a_task_may_rely_on() -> None:
    sorting = Sorting(length=3, low=-1.0, high=5.0, valid_size=4, test_size=4, **OPTIONS)
    for data in (sorting, Digits(**OPTIONS), DigitImages(**OPTIONS), colour(), Images(PIXELS, **OPTIONS)):
        assert isinstance(data, Dataset)
        assert data.mean.shape == data.input_shape == data.batch(0)[0].shape[1:]
    assert isinstance(colour(), Labelled) and not isinstance(Images(PIXELS, **OPTIONS), Labelled)
    assert torch.allclose(sorting.mean, torch.full((3,), 2.0))
    assert issubclass(BinarizedMNIST, Images)


def test_splits_come_back_as_they_were_given() -> None:
    data = colour(crop=2, flip=True)  # which is for training alone
    assert [t.dtype for t in data.splits["train"]] == [torch.uint8, torch.int64]
    for name in SIZES:
        x, labels = (torch.cat(parts) for parts in zip(*data.batches(name)))
        assert torch.equal(x, torch.from_numpy(PIXELS[name]).float() / 255)
        assert labels.tolist() == LABELS[name].tolist()
    assert torch.allclose(data.mean, torch.from_numpy(PIXELS["train"]).float().mean(0) / 255)


def test_without_augmentation_a_batch_is_rows_of_the_training_set() -> None:
    x, labels = colour().batch(3)
    known = {(p.tobytes(), int(c)) for p, c in zip(PIXELS["train"], LABELS["train"])}
    assert {(p.tobytes(), int(c)) for p, c in zip((x * 255).round().byte().numpy(), labels)} <= known


def test_windows_are_cut_out_of_a_margin_of_zeros() -> None:
    x = torch.from_numpy(PIXELS["train"])
    top, left = torch.randint(5, (2, len(x)))
    mirrored = torch.rand(len(x)) < 0.5
    found = windows(x, 2, top, left, mirrored)
    for image, row, column, mirror, window in zip(x, top, left, mirrored, found):
        cut = torch.nn.functional.pad(image, (2, 2, 2, 2))[:, row : row + 6, column : column + 5]
        assert torch.equal(window, cut.flip(2) if mirror else cut)
    itself = torch.full((len(x),), 2)
    assert torch.equal(windows(x, 2, itself, itself, torch.zeros(len(x), dtype=torch.bool)), x)


def test_augmentation_draws_all_shifts_and_both_sides() -> None:
    one = np.arange(25, dtype=np.uint8).reshape(1, 1, 5, 5).repeat(400, 0)
    data = Images({"train": one}, crop=1, flip=True, **{**OPTIONS, "batch_size": 400})
    seen = {tuple(x.flatten().tolist()) for step in range(2) for x in data.batch(step)[0]}
    assert len(seen) == 3 * 3 * 2
    flipped = Images({"train": one}, flip=True, **{**OPTIONS, "batch_size": 400}).batch(0)[0]
    assert len(flipped.flatten(1).unique(dim=0)) == 2
    assert 0.4 < (flipped[:, 0, 0, 0] == 0).float().mean() < 0.6


@pytest.mark.parametrize("more", [{}, {"cutout": 2, "mixup": 0.7}], ids=["shifted", "cut out and mixed"])
def test_augmentation_is_a_function_of_seed_and_step_and_not_of_the_workers(more: dict) -> None:
    whole, resumed = (colour(crop=2, flip=True, **more) for _ in range(2))
    shares = [colour(crop=2, flip=True, rank=rank, world=2, **more) for rank in range(2)]
    for step in (0, 3, 11):
        x, labels = whole.batch(step)
        for mine, of_shares in zip((x, labels), zip(*(share.batch(step) for share in shares))):
            assert torch.equal(mine, torch.stack(of_shares, 1).flatten(0, 1))
    assert torch.equal(whole.batch(11)[0], resumed.batch(11)[0])
    assert not torch.equal(whole.batch(11)[0], colour(crop=2, flip=True, seed=1).batch(11)[0])


def test_a_square_is_cut_out_around_its_centre() -> None:
    x, fill = torch.ones(3, 2, 6, 5), torch.full((2, 6, 5), 0.5)
    found = cut_out(x, 2, torch.tensor([[3, 3], [0, 0], [5, 4]]), fill)
    squares = [(slice(2, 4), slice(2, 4)), (slice(0, 1), slice(0, 1)), (slice(4, 6), slice(3, 5))]
    for image, (rows, columns) in zip(found, squares):
        expected = torch.ones(2, 6, 5)
        expected[:, rows, columns] = 0.5
        assert torch.equal(image, expected)


def test_mixed_images_have_mixed_labels() -> None:
    x, labels = torch.rand(4, 1, 2, 2), torch.tensor([0, 1, 2, 2])
    share = torch.tensor([1.0, 0.75, 0.5, 0.0])
    blended, target = mixed(x, labels, share, 3)
    assert torch.equal(blended[0], x[0]) and torch.equal(blended[3], x[1])
    torch.testing.assert_close(blended[1], 0.75 * x[1] + 0.25 * x[3])
    assert target.tolist() == [[1, 0, 0], [0, 0.75, 0.25], [0.5, 0, 0.5], [0, 1, 0]]


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_shares_are_drawn_from_a_beta_distribution(alpha: float) -> None:
    share = beta(alpha, 20_000, generator("test"))
    expected = torch.distributions.Beta(alpha, alpha)
    assert share.mean().item() == pytest.approx(0.5, abs=0.02)
    assert share.var().item() == pytest.approx(expected.variance.item(), rel=0.05)
    assert beta(1e-4, 1000, generator("test")).isfinite().all()


def test_evaluation_sees_images_and_labels_as_they_are() -> None:
    data = colour(cutout=3, mixup=1.0)
    assert data.batch(0)[1].shape == (8, 4)
    x, labels = (torch.cat(parts) for parts in zip(*data.batches("train")))
    assert (
        torch.equal(x, torch.from_numpy(PIXELS["train"]).float() / 255) and labels.tolist() == LABELS["train"].tolist()
    )


def test_labels_stay_with_their_images() -> None:
    """An image that is its own label, however it is shifted and whoever asks."""
    labels = {name: np.arange(len(p)) for name, p in PIXELS.items()}
    pixels = {
        name: np.broadcast_to(n[:, None, None, None], (len(n), 1, 6, 5)).astype(np.uint8) for name, n in labels.items()
    }
    data = LabelledImages(pixels, labels, 40, crop=1, flip=True, rank=1, world=2, **OPTIONS)
    for x, label in (data.batch(7), *data.batches("valid")):
        assert torch.equal((x.amax((1, 2, 3)) * 255).round().long(), label)


def test_digits_are_the_same_ones_with_and_without_labels() -> None:
    binary, grey = Digits(**OPTIONS), DigitImages(**OPTIONS)
    assert grey.classes == 10 and grey.input_shape == (1, 8, 8) and torch.equal(binary.mean, grey.mean)
    for split, size in (("train", 1297), ("valid", 250), ("test", 250)):
        bits, (x, labels) = binary.splits[split][0], grey.splits[split]
        assert len(x) == len(labels) == size
        assert (x[bits == 1] > 0).all() and (x[bits == 0] < 255).all()
    by_class = [grey.splits["train"][0][grey.splits["train"][1] == c].float().mean(0) for c in (0, 1)]
    assert by_class[0][0, 3:5, 3:5].mean() < 40 < 150 < by_class[1][0, 3:5, 3:5].mean()  # a hole in the 0, ink in the 1


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"images": {"train": PIXELS["train"].astype(np.float32)}}, r"uint8 \[N, C, H, W\], train is float32"),
        ({"images": {"train": PIXELS["train"][:, 0]}}, r"train is uint8 \[40, 6, 5\]"),
        ({"labels": {**LABELS, "valid": LABELS["valid"][:-1]}}, r"valid has 9 images and \[8\] labels"),
        ({"classes": 3}, "from 0 to 2"),
        ({"crop": -1}, "crop must be a whole number in"),
        ({"crop": 5}, "less than the 5 pixels of an image's shorter side"),
        ({"cutout": 12}, "less than 12 pixels"),
        ({"mixup": -0.1}, "mixup must be a number >= 0, given -0.1"),
    ],
)
def test_what_does_not_fit_is_refused(wrong: dict, says: str) -> None:
    given = {"images": PIXELS, "labels": LABELS, "classes": 4, **wrong}
    with pytest.raises(ValueError, match=says):
        LabelledImages(**given, **OPTIONS)
