"""Campaigns train from a checkout of a commit, so that one can go on editing and every record names its code."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

CODE = ("train.py", "dab", "conf")  # what a run is made of


@dataclass(frozen=True)
class Checkout:
    """Where a campaign finds `train.py`. Whoever has `lock` open keeps the folder from being removed."""

    root: Path
    commit: str | None = None
    lock: int | None = None


@contextmanager
def checkout(root: Path, folder: Path) -> Iterator[Checkout]:
    """The last commit of `root` as `folder/<commit>`; `root` itself where that is no git repository (a tarball)."""
    commit = head(root)
    if commit is None:
        yield Checkout(root)
        return
    path = folder / commit
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        with _locked(folder / "lock"):  # two campaigns may start at once
            used = held.enter_context(open(folder / f"{commit}.lock", "w"))
            fcntl.flock(used, fcntl.LOCK_SH)
            _remove_unused(folder)
            _git(root, "worktree", "prune")  # forget what is gone: the unused, or all of runs/ deleted by hand
            if not _is_whole(path, commit):
                _git(root, "worktree", "add", "--force", "--detach", str(path), commit)
        yield Checkout(path, commit, used.fileno())


def head(root: Path) -> str | None:
    """The commit of the repository at `root`; None if that is none, even below another one."""
    top = _git(root, "rev-parse", "--show-toplevel", check=False)
    if not top or Path(top).resolve() != root.resolve():
        return None
    return _git(root, "rev-parse", "--verify", "HEAD", check=False) or None


def has_uncommitted_code(root: Path) -> bool:
    return bool(_git(root, "status", "--porcelain", "--", *CODE))


def _is_whole(path: Path, commit: str) -> bool:
    """Whether the commit is there as it is; what an interruption or a hand has spoiled is cleared away."""
    if head(path) == commit and not _git(path, "status", "--porcelain"):
        return True
    shutil.rmtree(path, ignore_errors=True)
    return False


def _remove_unused(folder: Path) -> None:
    """A lock that can be had belongs to a checkout that no campaign and no run is using."""
    for path in folder.glob("*.lock"):
        with open(path) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)
            path.unlink()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _git(root: Path, *arguments: str, check: bool = True) -> str:
    """What git says, nothing if it fails; with `check` a failure is an error."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # set in hooks
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, env=environment)
    except FileNotFoundError:
        return ""
    if check and done.returncode:
        raise RuntimeError(f"git {' '.join(arguments)} failed in {root}: {done.stderr.strip()}")
    return done.stdout.strip() if done.returncode == 0 else ""
