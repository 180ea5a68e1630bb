"""Checkpoints that are whole or not there: written beside, synced, renamed; the previous one is kept."""

from __future__ import annotations

import contextlib
import hashlib
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dab.engine.storage import Unusable, told

NAME, PREVIOUS, DAMAGED = "checkpoint.pt", "checkpoint.previous.pt", "checkpoint.damaged.pt"


def replace(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write(temporary)`, then put the file in place in one step that survives a crash."""
    temporary = path.with_name(path.name + ".tmp")
    with told(path), _removed_on_error(temporary):
        write(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync(path.parent)


def save(folder: Path, state: dict[str, Any]) -> None:
    newest, previous = folder / NAME, folder / PREVIOUS
    if newest.exists() and not (previous.exists() and newest.samefile(previous)):  # a crash came between the two
        # A hard link keeps the old file under its second name, so that at no moment there is none.
        link = folder / (PREVIOUS + ".tmp")
        with told(newest), _removed_on_error(link):
            link.unlink(missing_ok=True)
            os.link(newest, link)
            os.replace(link, previous)
    replace(newest, lambda path: _write(state, path))


def _write(state: dict[str, Any], path: Path) -> None:
    with open(path, "wb") as file:  # our own, so that a full disk is an OSError and not torch's riddle
        torch.save(state, file)


@contextlib.contextmanager
def _removed_on_error(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)  # on a full disk half a checkpoint is what others wait for
        raise


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def exists(folder: Path) -> bool:
    return bool(_found(folder))


def _found(folder: Path) -> list[Path]:
    return [path for path in (folder / NAME, folder / PREVIOUS) if path.exists()]


def load(folder: Path, device: torch.device, check: Callable[[dict[str, Any]], None]) -> dict[str, Any] | None:
    """The newest whole checkpoint that `check` does not raise at, or None when there never was one."""
    found = _found(folder)
    for path in found:
        try:
            state = _read(path, device)
            check(state)
            if path != found[0]:
                _set_aside(found[0])
            return state
        except Exception as error:  # a torn file fails in many ways; all of them mean: not this one
            print(f"{path} cannot be used ({type(error).__name__}: {error}); trying the one before it", flush=True)
    if found:
        raise Unusable(f"no checkpoint in {folder} can be used; `force=true` starts the run over")
    return None


def _set_aside(path: Path) -> None:
    """The next save keeps the newest as the one before it: that must not be the one which cannot be used."""
    with contextlib.suppress(OSError):  # another worker was faster
        os.replace(path, path.with_name(DAMAGED))


def _read(path: Path, device: torch.device) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        if (bad := archive.testzip()) is not None:  # torch.load itself does not compare the stored CRCs
            raise ValueError(f"{bad} is corrupt")
    return torch.load(path, map_location=device, weights_only=True)


def digest(state: dict[str, Any]) -> str:
    """The sha256 of all tensors of a state dict with their names, types and shapes, wherever they are."""
    found = hashlib.sha256()
    for name, value in state.items():
        if isinstance(value, Tensor):
            found.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
            found.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
