"""How counts and times are written."""

from __future__ import annotations


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
