"""Who trains in a directory: one process, on whichever of the machines that share its file system.

Between processes of one machine the kernel's lock decides (flock). Between machines it may lie: some file systems keep
it to themselves, some say yes to everybody. So unless the file system is known to be this machine's own, the lock file
is a lease as well. Its owner writes another beat into it every few seconds; who finds one of another machine watches
it for a while before taking it over; and who has lost it writes nothing any more. No clock is compared with another.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import sys
import threading
import time
import uuid
from functools import cache
from pathlib import Path
from typing import IO

from dab.engine.storage import told

BEAT, SILENCE, SETTLE = 5.0, 30.0, 2.0  # seconds: between beats, until a lease has lapsed, for a rival to show
OWN_FILE_SYSTEMS = {"apfs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
NAME = "lock"


class RunBusy(Exception):
    """Another process is training in this directory."""


class LinkInRun(Exception):
    """A symbolic link where a run would write: it may lead anywhere."""


class Lock:
    """Of one directory, for this process, until it ends however it ends."""

    def __init__(self, folder: Path):
        self.folder, self.path = folder, folder / NAME
        self._file: IO[str] | None = None
        self._lease = uuid.uuid4().hex[:8]
        self._released = threading.Event()

    def take(self) -> None:
        """RunBusy says who has it."""
        lock = self._opened()
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise self._busy() from error
        self._file, self._shared = lock, is_shared(self.folder)
        try:
            self._write()
        except RunBusy:
            self.release()
            raise

    def _opened(self) -> IO[str]:
        if self.path.is_symlink():
            raise LinkInRun(f"{self.path} is a symbolic link, which a run does not follow: remove it")
        with told(self.folder):
            return open(os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666), "a+")

    def _busy(self) -> RunBusy:
        owner = _owner(_read(self.path)) or "another process"
        return RunBusy(f"{self.folder} is being trained by {owner}; wait for it or stop it")

    def _write(self) -> None:
        assert self._file is not None
        if self._shared:
            self._wait_for_silence()
        with told(self.folder):
            self._file.truncate(0)
            self._file.write(self._line(0) if self._shared else who())
            self._file.flush()
        if self._shared:
            time.sleep(SETTLE)  # whoever looked before this was written has written by now as well: the last one has it
            if not self.is_mine():
                raise self._busy()
            threading.Thread(target=self._beat, daemon=True).start()

    def _wait_for_silence(self) -> None:
        before = _read(self.path)
        if (leased := _LEASED.search(before)) is None or leased["kernel"] == kernel():
            return  # nobody's, or of this machine, whose kernel has just said that he is gone
        print(f"{self.folder} was left by {_owner(before)}: waiting {SILENCE:.0f} s for a sign of life", flush=True)
        end = time.monotonic() + SILENCE
        while time.monotonic() < end:
            time.sleep(min(1.0, BEAT / 2))
            if _read(self.path) != before:
                raise self._busy()

    def _line(self, beat: int) -> str:
        return f"{who()}, kernel {kernel()}, lease {self._lease}, beat {beat:09}"

    def _beat(self) -> None:
        beat = 0
        while not self._released.wait(BEAT) and self.is_mine():
            beat += 1
            with contextlib.suppress(OSError):  # a full disk, a server that is away: the next one may be written
                descriptor = os.open(self.path, os.O_WRONLY | os.O_NOFOLLOW)
                os.pwrite(descriptor, self._line(beat).encode(), 0)
                os.close(descriptor)

    def is_mine(self) -> bool:
        """Nobody on another machine has taken it over, e.g. while this one was suspended."""
        return self._file is not None and (not self._shared or self._lease in _read(self.path))

    def check_mine(self) -> None:
        """RunBusy, if it was taken and is lost; a loop in a directory that nobody has taken is its caller's affair."""
        if self._file is not None and not self.is_mine():
            raise RunBusy(f"{self.folder} has been taken over by {_owner(_read(self.path)) or 'another process'}")

    def release(self) -> None:
        self._released.set()
        if self._file is not None:
            with contextlib.suppress(OSError):  # on a full disk not even its owner's name could be written
                if self._shared and self.is_mine():
                    os.truncate(self.path, 0)
                self._file.close()
            self._file = None


def is_locked(folder: Path) -> bool:
    """Whether a living process has it, as far as can be told without waiting."""
    try:
        with open(folder / NAME) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            leased = _LEASED.search(lock.read()) if is_shared(folder) else None
            age = time.time() - os.fstat(lock.fileno()).st_mtime
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return leased is not None and leased["kernel"] != kernel() and age < SILENCE


def is_shared(folder: Path) -> bool:
    """Whether other machines may have the file system as well. Outside Linux nobody tells."""
    return sys.platform == "linux" and file_system(folder) not in OWN_FILE_SYSTEMS


def file_system(folder: Path) -> str:
    """Its name, e.g. ext4: that of the innermost mount around it."""
    place, found = folder.resolve(), ("", "")
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, mount, kind, *_ = line.split()
            mount = mount.encode().decode("unicode_escape")  # \040 for a space
            if place.is_relative_to(mount) and len(mount) >= len(found[0]):
                found = mount, kind
    return found[1]


def who() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


@cache
def kernel() -> str:
    """Which one runs: containers on one machine share it and its locks, whatever they call themselves."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        return socket.gethostname()


_LEASED = re.compile(r", kernel (?P<kernel>\S+), lease \S+, beat \d+")


def _owner(line: str) -> str:
    return line.partition(", kernel ")[0].strip()


def _read(path: Path) -> str:
    try:
        return path.read_text()  # opened anew: only then a network file system asks its server
    except (OSError, UnicodeDecodeError):
        return ""
