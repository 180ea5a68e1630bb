"""torchvision beside a torch whose compiled operators it was not built for."""

from __future__ import annotations

import subprocess
import sys

import torch


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_models_and_transforms_work_through_the_compatibility_module() -> None:
    code = (
        "from dab.data.vision import torchvision; import torch\n"
        "from torchvision.transforms import v2\n"
        "y = torchvision.models.resnet18(num_classes=3)(torch.rand(2, 3, 32, 32)); y.sum().backward()\n"
        "x = v2.Resize(16)(torch.rand(3, 32, 32)); print(tuple(y.shape), tuple(x.shape))\n"
    )
    done = run(code)
    assert done.stdout.strip() == "(2, 3) (3, 16, 16)", done.stderr


def test_nothing_is_declared_where_the_extension_loads() -> None:
    from dab.data import vision

    assert bool(vision._declared) is not vision.extension_loads()


def test_it_is_needed_exactly_where_the_plain_import_fails() -> None:
    plain_import_works = run("import torchvision").returncode == 0
    from dab.data import vision

    assert bool(vision._declared) is not plain_import_works
    assert plain_import_works or "+cpu" in torch.__version__
