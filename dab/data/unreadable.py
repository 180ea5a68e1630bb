"""Files that cannot be read: told once, listed once."""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path
from typing import Literal

from dab.choice import one_of
from dab.data.files import DataError


class Unreadable:
    """policy    skip: another sample takes the place of one that cannot be read; error: the first one ends the run
    path      the list, a line for each file; several processes may add to it
    """

    def __init__(self, path: Path, policy: Literal["skip", "error"]):
        self.path, self.policy = path, one_of("bad", policy, ("skip", "error"))
        self._found: set[str] = set()
        self._lock = threading.Lock()

    def note(self, name: str, error: Exception) -> None:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        if self.policy == "error":
            raise DataError(f"{name} cannot be read ({reason}): repair or remove it, or set data.bad=skip") from error
        with self._lock:
            if name in self._found:
                return
            self._found.add(name)
            self._list(f"{name}\t{reason}\n")
            count = len(self._found)
            if str(count).strip("0") == "1":  # at 1, 10, 100, ...: a line for each would bury the rest
                files = "1 file cannot" if count == 1 else f"{count} files cannot"
                said = (
                    f"{files} be read, the last one {name} ({reason}); listed in {self.path}, replaced by the next one"
                )
                print(said, file=sys.stderr, flush=True)

    def _list(self, line: str) -> None:
        with contextlib.suppress(OSError):  # a folder that cannot be written to; what is printed must do
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a+") as file:
                file.seek(0)
                if line not in file.readlines():  # listed by another worker, or in an earlier run
                    file.write(line)
