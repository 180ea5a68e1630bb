"""How a command ends: its exit code says whose turn it is."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from dab.engine.targets import ConfigError

FAILED, BAD_CONFIG, BUSY, CHANGED, INTERRUPTED = 1, 2, 3, 4, 128

EXITS = {
    0: "done",
    FAILED: "the run failed: its last line says of what, and the same command goes on where it can",
    BAD_CONFIG: "your input: a key, a value, a file or a folder; the line says what is allowed",
    BUSY: "another process is training this run",
    CHANGED: "code, options or torch have changed since: resume=anyway goes on or shows it, force=true starts over",
    INTERRUPTED: "or more, by the signal: interrupted and saved, the same command goes on",
}


@contextlib.contextmanager
def input_errors() -> Iterator[None]:
    """What is wrong with the words after a command or with the files they name, in one line."""
    try:
        yield
    except (ConfigError, OSError, ValueError) as error:
        print(" ".join(str(error).split()), file=sys.stderr, flush=True)
        sys.exit(BAD_CONFIG)
