"""A code of learned words: train a small VQ autoencoder on digits, and send one of them as a few bytes.

Needs the suite: pip install '.[suite]' in a clone. The run is the one of
    dab-train experiment=representation/fashion_mnist scale=smoke estimator=vector_quantization hard=nearest ...
and its directory, printed here, works with `python -m dab.compress` just as well.
"""

import sys
import tempfile
from pathlib import Path

from dab.compress import HEADER, load_compressor
from dab.data.digits import digits
from dab.engine.compose import resolve
from dab.engine.launch import launch
from dab.engine.run import Run
from dab.train import CONF

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
config = resolve(
    CONF,
    [
        "experiment=representation/fashion_mnist",  # at scale=smoke on scikit-learn's digits, 8 pixels a side
        "scale=smoke",
        "trainer.steps=150",
        "estimator=vector_quantization",
        "hard=nearest",
        "hard.words=32",
        "model.bpp=0.625",
        "logger=none",
        f"paths.runs={folder}",
    ],
)
launch(config)
compressor = load_compressor(Run(config).dir)
digit = digits()[0][3:4]  # [1, 8, 8], 0..255
content = compressor.compress(digit)
restored = compressor.restore(content)
code = f"{len(content) - HEADER.size} bytes of code ({compressor.units} of {compressor.levels} words)"
print(f"{digit.size} bytes of pixels → {code} behind {HEADER.size} of header")
for before, after in zip(digit[0], restored[0], strict=True):
    print("   ".join("".join(2 * " ░▒▓█"[int(pixel) * 5 // 256] for pixel in row) for row in (before, after)))
