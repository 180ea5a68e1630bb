"""How a run uses the machine it is on: threads and memory."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

import torch

from dab.engine.targets import ConfigError

# glibc's mallopt names, from malloc.h
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_MEGABYTE = 2**20


def check_host(trainer: dict[str, Any]) -> None:
    """Whether this machine has what a run asks for."""
    threads, cores = trainer["threads"], os.cpu_count() or 1
    if threads != "auto" and threads > cores:
        raise ConfigError(
            f"trainer.threads={threads}, but this machine has {cores} cores: give at most so many, or auto"
        )
    present = torch.cuda.device_count() if torch.cuda.is_available() else 0
    wanted = 0 if trainer["device"] == "cpu" or (trainer["device"] == "auto" and not present) else trainer["devices"]
    if wanted > present:
        raise ConfigError(
            f"trainer.devices={wanted} with trainer.device={trainer['device']}, but CUDA finds {present} devices here: "
            "use trainer.device=cpu"
        )


def use_threads(threads: int | str) -> None:
    """`auto` is one thread.

    A second one gains a tenth at the default job's batch on an idle machine and half as much again at batch 1024, but
    with anything else running the threads wait for each other and the same step takes several times as long
    (`make bench` shows both). Two runs at a time, one thread each, are the better use of two cores.
    """
    torch.set_num_threads(1 if threads == "auto" else int(threads))


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
