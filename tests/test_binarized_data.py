"""Binary image datasets: what is read, checked, split and sampled. Files are made here in the real formats."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from dab.data import binarized_mnist, binarized_omniglot, files
from dab.data.binarized_mnist import SPLITS, BinarizedMNIST
from dab.data.binarized_omniglot import BinarizedOmniglot, downsampled
from dab.data.digits import Digits

OPTIONS = {"seed": 0, "batch_size": 4, "eval_batch_size": 5}
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
random = np.random.RandomState(0)
BITS = {name: random.randint(0, 2, (size, 784)).astype(np.uint8) for name, size in zip(SPLITS, (12, 6, 7))}


@pytest.fixture
def known(monkeypatch) -> None:
    """The bits of this file are the known ones, and no host answers."""
    monkeypatch.setattr(binarized_mnist, "BITS_SHA256", {name: files.digest(b) for name, b in BITS.items()})
    monkeypatch.setattr(binarized_mnist, "AMAT_URL", "file:///nowhere/{}")


def write_npz(folder: Path) -> None:
    np.savez(folder / "binarized_mnist.npz", **{name: np.packbits(b, axis=1) for name, b in BITS.items()})


def write_amat(folder: Path) -> None:
    for name, bits in BITS.items():
        np.savetxt(folder / f"binarized_mnist_{name}.amat", bits, fmt="%d")


def all_of(data, split: str) -> torch.Tensor:
    return torch.cat([x for (x,) in data.batches(split)])


@pytest.mark.parametrize("write", [write_npz, write_amat])
def test_mnist_is_read_from_either_format(write, tmp_path, known) -> None:
    write(tmp_path)
    data = BinarizedMNIST(tmp_path, **OPTIONS)
    assert data.input_shape == (1, 28, 28)
    for name, bits in BITS.items():
        assert torch.equal(all_of(data, name), torch.from_numpy(bits).view(-1, 1, 28, 28).float())
    assert torch.allclose(data.mean.flatten(), torch.from_numpy(BITS["train"]).float().mean(0))
    assert {t.dtype for tensors in data.splits.values() for t in tensors} == {torch.uint8}


def test_missing_files_are_told_in_one_line(tmp_path, known) -> None:
    with pytest.raises(FileNotFoundError) as error:
        BinarizedMNIST(tmp_path / "empty", **OPTIONS)
    for part in (str(tmp_path / "empty"), "binarized_mnist.npz or binarized_mnist_train.amat", "paths.data"):
        assert part in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_files_are_fetched_when_a_host_answers(tmp_path, known, monkeypatch) -> None:
    write_amat(tmp_path)
    monkeypatch.setattr(binarized_mnist, "AMAT_URL", (tmp_path / binarized_mnist.AMAT).as_uri().replace("%7B%7D", "{}"))
    assert len(all_of(BinarizedMNIST(tmp_path / "new", **OPTIONS), "train")) == 12
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == sorted(
        binarized_mnist.AMAT.format(n) for n in SPLITS
    )


def test_other_content_is_refused(tmp_path, known) -> None:
    write_npz(tmp_path)
    with np.load(tmp_path / "binarized_mnist.npz") as file:
        arrays = dict(file)
    arrays["valid"][0, 50] ^= 8
    np.savez(tmp_path / "binarized_mnist.npz", **arrays)
    with pytest.raises(ValueError, match=r"valid split of binarized MNIST .* not hold the known data .* get it again"):
        BinarizedMNIST(tmp_path, **OPTIONS)


def test_a_file_that_is_no_amat_is_refused(tmp_path) -> None:
    (tmp_path / "x.amat").write_text("0 1 2 3\n")
    with pytest.raises(ValueError, match="784 times 0 or 1"):
        binarized_mnist.read_amat(tmp_path / "x.amat")


def test_dynamic_mnist_samples_grey_values(tmp_path, monkeypatch) -> None:
    grey = {"x_train": random.randint(0, 256, (12, 28, 28)), "x_test": random.randint(0, 256, (3, 28, 28))}
    grey = {name: g.astype(np.uint8) for name, g in grey.items()}
    monkeypatch.setattr(binarized_mnist, "GREY_SHA256", {name: files.digest(g) for name, g in grey.items()})
    monkeypatch.setattr(binarized_mnist, "VALID", 4)
    np.savez(tmp_path / "mnist.npz", **grey)
    data = BinarizedMNIST(tmp_path, dynamic=True, **OPTIONS)
    assert [len(all_of(data, name)) for name in SPLITS] == [8, 4, 3]
    assert torch.allclose(data.mean, torch.from_numpy(grey["x_train"][:8]).float().mean(0, keepdim=True) / 255)
    assert not torch.equal(data.batch(0)[0].sum(), data.batch(2)[0].sum())


def epoch(data, number: int) -> torch.Tensor:
    """All training images of an epoch, by their place in the training set."""
    data.batch(number * (len(data.splits["train"][0]) // data.batch_size))
    return data.splits["train"][0].clone()


def test_two_dynamic_epochs_differ_and_two_static_ones_do_not() -> None:
    static, dynamic = (Digits(dynamic=d, **{**OPTIONS, "batch_size": 100}) for d in (False, True))
    assert torch.equal(epoch(static, 0), epoch(static, 1))
    first, second = epoch(dynamic, 0), epoch(dynamic, 1)
    assert 0.05 < (first != second).float().mean() < 0.5
    assert torch.equal(first, epoch(dynamic, 0))
    for split in ("valid", "test"):
        assert torch.equal(all_of(static, split), all_of(dynamic, split))
    # Over many epochs a pixel is on as often as it is dark.
    mean = torch.stack([epoch(dynamic, i).float().mean(0) for i in range(40)]).mean(0)
    assert (mean - dynamic.mean).abs().max() < 0.02


def test_dynamic_bits_depend_on_seed_and_epoch_and_not_on_the_way_there() -> None:
    options = {**OPTIONS, "batch_size": 100}
    one, resumed, other = (Digits(dynamic=True, **{**options, "seed": seed}) for seed in (0, 0, 1))
    for step in range(30):
        one.batch(step)
    all_of(one, "train")  # measuring in between changes nothing either
    assert torch.equal(one.batch(30)[0], resumed.batch(30)[0])
    assert not torch.equal(one.batch(30)[0], other.batch(30)[0])
    assert torch.equal(all_of(one, "train"), all_of(resumed, "train"))


def test_digits_split() -> None:
    data = Digits(**OPTIONS)
    assert {name: len(t[0]) for name, t in data.splits.items()} == {"train": 1297, "valid": 250, "test": 250}
    assert data.input_shape == (1, 8, 8)
    assert set(all_of(data, "test").unique().tolist()) == {0.0, 1.0}
    again = Digits(**{**OPTIONS, "seed": 5})
    assert all(torch.equal(all_of(data, split), all_of(again, split)) for split in SPLITS)


def ink(count: int) -> np.ndarray:
    return (random.rand(count, 105, 105) < 0.2).astype(np.uint8)


def write_zip(path: Path, drawings: np.ndarray) -> None:
    from PIL import Image

    with zipfile.ZipFile(path, "w") as archive:
        for number, drawing in enumerate(drawings):
            with archive.open(f"set/alphabet/character/{number:04}.png", "w") as file:
                Image.fromarray(255 * (1 - drawing)).convert("1").save(file, "PNG")


def test_omniglot_is_the_same_from_the_zip_files_as_from_the_array(tmp_path, monkeypatch) -> None:
    sets = {"x_background": ink(20), "x_evaluation": ink(6)}
    small = {name: downsampled(drawings) for name, drawings in sets.items()}
    ordered = {name: files.digest(binarized_omniglot.in_byte_order(images)) for name, images in small.items()}
    monkeypatch.setattr(binarized_omniglot, "AREA_SHA256", ordered)
    monkeypatch.setattr(binarized_omniglot, "VALID", {"area": 5})
    np.savez(tmp_path / binarized_omniglot.AREA, **{name: images[::-1] for name, images in small.items()})
    from_array = BinarizedOmniglot(tmp_path, **OPTIONS)
    (tmp_path / binarized_omniglot.AREA).unlink()
    for name, file in binarized_omniglot.ZIPS.items():
        write_zip(tmp_path / file, sets[name])
    from_zips = BinarizedOmniglot(tmp_path, **OPTIONS)
    assert [len(all_of(from_array, name)) for name in SPLITS] == [15, 5, 6]
    assert all(torch.equal(all_of(from_array, name), all_of(from_zips, name)) for name in SPLITS)


def test_downsampling_is_an_area_average() -> None:
    drawing = ink(1)
    fine = drawing[0].repeat(4, 0).repeat(4, 1).astype(float)  # [420, 420]: 28 cells of 15 x 15
    exact = fine.reshape(28, 15, 28, 15).mean((1, 3)) * 255
    assert np.array_equal(downsampled(drawing)[0], np.rint(exact).astype(np.uint8))


def test_burda_omniglot(tmp_path, monkeypatch) -> None:
    from scipy.io import savemat

    monkeypatch.setattr(binarized_omniglot, "BURDA_SIZES", {"data": 10, "testdata": 3})
    monkeypatch.setattr(binarized_omniglot, "VALID", {"burda": 4, "area": 5})
    images = (random.rand(13, 28, 28) < 0.3).astype(float)  # certain pixels: sampling does not change them
    columns = images.transpose(0, 2, 1).reshape(13, 784).T
    savemat(tmp_path / "chardata.mat", {"data": columns[:, :10], "testdata": columns[:, 10:]})
    for dynamic in (False, True):
        data = BinarizedOmniglot(tmp_path, variant="burda", dynamic=dynamic, **OPTIONS)
        assert [len(all_of(data, name)) for name in SPLITS] == [6, 4, 3]
        assert np.array_equal(all_of(data, "test")[:, 0].numpy(), images[10:])
    monkeypatch.setattr(binarized_omniglot, "BURDA_SIZES", {"data": 11, "testdata": 3})
    with pytest.raises(ValueError, match="not Burda's file"):
        BinarizedOmniglot(tmp_path, variant="burda", **OPTIONS)


@pytest.mark.skipif(not SHARED.exists(), reason="the real files are not here")
def test_the_real_files_are_the_known_ones() -> None:
    mnist = BinarizedMNIST(SHARED, **OPTIONS)
    assert [len(mnist.splits[name][0]) for name in SPLITS] == [50_000, 10_000, 10_000]
    omniglot = BinarizedOmniglot(SHARED, **OPTIONS)
    assert [len(omniglot.splits[name][0]) for name in SPLITS] == [18_000, 1_280, 13_180]
