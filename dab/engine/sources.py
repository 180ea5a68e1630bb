"""Which files make a run's numbers: those of its classes and of the loop, and all that these import."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

from dab.engine.targets import COMPONENTS, locate

LOOP = "dab.engine.loop"
# What the loop also imports, to tell, to keep and to stop: an edit there moves no number.
ASIDE = {f"dab.engine.{name}" for name in ("loggers", "progress", "provenance", "records", "run", "stop", "storage")}


def in_use(config: dict[str, Any]) -> dict[str, str]:
    """The digest of every module that the run is made of, in this package and in those of its targets."""
    names = [LOOP, *(locate(component, config[component]).__module__ for component in COMPONENTS)]
    packages = {name.partition(".")[0] for name in names} - {"torch"}
    found: dict[str, str] = {}
    while names:
        name = names.pop()
        if name in found or name in ASIDE or name.partition(".")[0] not in packages:
            continue
        if (path := _file(name)) is not None:
            found[name], imported = _read(name, path)
            names += [_home(*pair) for pair in imported if pair[0].partition(".")[0] in packages]
    return dict(sorted(found.items()))


def _file(module: str) -> Path | None:
    spec = importlib.util.find_spec(module)
    return Path(spec.origin) if spec is not None and spec.origin is not None and spec.has_location else None


@cache
def _read(module: str, path: Path) -> tuple[str, list[tuple[str, str]]]:
    """Its digest, and what it imports: (module, name), or (module, "") for a whole one.

    Once for a process: what is edited meanwhile is not what runs.
    """
    source, imported = path.read_bytes(), []
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            imported += [(base, alias.name) for alias in node.names]
    return hashlib.sha256(source).hexdigest()[:16], imported


@cache
def _home(module: str, name: str) -> str:
    """Where `from module import name` leads: a package hands on what its files define."""
    spec = importlib.util.find_spec(module)
    if not name or spec is None or spec.submodule_search_locations is None:
        return module
    if importlib.util.find_spec(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    return getattr(getattr(importlib.import_module(module), name, None), "__module__", None) or module
