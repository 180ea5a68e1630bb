"""`python -m dab.compress RUN_DIR IMAGE OUT.dab`: an image as the discrete code of a finished run, and back.

    python -m dab.compress RUN_DIR image.png out.dab       compress
    python -m dab.compress RUN_DIR out.dab image.png       and back
    python -m dab.compress RUN_DIR FOLDER OUT_FOLDER       every image of a folder, with a contact sheet of originals
                                                           over reconstructions; or every .dab file of a folder, back

A .dab file is a header of 22 bytes and the code as `dab.models.bits` packs it. The header, high bytes first:

    3   the letters dab
    1   version of the format: 1
    6   the run's hash: only the same model can read the code
    4   units of the code
    4   values that a unit can have
    4   CRC-32 of the sha256 of the model's weights, the 18 bytes above and the code

The code is the one of evaluation mode. Where that is drawn (hard.evaluate=sample) the draw is keyed: the same for every
image and every time. Images pass the model one by one, on one thread of the CPU, so that a file depends on its image
alone and not on what else was in the folder. On another machine sums may be rounded otherwise: what is restored there
can differ by a grey level, the code in the file does not.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dab.data.files import Bytes
from dab.data.photos import ENDINGS
from dab.data.picture import MODES, read_picture, write_picture
from dab.engine.exits import input_errors
from dab.engine.grids import draw_grid
from dab.engine.host import use_threads
from dab.hard import out_shape
from dab.keys import key, seed_device
from dab.models.bits import code_of, levels_of, pack, packed_size, symbols_of, unpack
from dab.models.image_nets import bilinear
from dab.predict import load, record
from dab.tasks.representation import RepresentationTask
from dab.tasks.task import Grid

MAGIC, VERSION, ENDING = b"dab", 1, ".dab"
HEADER = struct.Struct(">3sB6sIII")
SHEET, COLUMNS, SHOWN = "contact_sheet.png", 10, 100
THUMBNAIL = 96  # pixels that a side of an image has on the sheet: small ones are enlarged, large ones made smaller


class Compressor:
    """The content of .dab files, made of images [C, H, W] and read by the model of one run.

    run         its hash
    weights     a digest of the model's: a run trained again on another machine has the same hash and other weights
    """

    def __init__(self, task: RepresentationTask, run: str, weights: bytes):
        model = task.model
        if model.input_shape[0] not in MODES:
            raise ValueError(f"images have 1 or 3 channels, those of this run have {model.input_shape[0]}")
        self.task, self.model, self.run, self.weights = task, model, bytes.fromhex(run), weights
        self.shape, self.code_shape = model.input_shape, out_shape(model.hard, model.before_shape)
        self.levels = levels_of(model.hard)
        self.units = math.prod(self.code_shape) // math.prod(getattr(model.hard, "unit_shape", ()))
        self.size = packed_size(self.units, self.levels)

    @property
    def bits(self) -> float:
        return self.units * math.log2(self.levels)

    @torch.inference_mode()
    def compress(self, image: Bytes) -> bytes:
        x = torch.from_numpy(image).unsqueeze(0).float().div_(255)
        with torch.random.fork_rng(devices=[]):
            seed_device(key("compress"), torch.device("cpu"))
            code = self.model.code(x)
        (packed,) = pack(symbols_of(code, self.model.hard), self.levels)
        return self._header(packed) + packed

    @torch.inference_mode()
    def restore(self, content: bytes, name: str = "the file") -> Bytes:
        """name: of the file, for what is wrong with it"""
        self._check(content, name)
        symbols = unpack([content[HEADER.size :]], self.units, self.levels)
        decoded = self.model.decode(code_of(symbols, self.model.hard, self.code_shape))
        return self.task.pixels(decoded)[0].mul(255).round().byte().numpy()

    def _header(self, packed: bytes) -> bytes:
        known = (MAGIC, VERSION, self.run, self.units, self.levels)
        unchecked = HEADER.pack(*known, 0)[:-4]
        return HEADER.pack(*known, zlib.crc32(self.weights + unchecked + packed))

    def _check(self, content: bytes, name: str) -> None:
        if not content.startswith(MAGIC):
            raise ValueError(f"{name} is no {ENDING} file")
        if len(content) < HEADER.size:
            raise ValueError(f"{name} is cut: it has {len(content)} bytes, and the header alone {HEADER.size}")
        _, version, run, *_ = HEADER.unpack(content[: HEADER.size])
        if version != VERSION:
            raise ValueError(f"{name} is of version {version} of the format; this program reads version {VERSION}")
        if run != self.run:
            raise ValueError(
                f"{name} was made by run {run.hex()}, which alone can read it, and this is run {self.run.hex()}"
            )
        if len(content) != HEADER.size + self.size:
            raise ValueError(
                f"{name} has {len(content)} bytes instead of {HEADER.size + self.size}: it is cut, or not it alone"
            )
        if content != self._header(content[HEADER.size :]) + content[HEADER.size :]:
            raise ValueError(f"{name} is damaged, or was made by other weights of this run, trained on another machine")


def load_compressor(run_dir: Path) -> Compressor:
    task, result = load(run_dir), record(run_dir)
    if not isinstance(task, RepresentationTask):
        raise ValueError(
            f"{run_dir} is a run of {type(task).__name__}, which makes no code of an image: give one of "
            "experiment=representation/..."
        )
    with open(run_dir / "model.safetensors", "rb") as file:
        weights = hashlib.file_digest(file, "sha256").digest()
    return Compressor(task.eval(), result["hash"], weights)


class Plan(NamedTuple):
    """What becomes what."""

    files: list[tuple[Path, Path]]
    back: bool  # from .dab files to images
    folder: Path | None = None  # that the results go into, if they are those of a folder


def planned(source: Path, out: Path) -> Plan:
    if source.is_dir():
        return planned_folder(source, out)
    if not source.exists():
        raise FileNotFoundError(f"there is no {source}: give an image, a {ENDING} file, or a folder of either")
    back = source.suffix.lower() == ENDING
    ending = ".png" if back else ENDING
    if out.suffix.lower() != ending:
        raise ValueError(f"{source} becomes a {ending} file, given {out}: call it {out.with_suffix(ending)}")
    return Plan([(source, out)], back)


def planned_folder(source: Path, out: Path) -> Plan:
    """Where there are .dab files they are meant; a contact sheet lies beside them."""
    present = sorted(path for path in source.iterdir() if path.is_file())
    packed = [path for path in present if path.suffix.lower() == ENDING]
    taken = packed or [path for path in present if path.suffix.lower() in ENDINGS]
    if not taken:
        raise ValueError(f"{source} holds no {ENDING} file and no image ({', '.join(ENDINGS)})")
    if source.resolve() == out.resolve():
        raise ValueError(f"{source} cannot take what is made of its own files: give another folder")
    made: dict[Path, Path] = {}
    for path in taken:
        target = out / f"{path.stem}{'.png' if packed else ENDING}"
        if target in made:
            raise ValueError(f"{made[target]} and {path} would both become {target.name}: rename one of them")
        made[target] = path
    return Plan([(path, target) for target, path in made.items()], bool(packed), out)


def carry_out(plan: Plan, compressor: Compressor, resize: bool = False) -> str:
    """Make all files of the plan, and say what was made."""
    if plan.folder is not None:
        plan.folder.mkdir(parents=True, exist_ok=True)
    lines = report(plan, compressor)
    if plan.back:
        for path, target in plan.files:
            write_picture(compressor.restore(path.read_bytes(), str(path)), target)
        return "\n".join(lines)
    pairs: list[tuple[Bytes, Bytes]] = []
    for path, target in plan.files:
        image = read_picture(path, compressor.shape, resize)
        content = compressor.compress(image)
        target.write_bytes(content)
        if plan.folder is not None and len(pairs) < SHOWN:
            pairs.append((image, compressor.restore(content)))
    if plan.folder is not None:
        sheet = draw_sheet(pairs, plan.folder / SHEET)
        lines.append(f"  sheet    {sheet}: {len(pairs):,} of {len(plan.files):,} images")
    return "\n".join(lines)


def report(plan: Plan, compressor: Compressor) -> list[str]:
    """Sizes, the header apart from what is in it."""
    count, size, (source, target) = len(plan.files), compressor.size, plan.files[0]
    bpp = compressor.bits / math.prod(compressor.shape)
    return [
        f"{count:,} files of {source.parent} → {plan.folder}" if plan.folder else f"{source} → {target}",
        f"  code     {compressor.units} units of {compressor.levels} values: {compressor.bits:.10g} bits an image, "
        f"{bpp:.4g} for each pixel of each channel",
        f"  file     {size} bytes of code + {HEADER.size} bytes of header",
        f"  total    {count * size:,} bytes of code + {count * HEADER.size:,} bytes of header",
    ]


def draw_sheet(pairs: list[tuple[Bytes, Bytes]], path: Path) -> Path:
    """Ten originals, their reconstructions below them, and so on."""
    images = torch.stack([torch.stack([torch.from_numpy(image) for image in pair]) for pair in pairs])
    images = thumbnails(images.flatten(0, 1).float() / 255).unflatten(0, (-1, 2))  # [N, 2, 3, H, W]
    columns = min(COLUMNS, len(images))
    missing = images.new_ones(-len(images) % columns, *images.shape[1:])  # paper
    rows = torch.cat([images, missing]).unflatten(0, (-1, columns)).transpose(1, 2)  # [rows, 2, columns, 3, H, W]
    return draw_grid(Grid(rows.flatten(0, 2), columns), path, zoom=max(1, THUMBNAIL // max(images.shape[-2:])))


def thumbnails(images: Tensor) -> Tensor:
    """At most as large as the sheet wants them, and in colour: grey grids are drawn as ink.  [N, C, H, W]"""
    ratio = THUMBNAIL / max(images.shape[-2:])
    if ratio < 1:
        height, width = (max(1, round(ratio * side)) for side in images.shape[-2:])
        images = bilinear(images, (height, width))
    return images.expand(-1, 3, -1, -1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dab.compress", description=__doc__.splitlines()[0])
    parser.add_argument("run_dir", type=Path, help="directory of a finished run of a representation")
    parser.add_argument("source", type=Path, help=f"an image, a {ENDING} file, or a folder of either")
    parser.add_argument("out", type=Path, help=f"OUT{ENDING} of an image, OUT.png of a {ENDING} file, a folder of one")
    parser.add_argument("--resize", action="store_true", help="scale images to the model's size, and cut what is over")
    arguments = parser.parse_args()
    with input_errors():
        plan = planned(arguments.source, arguments.out)
        if plan.back and arguments.resize:
            raise ValueError(f"--resize is for images: what comes out of a {ENDING} file has the size of the model's")
        use_threads("auto")
        print(carry_out(plan, load_compressor(arguments.run_dir), arguments.resize))


if __name__ == "__main__":
    main()
