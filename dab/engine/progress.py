"""What a person sees while a run goes on: a bar on a terminal, plain lines in a log file."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column

QUIET_SECONDS = 5.0
HIDDEN = ("step", "seconds", "train_seconds", "cpu_seconds", "train/lr")


class Lines:
    """At most one line every few seconds, and one for every evaluation.

    select      the metric that is told first, "all_or_none"
    """

    def __init__(self, steps: int, select: str = ""):
        self.steps, self.select = steps, select
        self._last = 0.0
        self._began: tuple[float, int] | None = None  # this process's first step: it may go on with a run

    def show(self, row: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - self._last < QUIET_SECONDS and not any(k.startswith("valid/") for k in row):
            return
        self._last = now
        step = row["step"]
        print(f"step {step:>{len(str(self.steps))}}/{self.steps}  {self.left(step)} left  {self.text(row)}", flush=True)

    def advance(self, step: int) -> None:
        if self._began is None:
            self._began = (time.monotonic(), step)

    def left(self, step: int) -> str:
        """How long the steps to come take if they are like those of this process: "1:23:45"."""
        if self._began is None or step <= self._began[1]:
            return "0:00" if step >= self.steps else "?"
        since, first = self._began
        return clock((time.monotonic() - since) / (step - first) * (self.steps - step))

    def text(self, row: dict[str, Any]) -> str:
        """The selecting metric and the loss first: a narrow screen cuts the rest."""
        first = [name for name in (f"valid/{self.select}", "train/loss") if name in row]
        shown = dict.fromkeys([*first, *(name for name in row if name not in HIDDEN)])
        return "  ".join(f"{name.removeprefix('train/')} {_number(row[name])}" for name in shown)

    def close(self) -> None:
        pass


class Bar(Lines):
    """One line, whatever the width of the terminal: what does not fit of the metrics is cut."""

    def __init__(self, steps: int, select: str = "", console: Console | None = None):
        super().__init__(steps, select)
        columns = (
            BarColumn(bar_width=16),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[left]} left", table_column=Column(no_wrap=True)),
            TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        )
        self._progress = Progress(*columns, refresh_per_second=4, expand=True, console=console)
        self._task = self._progress.add_task("", total=steps, left="?")
        self._shown: dict[str, Any] = {}
        self._progress.start()

    def show(self, row: dict[str, Any]) -> None:
        self._shown.update(row)
        self._progress.update(self._task, description=self.text(self._shown))

    def advance(self, step: int) -> None:
        super().advance(step)
        self._progress.update(self._task, completed=step, left=self.left(step))

    def close(self) -> None:
        self._progress.stop()


class Silent(Lines):
    def show(self, row: dict[str, Any]) -> None:
        pass


def open_progress(steps: int, first: bool, select: str = "") -> Lines:
    if not first:
        return Silent(steps)
    return Bar(steps, select) if sys.stdout.isatty() else Lines(steps, select)


def clock(seconds: float) -> str:
    """83 → "1:23", 5025 → "1:23:45"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
