"""Runs the examples that the tutorial quotes, writes into it what they print, and makes the first one a notebook."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TUTORIAL = ROOT / "docs/TUTORIAL.md"
QUOTED = re.compile(r"(<!-- printed by (examples/\w+\.py) -->\n```text\n).*?(```)", re.DOTALL)


def printed(example: str) -> str:
    print(f"running {example}", flush=True)
    done = subprocess.run([sys.executable, example], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def notebook(script: str, output: str) -> dict[str, object]:
    """A script as a notebook: its docstring as text, then a cell for what stands between two empty lines each."""
    _, text, rest = script.split('"""', 2)
    parts = [part.strip("\n") for part in re.split(r"\n\n\n|\n\n(?=torch\.manual_seed)", rest) if part.strip()]
    cells: list[dict[str, object]] = [{"cell_type": "markdown", "id": "text", "metadata": {}, "source": lines(text)}]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        outputs = [{"name": "stdout", "output_type": "stream", "text": lines(output)}] if last else []
        cell = {"cell_type": "code", "id": f"cell-{number}", "metadata": {}, "execution_count": None}
        cells.append({**cell, "source": lines(part), "outputs": outputs})
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def lines(text: str) -> list[str]:
    return text.strip("\n").splitlines(keepends=True)


def main() -> None:
    TUTORIAL.write_text(QUOTED.sub(lambda found: found[1] + printed(found[2]) + found[3], TUTORIAL.read_text()))
    first = ROOT / "examples/sort_layer.py"
    made = notebook(first.read_text(), printed(str(first.relative_to(ROOT))))
    first.with_suffix(".ipynb").write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
