"""Which files make a run's numbers: those of its classes and of the loop, and all that these import."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
from collections.abc import Iterator
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
            source = path.read_bytes()
            found[name] = hashlib.sha256(source).hexdigest()[:16]
            names += _imported(name, path, source, packages)
    return dict(sorted(found.items()))


def _file(module: str) -> Path | None:
    spec = importlib.util.find_spec(module)
    return Path(spec.origin) if spec is not None and spec.origin is not None and spec.has_location else None


def _imported(module: str, path: Path, source: bytes, packages: set[str]) -> Iterator[str]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            if base.partition(".")[0] in packages:
                yield from (_home(base, alias.name) for alias in node.names)


def _home(module: str, name: str) -> str:
    """Where `from module import name` leads: a package hands on what its files define."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.submodule_search_locations is None:
        return module
    if importlib.util.find_spec(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    return getattr(getattr(importlib.import_module(module), name, None), "__module__", None) or module
