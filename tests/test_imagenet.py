"""Photos in folders: listed, decoded ahead, cached, and never a crash in the third epoch. All files are made here."""

from __future__ import annotations

import gc
import importlib
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dab.data import image_cache, photos
from dab.data.dataset import Labelled
from dab.data.image_cache import ImageCache
from dab.data.imagenet import ImageNet
from dab.engine.build import build_data
from dab.engine.distributed import Workers
from dab.engine.run import Run, run_hash

SIZE = 8
OPTIONS = {"seed": 0, "batch_size": 4, "eval_batch_size": 5, "size": SIZE, "valid_share": 0.2, "decoders": 2}
SPLITS = {"train": 16, "valid": 4, "test": 7}


def photo(seed: int, width: int, height: int) -> Image.Image:
    noise = np.random.RandomState(seed).randint(0, 256, (height, width, 3)).astype(np.uint8)
    return Image.fromarray(noise)


def make_tree(root: Path, classes: tuple[str, ...] = ("cat", "dog"), train: int = 20, val: int = 7) -> Path:
    for split, count in (("train", train), ("val", val)):
        for number in range(count):
            path = root / split / classes[number % len(classes)] / f"{number:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            photo(hash((split == "val", number)) % 1000, 10 + number, 25 - number).save(path)
    return root


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """Not to be written to."""
    return make_tree(tmp_path_factory.mktemp("tree"))


def imagenet(root: Path, **options) -> ImageNet:
    return ImageNet(root, **{**OPTIONS, **options})


def everything(data, split: str) -> list[torch.Tensor]:
    return [torch.cat(parts) for parts in zip(*data.batches(split))]


def same(a: tuple[torch.Tensor, ...], b: tuple[torch.Tensor, ...]) -> bool:
    return len(a) == len(b) and all(map(torch.equal, a, b))


def decoders() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("decode")]


def gone(threads: list[threading.Thread]) -> bool:
    for thread in threads:
        thread.join(5)
    return not any(thread.is_alive() for thread in threads)


def pairs(batch: tuple[torch.Tensor, ...]) -> set[tuple[bytes, int]]:
    return {(x.numpy().tobytes(), int(label)) for x, label in zip(*batch)}


def test_files_and_pixels_are_those_of_torchvision(tmp_path, tree) -> None:
    from dab.data.vision import torchvision

    v2 = importlib.import_module("torchvision.transforms.v2")
    folder = torchvision.datasets.ImageFolder(tree / "train")
    mine = photos.photos_by_class(tree / "train")
    assert list(mine) == folder.classes
    assert [str(tree / "train" / name) for names in mine.values() for name in names] == [p for p, _ in folder.samples]
    for seed, (width, height) in enumerate([(8, 8), (1, 30), (30, 1), (16, 8), (9, 31), (200, 150), (7, 5)]):
        photo(seed, width, height).save(tmp_path / "photo.png")
        for size in (8, 13):
            expected = v2.Compose([v2.Resize(size), v2.CenterCrop(size), v2.PILToTensor()])(photo(seed, width, height))
            found = np.zeros((3, size, size), np.uint8)
            photos.square(tmp_path / "photo.png", found)
            assert (expected.int() - torch.from_numpy(found).int()).abs().max() <= 1


def test_it_is_what_a_task_may_rely_on(tree) -> None:
    data = imagenet(tree)
    assert isinstance(data, Labelled) and data.classes == 2
    assert {name: len(samples.names) for name, samples in data.splits.items()} == SPLITS
    names = [set(samples.names) for samples in data.splits.values()]
    assert len(set.union(*names)) == sum(SPLITS.values())  # no photo in two splits
    for samples in data.splits.values():
        assert [("cat", "dog")[label] for label in samples.labels] == [Path(name).parent.name for name in samples.names]
    x, labels = data.batch(0)
    assert x.shape == (4, *data.input_shape) == (4, 3, SIZE, SIZE) and x.is_contiguous()
    assert x.dtype == torch.float32 and 0 <= x.min() < 0.4 and 0.6 < x.max() <= 1
    assert labels.dtype == torch.int64
    assert torch.allclose(data.mean, everything(data, "train")[0].mean(0), atol=1e-6)


def test_a_batch_is_a_function_of_seed_and_step_alone(tree) -> None:
    """Whatever was asked for before, however many threads read, however far ahead."""
    one, other = imagenet(tree, flip=True, steps=9), imagenet(tree, flip=True, decoders=1, prefetch=0)
    in_order = [one.batch(step) for step in range(12)]
    for step in (7, 7, 0, 11, 3, 4, 5, 2):
        assert same(in_order[step], other.batch(step)) and same(in_order[step], one.batch(step))
    assert not same(in_order[3], imagenet(tree, flip=True, seed=1).batch(3))


@pytest.fixture
def decoded(monkeypatch) -> list[str]:
    """The names of all photos that are decoded."""
    names: list[str] = []
    original = photos.square

    def square(path: Path, into: np.ndarray) -> None:
        names.append(path.name)
        original(path, into)

    monkeypatch.setattr(photos, "square", square)
    return names


def test_nothing_is_decoded_twice_for_one_step(tree, decoded) -> None:
    """The engine may ask for the batch of the next step before that step."""
    data = imagenet(tree, prefetch=1, steps=3)
    for step in (0, 1, 1, 2, 2, 2, 3):
        data.batch(step)
    assert len(decoded) == 4 * data.batch_size


def test_what_nobody_waits_for_is_not_read(tree, decoded, monkeypatch) -> None:
    release, decode = threading.Event(), photos.square

    def square(path: Path, into: np.ndarray) -> None:
        if len(decoded) >= 5:
            release.wait(10)
        decode(path, into)

    monkeypatch.setattr(photos, "square", square)
    batches = imagenet(tree, decoders=1).batches("train")
    next(batches)
    mine = decoders()
    del batches  # an evaluation that is given up
    release.set()
    assert gone(mine) and len(decoded) <= 6


def test_an_epoch_shows_every_photo_once_and_epochs_differ(tree) -> None:
    data = imagenet(tree)
    known = sorted(x.numpy().tobytes() for x in everything(data, "train")[0])
    epochs = [[x.numpy().tobytes() for step in range(4) for x in data.batch(4 * epoch + step)[0]] for epoch in (0, 1)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == known and epochs[0] != epochs[1]


def test_flipped_photos_are_mirrored_in_training_alone(tree) -> None:
    plain, flipped = imagenet(tree), imagenet(tree, flip=True)
    mirrored = 0
    for step in range(8):
        for x, y in zip(plain.batch(step)[0], flipped.batch(step)[0]):
            assert torch.equal(x, y) or torch.equal(x.flip(2), y)
            mirrored += not torch.equal(x, y)
    assert 6 < mirrored < 26
    assert same(everything(plain, "train"), everything(flipped, "train"))


def test_workers_share_the_same_global_batches(tree, config) -> None:
    made = config("data=imagenet", f"data.size={SIZE}", "data.flip=true", f"paths.data={tree}", "trainer.batch_size=6")
    whole, *shares = (build_data(made, Workers(rank, world)) for rank, world in ((0, 1), (0, 2), (1, 2)))
    for step in (0, 5):
        for mine, of_shares in zip(whole.batch(step), zip(*(share.batch(step) for share in shares))):
            assert torch.equal(mine, torch.stack(of_shares, 1).flatten(0, 1))
    for rank, share in enumerate(shares):
        assert same([t[rank::2] for t in everything(whole, "test")], everything(share, "test"))
    assert list(build_data(made, Workers(4, 5)).batches("valid")) == []  # fewer samples than workers


def test_how_data_is_read_does_not_name_a_run(config) -> None:
    plain = config("data=imagenet")
    read_otherwise = config("data=imagenet", "data.cache=somewhere", "data.decoders=9", "data.prefetch=1")
    assert run_hash(plain) == run_hash(read_otherwise) != run_hash(config("data=imagenet", "data.size=64"))
    assert Run(plain).dir == Run(read_otherwise).dir


def test_photos_of_all_kinds_become_colours(tmp_path) -> None:
    red = Image.new("RGB", (20, 12), (255, 0, 0))
    kinds = {
        "cmyk.jpg": red.convert("CMYK"),
        "palette.png": red.convert("P"),
        "transparent.webp": red.convert("RGBA"),
        "UPPER.JPEG": red,
        "deep/er/plain.bmp": red,
        "a png inside.jpg": red,
    }
    for name, image in kinds.items():
        for split in ("train", "val"):
            (path := tmp_path / split / "red" / name).parent.mkdir(parents=True, exist_ok=True)
            image.save(path, "PNG" if name.startswith("a png") else None)
    for split, mode in (("train", "L"), ("train", "1"), ("train", "LA"), ("val", "I;16")):
        (tmp_path / split / "white").mkdir(exist_ok=True)
        white = Image.new(mode, (12, 20), 65535 if mode == "I;16" else (255, 255) if mode == "LA" else 255)
        white.save(tmp_path / split / "white" / f"{mode}.png".replace(";", ""))
    data = imagenet(tmp_path, bad="error")
    for split in ("train", "valid", "test"):
        for x, label in zip(*everything(data, split)):
            colour = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]][label])
            assert (x - colour[:, None, None]).abs().max() < 0.02


BAD = {
    "empty.jpg": lambda whole: b"",
    "text.jpg": lambda whole: b"this is no photo",
    "cut.png": lambda whole: whole[: len(whole) // 2],
    "noise.png": lambda whole: whole[:40] + bytes(range(200)),
    "script.jpg": lambda whole: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
}


@pytest.fixture
def damaged(tmp_path) -> Path:
    root = make_tree(tmp_path / "tree")
    whole = (root / "train/cat/00.png").read_bytes()
    for name, damage in BAD.items():
        for split in ("train", "val"):
            (root / split / "cat" / name).write_bytes(damage(whole))
    return root


def test_unreadable_files_are_listed_once_and_replaced(damaged, tree, capfd) -> None:
    """In training and evaluation: batches stay whole, the same on every worker and in every epoch."""
    known = {pair for split in SPLITS for pair in pairs(everything(imagenet(tree), split))}
    whole, again = imagenet(damaged), imagenet(damaged, decoders=1)
    shares = [imagenet(damaged, rank=rank, world=2) for rank in (0, 1)]
    for step in range(15):
        batch = whole.batch(step)
        assert len(batch[1]) == 4 and same(batch, again.batch(step)) and pairs(batch) <= known
        halves = zip(*(share.batch(step) for share in shares))
        assert same(batch, [torch.stack(half, 1).flatten(0, 1) for half in halves])
    assert len(everything(whole, "test")[1]) == 7 + len(BAD)
    assert all(pairs(everything(whole, split)) <= known for split in SPLITS)
    said = capfd.readouterr().err.splitlines()
    assert [line.split(" be read")[0] for line in said] == ["1 file cannot"] * 4 + ["10 files cannot"]
    listed = (damaged / "unreadable.txt").read_text().splitlines()
    names = [line.split("\t")[0] for line in listed]
    assert sorted(names) == sorted(f"{split}/cat/{name}" for split in ("train", "val") for name in BAD)
    assert any("script.jpg\tUnidentifiedImageError" in line for line in listed)  # Pillow would call Ghostscript for it


def test_an_unreadable_file_can_end_the_run(damaged) -> None:
    data = imagenet(damaged, bad="error")
    with pytest.raises(
        ValueError, match=r"val/cat/\w+\.\w+ cannot be read \(.+\): repair or remove it, or set data.bad"
    ):
        everything(data, "test")
    assert not (damaged / "unreadable.txt").exists()
    with pytest.raises(ValueError, match="bad must be one of skip, error, given 'ignore'"):
        imagenet(damaged, bad="ignore")


def test_a_folder_of_nothing_but_bad_files_is_told(tmp_path) -> None:
    for split in ("train", "val"):
        (tmp_path / split / "cat").mkdir(parents=True)
        for number in range(8):
            (tmp_path / split / "cat" / f"{number}.jpg").write_text("no photo")
    with pytest.raises(ValueError, match="no file can be read: tried 7 in a row"):
        imagenet(tmp_path).batch(0)


def no_images(root: Path) -> None:
    for path in root.rglob("*.png"):
        path.rename(path.with_suffix(".txt"))


def all_in_one_folder(root: Path) -> None:
    for path in (root / "val").rglob("*.png"):
        path.rename(root / "val" / path.name)


def one_photo(root: Path) -> None:
    for split in ("train", "val"):
        for path in sorted((root / split).rglob("*.png"))[1:]:
            path.unlink()


@pytest.mark.parametrize(
    ("spoil", "options", "says"),
    [
        (lambda root: (root / "val").rename(root / "validation"), {}, "looked in .* for folders train and val"),
        (no_images, {}, "train has no images: each class needs a folder"),
        (all_in_one_folder, {}, "val has images, but not in a folder for each class"),
        (lambda root: (root / "val/dog").rename(root / "val/bird"), {}, "val has classes that .*train has not: bird"),
        (one_photo, {}, "the training set has 1 image"),
        (lambda root: None, {"size": 0}, "size must be a whole number in .* given 0"),
        (lambda root: None, {"decoders": 0}, "decoders must be a whole number in"),
        (lambda root: None, {"prefetch": -1}, "prefetch must be a whole number in"),
        (lambda root: None, {"batch_size": 17}, "16 samples, fewer than one batch of 17"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(spoil, options, says: str, tmp_path) -> None:
    spoil(make_tree(tmp_path))
    with pytest.raises((ValueError, FileNotFoundError), match=says) as error:
        imagenet(tmp_path, **options).batch(0)
    assert "\n" not in str(error.value)


def test_one_class_is_enough_and_told(tmp_path, capfd) -> None:
    data = imagenet(make_tree(tmp_path / "imagenet", classes=("cat",)).parent)  # found in its subfolder too
    assert data.classes == 1 and data.batch(0)[1].tolist() == [0] * 4
    assert "one class only (cat)" in capfd.readouterr().err


def test_the_cache_gives_the_same_pictures_and_decodes_each_once(tree, tmp_path, decoded) -> None:
    plain = [imagenet(tree).batch(step) for step in range(6)]
    decoded.clear()
    for _ in range(2):
        cached = imagenet(tree, cache=str(tmp_path / "cache"))
        assert all(same(plain[step], cached.batch(step)) for step in range(6))
        cached.mean  # noqa: B018
    assert sorted(decoded) == sorted(Path(name).name for name in cached.splits["train"].names)
    other_size = imagenet(tree, cache=str(tmp_path / "cache"), size=5)
    assert same(other_size.batch(0), imagenet(tree, size=5).batch(0))


def test_the_cache_notices_what_changed_or_is_not_whole(tmp_path, decoded) -> None:
    root, cache = make_tree(tmp_path), tmp_path / "cache"
    first = everything(imagenet(root, cache=str(cache)), "test")
    pictures = sorted((cache / str(SIZE) / "val").rglob("*.rgb"))
    assert len(pictures) == 7
    pictures[0].write_bytes(pictures[0].read_bytes()[:-1])  # as after a crash of the machine
    pictures[1].write_bytes(b"")
    pictures[2].write_bytes(pictures[2].read_bytes() + b"x")
    decoded.clear()
    assert same(everything(imagenet(root, cache=str(cache)), "test"), first) and len(decoded) == 3
    changed = root / "val/cat/00.png"
    photo(77, 20, 20).save(changed)
    os.utime(changed, ns=(0, 12345))
    second = everything(imagenet(root, cache=str(cache)), "test")
    assert not torch.equal(second[0][0], first[0][0]) and torch.equal(second[0][1:], first[0][1:])
    assert same(second, everything(imagenet(root), "test"))


def test_what_a_dead_process_left_unfinished_is_swept(tmp_path, monkeypatch) -> None:
    unfinished = tmp_path / str(SIZE) / "unfinished"
    unfinished.mkdir(parents=True)
    for name, age in (("old", 2 * image_cache.LEFT_OVER), ("young", 10)):
        (unfinished / name).touch()
        os.utime(unfinished / name, (time.time() - age, time.time() - age))
    ImageCache(tmp_path, SIZE)
    assert [path.name for path in unfinished.iterdir()] == ["young"]


def test_a_cache_that_cannot_be_written_costs_time_only(tree, tmp_path, capfd) -> None:
    (tmp_path / "cache").touch()  # a file where the folder should be
    data = imagenet(tree, cache=str(tmp_path / "cache"))
    assert same(data.batch(0), imagenet(tree).batch(0)) and same(data.batch(1), imagenet(tree).batch(1))
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1 and "no more pictures are kept" in said[0]


def test_threads_end_with_the_dataset(damaged) -> None:
    """At once, also when an evaluation was given up half-way; after an error when its traceback is gone."""
    before = set(decoders())
    data = imagenet(damaged, steps=1000)
    data.batch(3)
    next(data.batches("train"))
    mine = [thread for thread in decoders() if thread not in before]
    assert mine
    del data
    assert gone(mine)
    with pytest.raises(ValueError, match="cannot be read"):
        everything(imagenet(damaged, bad="error"), "test")
    gc.collect()
    assert gone([thread for thread in decoders() if thread not in before])
