"""How long training took, without evaluations and checkpoints."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class Stopwatch:
    """Seconds of training alone; it stands still until `start`, after `stop` and inside `paused`.

    train_seconds   by the clock on the wall
    cpu_seconds     of the processor, all threads of this process together. With one thread on a CPU it is the better
                    measure of cost on a machine that has other work too: waiting does not count. What the neighbours
                    take of caches and memory still does, up to a third in our campaigns
    """

    def __init__(self, train_seconds: float = 0.0, cpu_seconds: float = 0.0):
        self._spent = (train_seconds, cpu_seconds)
        self._since: tuple[float, float] | None = None

    def start(self) -> None:
        self._since = _now()

    def stop(self) -> None:
        self._spent, self._since = self._totals(), None

    def read(self) -> dict[str, float]:
        wall, cpu = self._totals()
        return {"train_seconds": round(wall, 6), "cpu_seconds": round(cpu, 6)}

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        was_running = self._since is not None
        self.stop()
        try:
            yield
        finally:
            if was_running:
                self.start()

    def _totals(self) -> tuple[float, float]:
        if self._since is None:
            return self._spent
        (wall, cpu), (wall_now, cpu_now) = self._since, _now()
        return self._spent[0] + wall_now - wall, self._spent[1] + cpu_now - cpu


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()
