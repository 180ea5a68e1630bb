"""What training steps add to the memory of a process: a bridge against straight-through."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch
from bench_classification import image_noise
from bench_loops import ROOT, bare_step, configuration

from dab.engine.build import build
from dab.engine.distributed import Workers

# glibc gives back at once what is freed: the peak is that of what lives, the same in every process but for tenths.
GIVEN = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
SIDES = {
    "dense sorter, batch 16384": ("trainer.batch_size=16384",),
    "Resnet18 of width 8, batch 128": ("experiment=classification/cifar10", "hard=signum", "trainer.batch_size=128"),
}


def measure_memory(*names: str) -> dict[str, float]:
    """Of all sides, or of those that are named."""
    table = {}
    for name in names or SIDES:
        bridge, plain = (peak_memory(*SIDES[name], f"estimator={e}") for e in ("bridge", "straight_through"))
        table |= {
            f"peak MB of a bridge step, {name}": bridge,
            f"memory of a step: bridge / straight-through, {name}": bridge / plain,
        }
    return table


def peak_memory(*overrides: str) -> float:
    """Megabytes that training steps add to a fresh process."""
    code = f"import sys; sys.path.insert(0, 'scripts'); import bench_memory; bench_memory.print_memory(*{overrides!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=GIVEN)
    return float(done.stdout)


def print_memory(*overrides: str) -> None:
    torch.set_num_threads(1)
    config = configuration(*overrides)
    job = build(config, Workers(), image_noise(config) if "classification" in config["name"] else None)
    Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the peak that building has left
    before = _peak_kilobytes()
    for step in range(3):
        bare_step(job, job.data.batch(step))
    print((_peak_kilobytes() - before) / 1024)


def _peak_kilobytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
