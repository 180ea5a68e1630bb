"""Storage that gives way: which file, why, and what to do about it, in one line."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

ELSEWHERE = "choose another folder with paths.runs=FOLDER"
REMEDIES = {
    errno.ENOSPC: "free some space, then the same command goes on",
    errno.EDQUOT: "free some space, then the same command goes on",
    errno.EROFS: ELSEWHERE,
    errno.ENOENT: ELSEWHERE,
    errno.ENOTDIR: ELSEWHERE,
    errno.ENAMETOOLONG: ELSEWHERE,
    errno.EACCES: f"change its permissions, or {ELSEWHERE}",
    errno.EPERM: f"change its permissions, start the run over with force=true, or {ELSEWHERE}",
    errno.EISDIR: "remove it, or start the run over with force=true",
}
OTHERWISE = "the same command tries again, force=true starts the run over"


class Unusable(Exception):
    """A file of a run that cannot be read or written; says what to do."""


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """An error of the operating system inside, about this file, becomes an Unusable."""
    try:
        yield
    except Unusable:
        raise
    except Exception as error:
        if (cause := _of_the_system(error)) is None:
            raise
        remedy = REMEDIES.get(cause.errno or 0, OTHERWISE)
        raise Unusable(f"{path} cannot be used ({cause.strerror or cause}): {remedy}") from error


def _of_the_system(error: BaseException | None) -> OSError | None:
    """The OSError behind an error: torch's writer turns a full disk into one of its own."""
    while error is not None and not isinstance(error, OSError):
        error = error.__context__
    return error
