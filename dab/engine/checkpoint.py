"""Checkpoints that are whole or not there: written beside, synced, renamed; the previous one is kept."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import torch

NAME, PREVIOUS = "checkpoint.pt", "checkpoint.previous.pt"


def replace(path: Path, write: Any) -> None:
    """Call `write(temporary)`, then put the file in place in one step that survives a crash."""
    temporary = path.with_name(path.name + ".tmp")
    write(temporary)
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def save(folder: Path, state: dict[str, Any]) -> None:
    newest = folder / NAME
    if newest.exists():
        # A hard link keeps the old file under its second name, so that at no moment there is none.
        link = folder / (PREVIOUS + ".tmp")
        link.unlink(missing_ok=True)
        os.link(newest, link)
        os.replace(link, folder / PREVIOUS)
    replace(newest, lambda path: torch.save(state, path))


def load(folder: Path, device: torch.device) -> dict[str, Any] | None:
    """The newest whole checkpoint, or None when there never was one."""
    found = [path for path in (folder / NAME, folder / PREVIOUS) if path.exists()]
    for path in found:
        try:
            return _read(path, device)
        except Exception as error:  # a torn file fails in many ways; all of them mean: not this one
            print(f"{path} cannot be read ({type(error).__name__}: {error}); trying the one before it", flush=True)
    if found:
        raise RuntimeError(f"no checkpoint in {folder} can be read; `force=true` starts the run over")
    return None


def _read(path: Path, device: torch.device) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        if (bad := archive.testzip()) is not None:  # torch.load itself does not compare the stored CRCs
            raise ValueError(f"{bad} is corrupt")
    return torch.load(path, map_location=device, weights_only=True)
