"""What a person sees while a run goes on: a bar on a terminal, plain lines in a log file."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

QUIET_SECONDS = 5.0


class Lines:
    """At most one line every few seconds, and one for every evaluation."""

    def __init__(self, steps: int):
        self.steps = steps
        self._last = 0.0

    def show(self, row: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - self._last < QUIET_SECONDS and not any(k.startswith("valid/") for k in row):
            return
        self._last = now
        print(f"step {row['step']:>{len(str(self.steps))}}/{self.steps}  {_text(row)}", flush=True)

    def advance(self, step: int) -> None:
        pass

    def close(self) -> None:
        pass


class Bar(Lines):
    def __init__(self, steps: int):
        super().__init__(steps)
        columns = (
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        self._progress = Progress(*columns, refresh_per_second=4)
        self._task = self._progress.add_task("", total=steps)
        self._shown: dict[str, Any] = {}
        self._progress.start()

    def show(self, row: dict[str, Any]) -> None:
        self._shown.update(row)
        self._progress.update(self._task, description=_text(self._shown))

    def advance(self, step: int) -> None:
        self._progress.update(self._task, completed=step)

    def close(self) -> None:
        self._progress.stop()


class Silent(Lines):
    def show(self, row: dict[str, Any]) -> None:
        pass


def open_progress(steps: int, first: bool) -> Lines:
    if not first:
        return Silent(steps)
    return Bar(steps) if sys.stdout.isatty() else Lines(steps)


def _text(row: dict[str, Any]) -> str:
    hidden = ("step", "seconds", "train_seconds", "cpu_seconds", "train/lr")
    return "  ".join(
        f"{name.removeprefix('train/')} {_number(value)}" for name, value in row.items() if name not in hidden
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
