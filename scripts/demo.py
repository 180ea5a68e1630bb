"""A tour of a minute on the terminal: a hard network before and after it learns to sort, and a digit as five bytes.

python scripts/demo.py      trains in a temporary folder, writes nothing else, opens nothing
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from dab.compress import HEADER, load_compressor
from dab.data.digits import digits
from dab.engine.build import build_task
from dab.engine.compose import resolve
from dab.engine.host import use_threads
from dab.engine.launch import launch
from dab.engine.run import Run
from dab.predict import load
from dab.strip import strip
from dab.tasks.task import Task
from dab.train import CONF

NUMBERS = ("0.3 0.9 0.1 0.5 0.7", "0.62 0.58 0.03 0.99 0.41", "0.2 0.8 0.4 0.6 0")
SORTER = ["trainer.steps=1200", "trainer.batch_size=256", "data.test_size=5000"]
CODE = ["experiment=representation/fashion_mnist", "scale=smoke", "trainer.steps=300", "estimator=vector_quantization"]
CODE += ["hard=nearest", "hard.words=32", "model.bpp=0.625"]
INK = " ░▒▓█"


def main() -> None:
    began = time.monotonic()
    use_threads("auto")
    with tempfile.TemporaryDirectory() as folder:
        sort(Path(folder))
        compress(Path(folder))
    print(f"\nThat took {time.monotonic() - began:.0f} s. Next: make train, make help, examples/, docs/TUTORIAL.md;")
    print("dab-advise my_module:my_function --shape 64 says which gradient to take for a function of yours.")


def trained(title: str, folder: Path, words: list[str]) -> Run:
    config = resolve(CONF, [*words, "logger=none", f"paths.runs={folder}"])
    trainer = config["trainer"]
    print(f"   training {title}: {trainer['steps']:,} steps of {trainer['batch_size']} ...", flush=True)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = launch(config)
    if code:
        sys.exit(printed.getvalue())
    return Run(config)


def sort(folder: Path) -> None:
    print("1. A network with a hard signum inside, every unit -1, 0 or 1, learns to sort five numbers.")
    config = resolve(CONF, [*SORTER, f"paths.runs={folder}"])
    show("before", strip(build_task(config, (5,))))
    run = trained("through a bridge", folder, SORTER)
    show("after", load(run.dir))
    share = run.result["metrics"]["test/all_or_none"]
    print(f"   {100 * share:.1f} % of new sequences are right in every place, and no approximator is left.")


@torch.no_grad()
def show(when: str, task: Task) -> None:
    for numbers in NUMBERS:
        chosen, verdict = task.predict(numbers.split()).splitlines()
        print(f"   {when:6}  {numbers:25} → {chosen:25} {'right' if 'right' in verdict else 'wrong'}")


def compress(folder: Path) -> None:
    print("\n2. A digit through a code of learned words, as a file and back.")
    run = trained("an autoencoder with a codebook of 32 words", folder, CODE)
    compressor, (digit,) = load_compressor(run.dir), digits()[0][3:4]
    content = compressor.compress(digit[None])
    (restored,) = compressor.restore(content)
    size = len(content) - HEADER.size
    print(f"   {digit.size} bytes → {size} bytes of code (and {HEADER.size} of header); as it was, and as it is back:")
    for line in zip(drawn(digit), drawn(restored)):
        print("      " + "   ".join(line))


def drawn(image: np.ndarray) -> list[str]:
    """[H, W], 0..255"""
    return ["".join(2 * INK[int(pixel) * len(INK) // 256] for pixel in row) for row in image]


if __name__ == "__main__":
    main()
