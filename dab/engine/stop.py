"""Being asked to stop."""

from __future__ import annotations

import signal
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)  # the last is what Slurm sends before a time limit


class Interrupted(Exception):
    """The run was asked to stop, and has saved itself."""


class Stop:
    """Remembers being asked, so that the loop can finish its step first."""

    def __init__(self) -> None:
        self.signal = 0

    def __enter__(self) -> Stop:
        self._before = {s: signal.signal(s, self._remember) for s in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
