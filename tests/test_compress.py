"""Real bits: codes as bytes, files of one image or of a folder, and back to the very image the model makes of it."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import composed
from PIL import Image
from torch import nn

from dab.compress import HEADER, load_compressor, main
from dab.data.picture import read_picture
from dab.engine.exits import BAD_CONFIG
from dab.engine.launch import launch
from dab.engine.run import Run
from dab.hard import Bernoulli, Binary, Categorical, Nearest, Signum, Sort1d, Threshold
from dab.metrics.codes import code_statistics
from dab.models.bits import code_of, levels_of, pack, packed_size, symbols_of, unpack
from dab.predict import load

SMALL = ["experiment=representation/fashion_mnist", "trainer.steps=2", "task.probes=false", "model.bpp=0.5"]
SIDE = 8


@pytest.mark.parametrize("levels", [2, 3, 5, 8, 1000])
@pytest.mark.parametrize("units", [1, 7, 8, 39, 40, 63, 64, 78, 484])
def test_codes_take_their_bits_rounded_up_to_bytes_and_come_back(levels: int, units: int) -> None:
    symbols = torch.randint(levels, (20, units), generator=torch.Generator().manual_seed(units))
    symbols[0], symbols[1] = 0, levels - 1  # the smallest number there is, and the largest
    packed = pack(symbols, levels)
    assert {len(content) for content in packed} == {math.ceil(units * math.log2(levels) / 8 - 1e-9)}
    assert torch.equal(unpack(packed, units, levels), symbols)
    assert int.from_bytes(packed[2], "big") == sum(int(s) * levels**i for i, s in enumerate(symbols[2].flip(0)))


def test_bytes_that_are_no_code_are_refused() -> None:
    for content in (b"\xff" * packed_size(5, 3), b"", b"\0" * 4):
        with pytest.raises(ValueError, match="no code of 5 units with 3 values"):
            unpack([content], 5, 3)


@pytest.mark.parametrize(
    "hard",
    [
        Signum(),
        Binary(),
        Bernoulli(),
        Bernoulli("threshold"),
        Threshold(),
        Categorical(8),
        Categorical(3, "mode"),
        Nearest(words=5, dim=3),
    ],
    ids=str,
)
def test_symbols_tell_all_of_a_code(hard: nn.Module) -> None:
    z = 2 * torch.randn(50, 6, *getattr(hard, "unit_shape", ()), generator=torch.Generator().manual_seed(0))
    code = hard.eval()(z)
    symbols = symbols_of(code, hard)
    assert symbols.shape == (50, 6) and symbols.unique().tolist() == list(range(levels_of(hard)))
    assert torch.equal(code_of(symbols, hard, code.shape[1:]), code)
    assert math.log2(levels_of(hard)) == pytest.approx(hard.bits_per_unit)
    with pytest.raises(ValueError, match="has no value for: has the model diverged"):
        symbols_of(hard(z * math.nan), hard)


def test_a_function_that_does_not_tell_its_values_has_no_symbols() -> None:
    with pytest.raises(ValueError, match="Sort1d does not tell its values"):
        levels_of(Sort1d())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """runs("hard=signum", ...) is the directory of that small finished run on digits."""
    folder, made = tmp_path_factory.mktemp("runs"), {}

    def run(*options: str) -> Path:
        if options not in made:
            config = composed(folder, *SMALL, *options)
            assert launch(config) == 0
            made[options] = Run(config).dir
        return made[options]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dab.engine.finish.draw_curves", lambda rows, select, path: path)
        yield run


@pytest.fixture
def compress(monkeypatch, capsys) -> Callable[..., str]:
    """What the command prints, or the line it ends with."""

    def call(*words: str | Path) -> str:
        monkeypatch.setattr(sys, "argv", ["dab.compress", *map(str, words)])
        capsys.readouterr()
        try:
            main()
        except SystemExit as error:
            line = capsys.readouterr().err.strip()
            assert error.code == BAD_CONFIG and "\n" not in line
            return line
        return capsys.readouterr().out

    return call


def draw_images(folder: Path, count: int, side: int = SIDE) -> Path:
    folder.mkdir()
    draws = np.random.RandomState(0)
    for number in range(count):
        Image.fromarray(draws.randint(0, 256, (side, side)).astype(np.uint8)).save(folder / f"{number:02}.png")
    return folder


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path))


CATEGORICAL = ("hard=categorical", "hard.classes=5", "hard.evaluate=mode", "estimator=straight_through")
FLOOR = ("model=linear_code", "model.kind=downsampled", "hard=threshold", "estimator=straight_through")


@pytest.mark.parametrize(
    ("options", "units", "levels"),
    [(("hard=binary",), 32, 2), (("hard=signum",), 20, 3), (CATEGORICAL, 13, 5), (("hard=bernoulli",), 32, 2)],
    ids=["binary", "signum", "5 classes", "drawn"],
)
def test_a_folder_comes_back_as_the_model_itself_reconstructs_it(options, units, levels, runs, compress, tmp_path):
    run, images = runs(*options), draw_images(tmp_path / "images", 13)
    printed = compress(run, images, tmp_path / "packed")
    size = math.ceil(units * math.log2(levels) / 8)
    assert f"{units} units of {levels} values: {units * math.log2(levels):.10g} bits" in printed
    assert f"{13 * size} bytes of code + {13 * HEADER.size} bytes of header" in printed
    packed = sorted((tmp_path / "packed").glob("*.dab"))
    assert len(packed) == 13 and {path.stat().st_size for path in packed} == {HEADER.size + size}
    compress(run, tmp_path / "packed", tmp_path / "back")  # the contact sheet beside the files is no matter

    task = load(run)
    for path in sorted(images.iterdir()):
        x = torch.from_numpy(pixels(path).copy()).view(1, 1, SIDE, SIDE) / 255
        found = pixels(tmp_path / "back" / path.name)
        code = unpack([(tmp_path / "packed" / f"{path.stem}.dab").read_bytes()[HEADER.size :]], units, levels)
        if "hard=bernoulli" not in options:  # whose next draw is another one
            assert torch.equal(code, symbols_of(task.model.code(x), task.model.hard))
        shape = task.model.code(x).shape[1:]
        with torch.no_grad():
            expected = task.pixels(task.model.decode(code_of(code, task.model.hard, shape)))
        assert np.array_equal(found, expected[0, 0].mul(255).round().byte().numpy())

    sheet = Image.open(tmp_path / "packed" / "contact_sheet.png")
    zoom = sheet.width // (10 * (SIDE + 2))
    assert sheet.size == (10 * (SIDE + 2) * zoom, 4 * (SIDE + 2) * zoom)  # ten over ten, three over three
    cells = np.asarray(sheet)[::zoom, ::zoom, 0].reshape(4, SIDE + 2, 10, SIDE + 2)[:, 1:-1, :, 1:-1]
    assert np.array_equal(cells[0, :, 4], pixels(images / "04.png"))
    assert np.array_equal(cells[3, :, 2], pixels(tmp_path / "back" / "12.png"))
    assert (cells[2:, :, 3:] == 255).all()


def test_one_image_gives_one_file_whatever_came_before_it(runs, compress, tmp_path) -> None:
    run, images = runs("hard=bernoulli"), draw_images(tmp_path / "images", 3)
    compress(run, images, tmp_path / "packed")
    printed = compress(run, images / "02.png", tmp_path / "one.dab")
    assert "4 bytes of code + 22 bytes of header" in printed and "sheet" not in printed
    assert (tmp_path / "one.dab").read_bytes() == (tmp_path / "packed" / "02.dab").read_bytes()  # though it is drawn
    compress(run, tmp_path / "one.dab", tmp_path / "one.png")
    compress(run, tmp_path / "packed", tmp_path / "back")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "back" / "02.png").read_bytes()


def test_the_bits_are_those_that_a_record_states(runs) -> None:
    run = runs("model.bpp=0.3", *FLOOR)  # 4x4 pixels, where 19 bits would fit
    compressor, image = load_compressor(run), torch.rand(2, 1, SIDE, SIDE)
    stated = code_statistics(compressor.model.code(image), compressor.model.hard.bits_per_unit)
    assert compressor.bits == stated["nominal_bits"] == 16 and compressor.size == 2


MODES = {"1": 0, "L": 0, "LA": 0, "P": 1, "RGB": 0, "RGBA": 0, "CMYK": 3, "I;16": 0}  # grey levels that are lost


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_any_kind_become_what_the_model_takes(mode: str, channels: int, tmp_path: Path) -> None:
    levels = np.tile(np.array([0, 255, 0, 255] if mode == "1" else [0, 60, 200, 255], np.uint8), (3, 1))
    image, path = Image.fromarray(levels), tmp_path / ("x.jpg" if mode == "CMYK" else "x.png")
    if mode == "I;16":
        Image.fromarray(levels.astype(np.uint16) * 257).save(path)
    else:
        (image.convert("RGB") if mode == "CMYK" else image).convert(mode).save(path, quality=100)
    found = read_picture(path, (channels, 3, 4)).astype(int)
    assert found.shape == (channels, 3, 4) and abs(found - levels).max() <= MODES[mode]


def test_an_image_of_another_size_is_refused_or_scaled(runs, compress, tmp_path) -> None:
    run, out = runs("hard=binary"), tmp_path / "out.dab"
    wide = np.zeros((20, 40), np.uint8)
    wide[:, 10:30] = 200  # what is left of it when both ends are cut off
    Image.fromarray(wide).save(tmp_path / "wide.png")
    line = compress(run, tmp_path / "wide.png", out)
    assert "wide.png has 40x20 pixels where 8x8 are needed" in line and "--resize" in line and not out.exists()
    compress(run, tmp_path / "wide.png", out, "--resize")
    assert out.stat().st_size == HEADER.size + 4
    scaled = read_picture(tmp_path / "wide.png", (1, SIDE, SIDE), resize=True)
    assert (scaled[..., 1:-1] == 200).all() and scaled.min() > 160  # the edge is blurred
    assert "--resize is for images" in compress(run, out, tmp_path / "x.png", "--resize")


def test_a_file_that_is_not_the_one_gets_one_line(runs, compress, tmp_path) -> None:
    run, images = runs("hard=binary"), draw_images(tmp_path / "images", 1)
    good, bad = tmp_path / "good.dab", tmp_path / "bad.dab"
    compress(run, images / "00.png", good)
    content = good.read_bytes()

    def line(changed: bytes) -> str:
        bad.write_bytes(changed)
        return compress(run, bad, tmp_path / "x.png")

    assert line((images / "00.png").read_bytes()) == f"{bad} is no .dab file"
    assert line(b"") == f"{bad} is no .dab file"
    assert "is cut: it has 10 bytes, and the header alone 22" in line(content[:10])
    assert "has 25 bytes instead of 26" in line(content[:-1]) and "has 27 bytes instead of 26" in line(content + b"0")
    assert "version 2 of the format; this program reads version 1" in line(content[:3] + b"\2" + content[4:])
    for place in range(10, len(content)):  # any bit of the sizes, of the checksum and of the code
        assert "is damaged" in line(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
    assert not (tmp_path / "x.png").exists()
    other = runs("hard=signum")
    assert f"was made by run {run.name}, which alone can read it, and this is run {other.name}" in compress(
        other, good, tmp_path / "x.png"
    )
    again = shutil.copytree(run, tmp_path / "again")  # the same run, trained where sums are rounded otherwise
    weights = bytearray((again / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (again / "model.safetensors").write_bytes(weights)
    assert "has changed since the run ended" in compress(again, good, tmp_path / "x.png")
    result = json.loads((again / "result.json").read_text())
    result.pop("weights")  # its own record would have its own
    (again / "result.json").write_text(json.dumps(result))
    assert "other weights of this run" in compress(again, good, tmp_path / "x.png")


def test_what_cannot_be_compressed_gets_one_line(runs, compress, config, no_curves, tmp_path) -> None:
    run, images = runs("hard=binary"), draw_images(tmp_path / "images", 2)
    image, out = images / "00.png", tmp_path / "out.dab"
    assert compress(run, tmp_path / "none.png", out).startswith(f"there is no {tmp_path}/none.png")
    assert "becomes a .dab file" in compress(run, image, images / "01.png")
    (images / "text.png").write_text("no image at all")
    assert "text.png is no image; what can be read: JPEG, PNG" in compress(run, images / "text.png", out)
    (images / "text.png").write_bytes(image.read_bytes()[:-30])
    assert "text.png cannot be read (" in compress(run, images / "text.png", out)
    (images / "text.png").rename(images / "00.jpg")
    assert "would both become 00.dab" in compress(run, images, tmp_path / "packed")
    assert "cannot take what is made of its own files" in compress(run, tmp_path / "images", tmp_path / "images")
    (tmp_path / "empty").mkdir()
    assert "holds no .dab file and no image" in compress(run, tmp_path / "empty", tmp_path / "packed")
    assert "give the directory of a finished run" in compress(tmp_path / "empty", image, out)
    for content in ('{"config": ', '["config"]'):
        (tmp_path / "empty" / "result.json").write_text(content)
        assert "result.json is damaged" in compress(tmp_path / "empty", image, out)
    for content, lacks in (
        ("{}", "it lacks config, hash, input_shape"),
        ('{"config": {"seed": 0}, "hash": "00", "input_shape": []}', "its config has no trainer"),
    ):
        (tmp_path / "empty" / "result.json").write_text(content)
        assert f"is no record of a run: {lacks}" in compress(tmp_path / "empty", image, out)
    assert launch(made := config("data.valid_size=500", "data.test_size=500", "trainer.steps=2")) == 0
    assert "is a run of SortingTask, which makes no code" in compress(Run(made).dir, image, out)
    assert not out.exists()
