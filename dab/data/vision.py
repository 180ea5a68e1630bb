"""torchvision, importable beside a CPU torch. Import it from here: `from dab.data.vision import torchvision`.

torchvision's only published build is compiled against CUDA. Beside a CPU torch its compiled operators cannot load;
torchvision tolerates that, but then registers Python kernels for two operators that do not exist, and the import
fails. Declaring these two first is all it takes. Datasets, transforms and models need none of the compiled ones.
Where the extension does load, nothing is declared.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

_declared: list[torch.library.Library] = []  # a declaration lives as long as its Library object


def extension_loads() -> bool:
    spec = importlib.util.find_spec("torchvision")  # locates, does not import
    if spec is None or not spec.submodule_search_locations:
        return True  # not installed: let the ordinary ImportError speak
    try:
        for library in Path(spec.submodule_search_locations[0]).glob("_C*"):  # _C.so, from 0.29 on _C_stable.so
            torch.ops.load_library(library)
    except OSError:
        return False
    return hasattr(torch.ops.torchvision, "nms")


def declare_missing_operators() -> None:
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)


if not extension_loads():
    declare_missing_operators()

import torchvision  # noqa: E402

__all__ = ["torchvision"]
