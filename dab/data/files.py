"""Dataset files: found, fetched when a host answers, and never used unless their content is the known one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
TIMEOUT = 30  # seconds without an answer


class DataError(ValueError):
    """A data file that is not what it should be; whenever that is found out."""


def digest(array: Bytes) -> str:
    """The sha256 of an array's values, whatever file they came in."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).data).hexdigest()


def check(what: str, array: Bytes, expected: str) -> None:
    if array.dtype != np.uint8:
        raise DataError(f"{what} holds {array.dtype} instead of bytes: remove it and get the right one")
    if (found := digest(array)) != expected:
        raise DataError(
            f"{what} does not hold the known data (sha256 of its values {found[:16]}..., expected {expected[:16]}...): "
            "it is damaged or something else; remove it and get it again"
        )


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever a damaged file makes a parser raise, in one line."""
    try:
        yield
    except Exception as error:
        reason = "it is a folder" if path.is_dir() else " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path} cannot be read ({reason[:300]}): it is damaged; remove it and get it again") from error


def fetch(url: str, path: Path) -> str | None:
    """Download to `path`, whole or not at all; the reason why not, or None."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")  # workers may fetch at the same time
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer, open(part, "wb") as file:
            shutil.copyfileobj(answer, file)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        return f"{url}: {error}"
    return None


def have(paths: list[Path], urls: list[str], instead: str = "", hint: str = "") -> None:
    """Make sure of all `paths`, each from its URL if it is missing.

    instead     names files that would do as well
    hint        what else to do, after "put the files there"
    """
    for path, url in zip(paths, urls):
        if not path.exists() and (failure := fetch(url, path)) is not None:
            wanted = ", ".join(p.name for p in paths)
            raise FileNotFoundError(
                f"no data: looked in {path.parent.absolute()} for {instead}{wanted}, and the download failed "
                f"({failure}); put the files there{', ' * bool(hint)}{hint}; or set paths.data to where they are"
            )
