"""How a run uses the machine it is on: threads and memory."""

from __future__ import annotations

import ctypes
import os
import sys

import torch

# glibc's mallopt names, from malloc.h
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_MEGABYTE = 2**20


def use_threads(threads: int | str, world: int) -> None:
    """`auto` shares the cores between the workers on this machine."""
    if threads == "auto":
        threads = max(1, len(os.sched_getaffinity(0)) // world if sys.platform == "linux" else 1)
    torch.set_num_threads(int(threads))


def keep_freed_memory() -> None:
    """Ask glibc to reuse freed blocks instead of returning them to the system.

    A training step allocates and frees the same large tensors again and again. By default every one of them is
    mapped afresh, and the page faults cost about a quarter of a step of the default job. Elsewhere: no effect.
    """
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another libc
        return
    mallopt(_MMAP_THRESHOLD, 1024 * _MEGABYTE)
    mallopt(_TRIM_THRESHOLD, 2047 * _MEGABYTE)
    mallopt(_TOP_PAD, 64 * _MEGABYTE)
