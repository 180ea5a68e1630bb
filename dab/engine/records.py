"""What a run leaves behind: metrics.jsonl while it runs, result.json when it is done."""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import IO, Any

from dab.engine.checkpoint import replace
from dab.engine.storage import Unusable, told


def read_json(path: Path) -> dict[str, Any] | None:
    """None if it is not there; Unusable if it is not what was written."""
    with told(path):
        try:
            content = json.loads(path.read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, RecursionError) as error:
            raise damaged(path, str(error)) from error
    if not isinstance(content, dict):
        raise damaged(path, f"{type(content).__name__} where an object should be")
    return content


def damaged(path: Path, reason: str) -> Unusable:
    return Unusable(f"{path} is damaged ({reason}): remove it, or start the run over with force=true")


def write_json(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=2, allow_nan=True) + "\n"
    replace(path, lambda temporary: temporary.write_text(text))


class Metrics:
    """Append-only `metrics.jsonl`, one flushed line per row. A row is {"step": int, "train/loss": float, ...}."""

    def __init__(self, path: Path, resume_step: int, keep_evaluation: bool):
        rows = [r for r in read_metrics(path) if _kept(r, resume_step, keep_evaluation)] if resume_step else []
        replace(path, lambda temporary: temporary.write_text("".join(map(_line, rows))))  # never a moment without them
        self.path, self.rows, self._digest = path, len(rows), hashlib.sha256("".join(map(_line, rows)).encode())
        self._file: IO[str] = open(path, "a")  # noqa: SIM115  (lives as long as the run)

    def append(self, row: dict[str, Any]) -> None:
        with told(self.path):
            self._file.write(line := _line(row))
            self._file.flush()
        self.rows += 1
        self._digest.update(line.encode())

    def state(self) -> dict[str, Any]:
        """For a checkpoint: what it counts on."""
        return {"rows": self.rows, "sha256": self._digest.hexdigest()}

    def damage(self, state: dict[str, Any]) -> str | None:
        """What has happened to the rows that a checkpoint counted on."""
        if (lost := state["rows"] - self.rows) > 0:
            return f"{self.path.name} has lost {lost} of {state['rows']} rows"
        return f"{self.path.name} has been altered" if state != self.state() else None

    def sync(self) -> None:
        """Rows that a checkpoint counts on are on the disk before it."""
        with told(self.path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row) + "\n"


def _kept(row: dict[str, Any], step: int, keep_evaluation: bool) -> bool:
    """Rows a resumed run will not write again: those up to its checkpoint."""
    is_evaluation = any(name.startswith("valid/") for name in row)
    return row["step"] < step or (row["step"] == step and (keep_evaluation or not is_evaluation))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All whole rows. A last line torn by a crash is left out; others that cannot be read are told."""
    with told(path):
        lines = path.read_bytes().splitlines() if path.exists() else []
    rows = [_row(line) for line in lines]
    bad = [number for number, row in enumerate(rows, 1) if row is None and number < len(rows)]
    if bad:
        numbers = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
        print(
            f"{path} is damaged: {len(bad)} of {len(rows)} lines cannot be read and are left out ({numbers})",
            flush=True,
        )
    return [row for row in rows if row is not None]


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and isinstance(row.get("step"), int) else None


def better(new: float, old: float | None, larger_is_better: bool) -> bool:
    if math.isnan(new):
        return False
    return old is None or (new > old if larger_is_better else new < old)
