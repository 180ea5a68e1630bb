"""Packages of the user's own that a configuration may name too.

Said on the command line and nowhere else: what a file or a run directory says of trust is not asked.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable

_trusted: set[str] = set()
FOREIGN = sys.stdlib_module_names | {"dab", "torch", "hydra", "omegaconf"}  # they hold what runs commands and files


def trust(packages: Iterable[str]) -> None:
    """From now on targets in these are taken; raises ValueError for what cannot be one's own."""
    for name in packages:
        if not isinstance(name, str) or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name):
            raise ValueError(f"trust={name!r} is no name of a package; give one that can be imported, my_package")
        if _top(name) in FOREIGN:
            raise ValueError(f"trust={name} is not a package of your own; give the one that holds your functions")
        _trusted.add(name)
    if _trusted and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a package beside the user; the last place, so that it hides no other


def trusted() -> tuple[str, ...]:
    return tuple(sorted(_trusted))


def is_trusted(module: str) -> bool:
    return any(inside(module, package) for package in _trusted)


def inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def hint(target: str) -> str:
    """What to say where a target is refused that may be somebody's own."""
    top = _top(target)
    if top in FOREIGN or not top.isidentifier():
        return ""
    return f"; if it is your own, say trust={top} on the command line (--trust {top} with a finished run)"


def add_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust", metavar="PACKAGE", action="append", default=[], help="your own, that the run's functions are in"
    )


def _top(name: str) -> str:
    return name.partition(".")[0]
