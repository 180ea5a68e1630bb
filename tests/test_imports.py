"""Imports point one way, and the library needs torch alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dab

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "dab").rglob("*.py")) + sorted((ROOT / "experiments").rglob("*.py"))

# A file may import from its own layer and from those below it.
LAYERS = [
    {"experiments"},
    {"dab.train", "dab.predict", "dab.measure", "dab.compress", "dab.advise"},
    {"dab.engine"},
    {"dab.tasks"},
    {"dab.models", "dab.data", "dab.metrics"},
    {"dab.estimators", "dab.bridge", "dab.strip", "dab.hard", "dab.approximators", "dab.activations", "dab.choice"}
    | {"dab.ranges"}
    | {"dab.precision", "dab.surrogate", "dab.keys", "dab.nets", "dab.stateless", "dab.inline", "dab.fitted"}
    | {"dab.corrected", "dab.pooled"},
]


def layer(module: str) -> int | None:
    for depth, names in enumerate(LAYERS):
        if any(module == name or module.startswith(name + ".") for name in names):
            return depth
    return None


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_point_down(path: Path) -> None:
    name = module_name(path)
    if name == "dab":
        return
    here = layer(name)
    assert here is not None, f"{name} belongs to no layer: add it to LAYERS"
    above = {other for other in imported(path) if (depth := layer(other)) is not None and depth < here}
    assert not above, f"{name} imports {above} from a layer above it"


def test_the_layers_know_every_module_that_exists() -> None:
    assert len(FILES) > 30


def test_import_dab_needs_torch_alone_and_loads_little() -> None:
    """With everything the suite uses made impossible to import the library works; torch's compiler stays unloaded."""
    blocked = ["numpy", "sklearn", "torchvision", "hydra", "omegaconf", "wandb", "matplotlib", "rich", "safetensors"]
    # torch itself takes numpy if it is there, so it comes first.
    code = f"""
import sys, torch
before = set(sys.modules)
for name in {blocked!r}:
    for loaded in [m for m in sys.modules if m.split('.')[0] == name]:
        del sys.modules[loaded]
    sys.modules[name] = None
import dab
print([m for m in sys.modules if m not in before and sys.modules[m] and m.split('.')[0] != 'dab'])
dab.Bridge(torch.sign, in_shape=(4,))(torch.randn(2, 4))
print(dab.__version__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    loaded, version = done.stdout.splitlines() or ("", "")
    assert version == dab.__version__, done.stderr
    assert loaded == "[]"  # torch._dynamo alone takes as long as torch


def test_no_file_is_a_drawer() -> None:
    assert not [p for p in FILES if p.stem in ("utils", "helpers", "common", "misc")]


def test_torchvision_is_imported_through_the_compatibility_module_only() -> None:
    direct = {module_name(p) for p in FILES if any(n.split(".")[0] == "torchvision" for n in imported(p))}
    assert direct <= {"dab.data.vision"}
