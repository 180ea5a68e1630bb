"""FashionMNIST and CIFAR10 from any of the files they come in. Files are made here in the real formats."""

from __future__ import annotations

import gzip
import os
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from dab.data import cifar10, fashion_mnist, files
from dab.data.cifar10 import CIFAR10
from dab.data.dataset import Labelled
from dab.data.fashion_mnist import FashionMNIST
from dab.data.images import permuted

OPTIONS = {"seed": 0, "batch_size": 4, "eval_batch_size": 5}
ROOT = Path(__file__).resolve().parents[1]
random = np.random.RandomState(0)


def pixels(*shape: int) -> np.ndarray:
    return random.randint(0, 256, shape).astype(np.uint8)


def labels(count: int) -> np.ndarray:
    return random.randint(0, 10, count).astype(np.uint8)


CLOTHES = dict(zip(fashion_mnist.SHA256, (pixels(12, 28, 28), labels(12), pixels(5, 28, 28), labels(5))))
THINGS = dict(zip(cifar10.SHA256, (pixels(10, 32, 32, 3), labels(10), pixels(3, 32, 32, 3), labels(3))))


@pytest.fixture
def known(monkeypatch) -> None:
    """The values of this file are the known ones, no host answers, and Debian has nothing."""
    for module, arrays in ((fashion_mnist, CLOTHES), (cifar10, THINGS)):
        monkeypatch.setattr(module, "SHA256", {name: files.digest(array) for name, array in arrays.items()})
        monkeypatch.setattr(module, "VALID", 3)
        monkeypatch.setattr(module, "URL", "file:///nowhere/")
    monkeypatch.setattr(fashion_mnist, "DEBIAN", Path("/nowhere"))


def write_idx(folder: Path, ending: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in CLOTHES.items():
        raw = struct.pack(f">HBB{array.ndim}i", 0, 8, array.ndim, *array.shape) + array.tobytes()
        (folder / f"{name}{ending}").write_bytes(gzip.compress(raw) if ending else raw)


def check_splits(data, x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray) -> None:
    """Every image of both sets once, with its own label; images as [N, C, H, W]."""
    assert isinstance(data, Labelled) and data.classes == 10
    assert [len(data.splits[name][0]) for name in ("train", "valid", "test")] == [len(x) - 3, 3, len(x_test)]
    assert all(t.dtype == dtype for s in data.splits.values() for t, dtype in zip(s, (torch.uint8, torch.int64)))
    assert torch.equal(data.splits["test"][0], torch.from_numpy(x_test))
    assert data.splits["test"][1].tolist() == y_test.tolist()
    seen = [(i.numpy().tobytes(), int(n)) for name in ("train", "valid") for i, n in zip(*data.splits[name])]
    assert sorted(seen) == sorted((i.tobytes(), int(n)) for i, n in zip(x, y))
    assert data.batch(0)[0].shape[1:] == x.shape[1:] == data.mean.shape


@pytest.mark.parametrize("place", ["FashionMNIST/raw", "", "debian"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_fashion_mnist_is_found_in_all_its_places(place: str, ending: str, tmp_path, known, monkeypatch) -> None:
    monkeypatch.setattr(fashion_mnist, "DEBIAN", tmp_path / "debian")
    write_idx(tmp_path / place, ending)
    x, y, x_test, y_test = CLOTHES.values()
    check_splits(FashionMNIST(tmp_path, **OPTIONS), x[:, None], y, x_test[:, None], y_test)


def test_missing_fashion_mnist_is_fetched_to_where_torchvision_looks(tmp_path, known, monkeypatch) -> None:
    write_idx(tmp_path / "host", ".gz")
    monkeypatch.setattr(fashion_mnist, "URL", f"{(tmp_path / 'host').as_uri()}/")
    FashionMNIST(tmp_path / "new", **OPTIONS)
    assert {p.name for p in (tmp_path / "new/FashionMNIST/raw").iterdir()} == {f"{name}.gz" for name in CLOTHES}


@pytest.mark.parametrize(
    ("dataset", "alternatives"),
    [
        (FashionMNIST, ["train-images-idx3-ubyte.gz", "FashionMNIST/raw", "apt-get install dataset-fashion-mnist"]),
        (CIFAR10, ["cifar10.npz, cifar-10-batches-py or cifar-10-python.tar.gz"]),
    ],
)
def test_missing_files_are_told_in_one_line_with_the_alternatives(dataset, alternatives, tmp_path, known) -> None:
    with pytest.raises(FileNotFoundError) as error:
        dataset(tmp_path / "empty", **OPTIONS)
    for part in (*alternatives, str(tmp_path / "empty"), "paths.data"):
        assert part in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda raw: raw[:-50], "train-labels-idx1-ubyte.gz cannot be read .* get it again"),
        (lambda raw: b"<html>404</html>", "train-labels-idx1-ubyte.gz cannot be read .* get it again"),
        (lambda raw: gzip.compress(b"\0\0\x0d\x01"), "it is no idx file of bytes"),
        (lambda raw: gzip.compress(gzip.decompress(raw)[:-1] + b"\x0b"), "not hold the known data .* get it again"),
    ],
)
def test_damaged_fashion_mnist_is_refused(damage, says: str, tmp_path, known) -> None:
    write_idx(tmp_path, ".gz")
    path = tmp_path / "train-labels-idx1-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=says):
        FashionMNIST(tmp_path, **OPTIONS)


def official_pickle(x: np.ndarray, y: np.ndarray) -> bytes:
    """As Python 2 and its numpy wrote the official files, opcode by opcode.  x: [N, 32, 32, 3]"""

    def string(text: bytes) -> bytes:
        return b"U" + bytes([len(text)]) + text

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    values = x.transpose(0, 3, 1, 2).tobytes()
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + string(b"b") + b"\x87R"
    dtype = b"cnumpy\ndtype\n" + string(b"u1") + b"K\x00K\x01\x87R(K\x03" + string(b"|") + b"NNN"
    dtype += number(-1) + number(-1) + b"K\x00tb"
    array = empty + b"(K\x01" + number(len(x)) + number(3072) + b"\x86" + dtype + b"\x89T"
    array += struct.pack("<i", len(values)) + values + b"tb"
    of_images = b"](" + b"".join(number(int(n)) for n in y) + b"e"
    return b"\x80\x02}(" + string(b"labels") + of_images + string(b"data") + array + b"u."


def write_pickles(folder: Path) -> None:
    place = folder / cifar10.PICKLES
    place.mkdir()
    for number, name in enumerate(cifar10.TRAIN):
        part = slice(2 * number, 2 * number + 2)
        (place / name).write_bytes(official_pickle(THINGS["x_train"][part], THINGS["y_train"][part]))
    (place / "test_batch").write_bytes(official_pickle(THINGS["x_test"], THINGS["y_test"]))


def write_tar(folder: Path) -> None:
    write_pickles(folder)
    with tarfile.open(folder / cifar10.TAR, "w:gz") as tar:
        for path in sorted((folder / cifar10.PICKLES).iterdir(), reverse=True):
            tar.add(path, f"{cifar10.PICKLES}/{path.name}")
            path.unlink()
    (folder / cifar10.PICKLES).rmdir()


def write_npz(folder: Path) -> None:
    np.savez(folder / cifar10.NPZ, **THINGS)


@pytest.mark.parametrize("write", [write_npz, write_pickles, write_tar])
def test_cifar10_is_the_same_from_all_its_files(write, tmp_path, known) -> None:
    write(tmp_path)
    x, y, x_test, y_test = THINGS.values()
    data = CIFAR10(tmp_path, crop=4, flip=True, **OPTIONS)
    check_splits(data, x.transpose(0, 3, 1, 2), y, x_test.transpose(0, 3, 1, 2), y_test)


class Opens:
    """Pickled, it is a call of `os.mkdir`."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_can_call_nothing(tmp_path, known) -> None:
    write_pickles(tmp_path)
    harmful = pickle.dumps({"data": Opens(tmp_path / "called")}, protocol=2)
    (tmp_path / cifar10.PICKLES / "data_batch_1").write_bytes(harmful)
    with pytest.raises(ValueError, match=r"cifar-10-batches-py cannot be read .*mkdir"):
        CIFAR10(tmp_path, **OPTIONS)
    assert not (tmp_path / "called").exists()


def test_damaged_cifar10_is_refused(tmp_path, known) -> None:
    write_pickles(tmp_path)
    (tmp_path / cifar10.PICKLES / "data_batch_3").unlink()
    with pytest.raises(ValueError, match=r"cannot be read .*data_batch_3.* get it again"):
        CIFAR10(tmp_path, **OPTIONS)
    np.savez(tmp_path / cifar10.NPZ, **{**THINGS, "y_test": THINGS["y_test"][::-1]})
    with pytest.raises(ValueError, match=r"y_test in .*cifar10.npz does not hold the known data"):
        CIFAR10(tmp_path, **OPTIONS)


def test_the_validation_sets_are_the_same_for_ever() -> None:
    assert permuted(np.arange(60_000), "fashion_mnist")[-4:].tolist() == [29984, 33235, 24378, 32302]
    assert permuted(np.arange(50_000), "cifar10")[-4:].tolist() == [40548, 30725, 9297, 30930]


@pytest.mark.skipif(not fashion_mnist.DEBIAN.exists(), reason="Debian's dataset-fashion-mnist is not installed")
def test_the_real_fashion_mnist_is_the_known_one(tmp_path) -> None:
    data = FashionMNIST(tmp_path, **OPTIONS)
    assert [len(data.splits[name][0]) for name in ("train", "valid", "test")] == [55_000, 5_000, 10_000]
    assert data.splits["test"][1].bincount().tolist() == [1000] * 10


@pytest.mark.skipif(not (ROOT / "data" / cifar10.NPZ).exists(), reason="CIFAR10 is not here")
def test_the_real_cifar10_is_the_known_one() -> None:
    data = CIFAR10(ROOT / "data", **OPTIONS)
    assert [len(data.splits[name][0]) for name in ("train", "valid", "test")] == [45_000, 5_000, 10_000]
    assert data.splits["test"][1].bincount().tolist() == [1000] * 10
