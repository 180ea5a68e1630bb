"""Pictures of one size on disk, as bytes that need no decoding."""

from __future__ import annotations

import contextlib
import itertools
import os
import struct
import sys
import threading
import time
from pathlib import Path

import numpy as np

from dab.data.files import Bytes

HEADER = struct.Struct("<8sIQq")  # what this is, side, and the source's bytes and time of change
MARK = b"dab rgb1"
LEFT_OVER = 24 * 3600  # seconds after which an unfinished file belongs to a process that died


class ImageCache:
    """One file for each picture: [3, size, size] after a header that names the state of its source.

    A file is put in place whole, so several processes may read and write at the same time and a crash leaves nothing
    behind that could be taken for a picture. Where the source or the size is another, the file does not count.
    """

    def __init__(self, folder: Path, size: int):
        self.folder, self.size = folder / str(size), size
        self._parts, self._count = self.folder / "unfinished", itertools.count()
        self._broken, self._telling = False, threading.Lock()
        self._sweep()

    def read(self, name: str, source: os.stat_result, into: Bytes) -> bool:
        """Whether the picture of this source was here; then it is in `into`."""
        try:
            with open(self._path(name), "rb", buffering=0) as file:
                if file.read(HEADER.size) != self._header(source):
                    return False
                return file.readinto(into.data) == into.nbytes and not file.read(1)
        except OSError:
            return False

    def write(self, name: str, source: os.stat_result, picture: Bytes) -> None:
        """A disk that is full or read-only is told once, and costs time only."""
        if self._broken:
            return
        path, part = self._path(name), self._parts / f"{os.uname().nodename}-{os.getpid()}-{next(self._count)}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(self._header(source) + np.ascontiguousarray(picture).tobytes())
            os.replace(part, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        with self._telling:  # several decoding threads may fail at the same time
            if not self._broken:
                print(f"no more pictures are kept in {self.folder}: {error}", file=sys.stderr, flush=True)
            self._broken = True

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.rgb"

    def _header(self, source: os.stat_result) -> bytes:
        return HEADER.pack(MARK, self.size, source.st_size, source.st_mtime_ns)

    def _sweep(self) -> None:
        """Remove what a process left behind that died while it wrote."""
        with contextlib.suppress(OSError):  # a cache may be read-only
            self._parts.mkdir(parents=True, exist_ok=True)
            for part in self._parts.iterdir():
                if time.time() - part.stat().st_mtime > LEFT_OVER:
                    part.unlink()
