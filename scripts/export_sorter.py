"""A trained dense sorter as JSON, for the page that sorts what is typed into it.

python train.py 'model.widths=[32,32,64]'
python scripts/export_sorter.py runs/sorting/<name>/<hash>
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from dab.engine.config import ConfigError
from dab.hard import Signum
from dab.models.dense_sorter import DenseSorter
from dab.predict import load, record

OUT = Path(__file__).resolve().parents[1] / "results" / "sorter" / "five.json"
DIGITS = 6  # of every weight: more than the sorting needs


def exported(run_dir: Path) -> dict[str, Any]:
    """All that a forward pass needs, and what the run says of itself."""
    model, result = load(run_dir).model, record(run_dir)
    hard = getattr(model.estimator, "hard", None) if isinstance(model, DenseSorter) else None
    between = [layer for layer in model.encoder if not isinstance(layer, nn.Linear)] if hard else []
    if not isinstance(hard, Signum) or not all(isinstance(layer, nn.Tanh) for layer in between):
        raise ValueError(f"{run_dir} holds no dense sorter with Tanh layers and a signum: the page knows only these")
    widths = [str(layer.out_features) for layer in _linear(model.encoder)]
    provenance = result["provenance"].get("end", result["provenance"])
    return {
        "command": f"python train.py 'model.widths=[{','.join(widths)}]'",
        "commit": provenance["commit"],
        "accuracy": result["metrics"]["test/all_or_none"],
        "steps": result["steps"],
        "samples": result["samples"],
        "seconds": round(result.get("cpu_seconds", result["train_seconds"])),
        "length": model.length,
        "shift": model.shift,
        "scale": model.scale,
        "eps": hard.eps,
        "layers": [_weights(layer) for layer in _linear(model.encoder)],
        "read_out": _weights(model.read_out),
    }


def _linear(layers: nn.Sequential) -> list[nn.Linear]:
    return [layer for layer in layers if isinstance(layer, nn.Linear)]


def _weights(layer: nn.Linear) -> dict[str, Any]:
    """weight [out, in] and bias [out]"""
    return {"weight": [_rounded(row) for row in layer.weight], "bias": _rounded(layer.bias)}


def _rounded(values: Tensor) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values.tolist()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run_dir", type=Path, help="a finished run of a dense sorter")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    try:
        content = exported(arguments.run_dir)
    except (ConfigError, FileNotFoundError, ValueError) as error:
        sys.exit(str(error))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(content, separators=(",", ":")) + "\n")
    print(f"wrote {arguments.out} ({arguments.out.stat().st_size / 1000:.0f} kB)")


if __name__ == "__main__":
    main()
