"""Named options: one check, one message."""

from collections.abc import Iterable


def one_of(what: str, given: str, allowed: Iterable[str]) -> str:
    """`given`, if it is allowed; otherwise an error that lists what is."""
    allowed = tuple(allowed)
    if given not in allowed:
        raise ValueError(f"{what} must be one of {', '.join(allowed)}, given {given!r}")
    return given
