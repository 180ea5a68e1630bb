from __future__ import annotations

import time

import pytest

from dab.engine import stopwatch
from dab.engine.stopwatch import Stopwatch


class Clock:
    """A wall clock and a processor clock that go only when told to."""

    def __init__(self) -> None:
        self.now = (100.0, 7.0)

    def go(self, wall: float, cpu: float) -> None:
        self.now = (self.now[0] + wall, self.now[1] + cpu)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(stopwatch, "_now", lambda: made.now)
    return made


def test_counts_training_and_nothing_else(clock) -> None:
    watch = Stopwatch()
    clock.go(50, 50)
    watch.start()
    clock.go(3, 2)
    with watch.paused():
        clock.go(10, 10)
        assert watch.read() == {"train_seconds": 3, "cpu_seconds": 2}
    clock.go(1, 0.5)
    watch.stop()
    clock.go(9, 9)
    assert watch.read() == {"train_seconds": 4, "cpu_seconds": 2.5}


def test_goes_on_from_what_was_read(clock) -> None:
    watch = Stopwatch(train_seconds=4, cpu_seconds=2.5)
    watch.start()
    clock.go(1, 1)
    assert Stopwatch(**watch.read()).read() == {"train_seconds": 5, "cpu_seconds": 3.5}


def test_goes_on_after_an_error_inside_the_pause(clock) -> None:
    watch = Stopwatch()
    watch.start()
    with pytest.raises(ZeroDivisionError), watch.paused():
        raise ZeroDivisionError
    clock.go(1, 1)
    assert watch.read()["train_seconds"] == 1


def test_sleeping_is_no_processor_time() -> None:
    watch = Stopwatch()
    watch.start()
    time.sleep(0.2)
    spent = watch.read()
    assert spent["train_seconds"] >= 0.2 and spent["cpu_seconds"] < 0.1
