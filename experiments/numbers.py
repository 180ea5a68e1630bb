"""How counts and times are written."""

from __future__ import annotations

from collections.abc import Sequence


def human(count: float) -> str:
    """1_280_000 → 1.28 M"""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.3g}"


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def human_duration(seconds: float) -> str:
    """For a person who waits: 9000 → 2 h 30 min"""
    minutes = round(seconds / 60)
    return duration(seconds) if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def spread_out(wanted: Sequence[float], sizes: Sequence[float], room: float) -> list[float]:
    """Centres of things of these sizes, in this order, near where they are wanted, between 0 and `room`.

    Each is pushed up by the one below; then, from the top, down again so far that all stay in the room.
    """
    centres: list[float] = []
    floor = 0.0
    for want, size in zip(wanted, sizes):
        centres.append(max(want, floor + size / 2))
        floor = centres[-1] + size / 2
    ceiling = max(room, sum(sizes))
    for number in reversed(range(len(centres))):
        centres[number] = min(centres[number], ceiling - sizes[number] / 2)
        ceiling = centres[number] - sizes[number] / 2
    return centres
