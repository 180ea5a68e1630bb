"""Speed, as ratios inside one run: every pair is interleaved chunk by chunk and the median of the ratios is reported.

python scripts/bench.py [--rounds 15] [--length 10] [--out bench.json]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # as train.py does

import torch
from bench_classification import measure_functions, measure_kmeans, measure_resnet
from bench_compress import measure_compress
from bench_images import measure_images
from bench_loops import ROOT, Timed, bare_loop, bare_step, configuration, interleaved, our_loop, ratio
from bench_memory import measure_memory
from bench_orchestration import measure_orchestration
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from dab import strip
from dab.data.binarized import Binarized
from dab.data.images import LabelledImages
from dab.engine.build import build
from dab.engine.distributed import Workers
from dab.engine.host import keep_freed_memory
from dab.metrics.codes import code_statistics
from dab.metrics.images import msssim_shrink, msssim_upsampled
from dab.metrics.probe import knn, linear_probe

DENSITY = ("bridge_dense", "bridge_matched", "gumbel", "gumbel_rao", "reinmax", "disarm", "rebar", "relax")


class PerSample(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, length: int, size: int):
        self.length, self.size = length, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x = torch.rand(self.length)
        return x, x.argsort()


def loader_loop(config: dict[str, Any]) -> Timed:
    """How public code often does it: one sample at a time from four worker processes, two `.item()` per step."""
    job = build(config, Workers())
    batch_size = config["trainer"]["batch_size"]
    samples = PerSample(config["data"]["length"], 10**8)
    batches = iter(DataLoader(samples, batch_size, num_workers=4))

    def step() -> None:
        loss, logs = bare_step(job, tuple(next(batches)))
        loss.item(), logs["penalty"].item()

    return step


def density_loop(experiment: str) -> Timed:
    """784-200-200-200-784 on binary noise: images of MNIST's size without a download."""
    config = configuration(f"experiment=binarized/{experiment}", "trainer.batch_size=128", "data=digits")
    grey = torch.randint(0, 256, (5000, 28, 28), dtype=torch.uint8).numpy()
    splits, steps = dict.fromkeys(("train", "valid", "test"), grey), config["trainer"]["steps"]
    return our_loop(config, Binarized(splits, False, seed=0, batch_size=128, eval_batch_size=1000, steps=steps))


def plain_vae(batch_size: int = 128) -> Timed:
    """Straight-through as one would write it by hand, over float images in memory: no engine and no class of ours."""
    encoder = nn.Sequential(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200))
    decoder = nn.Sequential(nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 784))
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3, fused=True)
    images = torch.randint(0, 2, (5000, 784)).float()

    def step() -> None:
        x = images[torch.randint(len(images), (batch_size,))]
        logits = encoder(x)
        p = torch.sigmoid(logits)
        b = torch.bernoulli(p) + p - p.detach()
        reconstruction = F.binary_cross_entropy_with_logits(decoder(b), x, reduction="sum")
        kl = (p * F.logsigmoid(logits) + (1 - p) * F.logsigmoid(-logits) + math.log(2)).sum()
        optimizer.zero_grad(set_to_none=True)
        ((reconstruction + kl) / batch_size).backward()
        optimizer.step()

    return step


def matmul_floor(config: dict[str, Any]) -> Timed:
    """The matrix products of one training step and nothing else, in their own shapes."""
    model = build(config, Workers()).task
    batch, products = config["trainer"]["batch_size"], []
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            x, w = torch.randn(batch, layer.in_features), torch.randn(layer.out_features, layer.in_features)
            y = torch.randn(batch, layer.out_features)
            forward, to_input, to_weight = (x, w.t()), (y, w), (y.t(), x)
            if "approximator" in name:  # `released`: a forward each for z and phi; both gradients, inputs twice
                products += [forward, forward, to_input, to_weight]
                products += [] if layer is _first(model, "approximator") else [to_input]
            else:
                products += [forward, to_weight] + ([] if layer is _first(model, "encoder") else [to_input])

    def step() -> None:
        for a, b in products:
            a @ b

    return step


def _first(model: nn.Module, part: str) -> nn.Module:
    return next(m for n, m in model.named_modules() if part in n and isinstance(m, nn.Linear))


def inference_sides(config: dict[str, Any]) -> dict[str, Timed]:
    """The stripped model against a plain network with the hard function written into it."""
    task = build(config, Workers()).task
    model = strip(task.model)
    plain_net = nn.Sequential(model.encoder, model.estimator.hard, model.read_out)
    x = torch.rand(config["trainer"]["batch_size"], model.length)
    shift, scale = model.shift, model.scale

    def run(function: Callable[[], Any]) -> Timed:
        def step() -> None:
            with torch.no_grad():
                function()

        return step

    length = model.length
    plain_call = run(lambda: plain_net((x - shift) * scale).view(-1, length, length))
    return {"stripped": run(lambda: model(x)), "plain": plain_call}


def measure_imports(rounds: int) -> dict[str, float]:
    """What `import dab` costs a program that has torch, in fresh processes."""
    clock = "import time; now = time.perf_counter; start = now()"
    code = f"{clock}; import torch; between = now(); import dab; print(between - start, now() - between)"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT) for _ in range(rounds)
    ]
    torch_seconds, ours = zip(*(map(float, run.stdout.split()) for run in runs))
    return {
        "seconds of import torch": statistics.median(torch_seconds),
        "seconds of import dab on top of it": statistics.median(ours),
        "import dab / import torch": statistics.median(o / t for o, t in zip(ours, torch_seconds)),
    }


def measure(rounds: int, length: int, threads: int) -> dict[str, float]:
    torch.set_num_threads(threads)
    base = configuration(f"data.length={length}")
    straight = configuration(f"data.length={length}", "estimator=straight_through")
    matched = configuration(f"data.length={length}", "approximator=matched")
    sides = {
        "ours": our_loop(base),
        "bare": bare_loop(base),
        "straight_through": our_loop(straight),
        "matched": our_loop(matched),
        "matmul": matmul_floor(base),
    }
    times = interleaved(sides, rounds)
    inference = interleaved(inference_sides(base), rounds)
    batch = base["trainer"]["batch_size"]
    return {
        "samples/s of our loop": batch / statistics.median(times["ours"]),
        "samples/s of the matmuls alone (the floor)": batch / statistics.median(times["matmul"]),
        "our loop / bare PyTorch loop": ratio(times, "ours", "bare"),
        "our loop / matmul floor": ratio(times, "ours", "matmul"),
        "cost of a bridge step / straight-through step": 1 / ratio(times, "ours", "straight_through"),
        "cost of a matched step / straight-through step": 1 / ratio(times, "matched", "straight_through"),
        "inference: stripped / plain with the hard function": ratio(inference, "stripped", "plain"),
    }


def measure_loader(rounds: int, length: int, threads: int) -> dict[str, float]:
    torch.set_num_threads(threads)
    base = configuration(f"data.length={length}")
    times = interleaved({"ours": our_loop(base), "loader": loader_loop(base)}, max(3, rounds // 3))
    return {"our loop / per-sample DataLoader loop": ratio(times, "ours", "loader")}


def measure_density(rounds: int, threads: int) -> dict[str, float]:
    torch.set_num_threads(threads)
    base = "straight_through"
    pair = interleaved({"ours": density_loop(base), "plain": plain_vae()}, 2 * rounds)  # close in time: less noise
    times = interleaved({name: density_loop(name) for name in (base, *DENSITY)}, rounds)
    costs = {f"cost of a {n} step / straight-through step": 1 / ratio(times, n, base) for n in DENSITY}
    return {
        "samples/s of our loop": 128 / statistics.median(pair["ours"]),
        "our loop / hand-written loop": ratio(pair, "ours", "plain"),
        **costs,
    }


def measure_codes(rounds: int, threads: int) -> dict[str, float]:
    """The autoencoder of FashionMNIST on noise of its size, images augmented nowhere and labelled anyhow."""
    torch.set_num_threads(threads)
    config = configuration("experiment=representation/fashion_mnist", "trainer.batch_size=128", "data=digits_images")
    noise = torch.randint(0, 256, (5000, 1, 28, 28), dtype=torch.uint8).numpy()
    splits = dict.fromkeys(("train", "valid", "test"), noise)
    labels = {name: pixels[:, 0, 0, 0] % 10 for name, pixels in splits.items()}
    data = LabelledImages(splits, labels, 10, seed=0, batch_size=128, eval_batch_size=1000)
    times = interleaved({"ours": our_loop(config, data), "bare": bare_loop(config, data)}, rounds)
    return {
        "images/s of our loop": 128 / statistics.median(times["ours"]),
        "our loop / bare model": ratio(times, "ours", "bare"),
    }


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure_metrics(threads: int, codes: int = 60_000, units: int = 78, images: int = 10_000) -> dict[str, float]:
    """What it takes to examine a finished run: codes that hold something of their ten labels, and noisy images."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    bits = (torch.rand(codes + 2 * images, units) < 0.5).float()
    labels = (bits @ torch.randn(units, 10) + 2 * torch.randn(len(bits), 10)).argmax(1)
    train, valid, test = zip(*(t.split([codes, images, images]) for t in (bits, labels)))
    x = torch.rand(images, 1, 28, 28)
    y = (x + 0.1 * torch.randn_like(x)).clamp(0, 1)
    return {
        f"seconds of a linear probe, {codes:,} codes of {units} bits": seconds(
            lambda: linear_probe(train, valid, test, 10)
        ),
        f"seconds of 20 neighbours for {images:,}": seconds(lambda: knn(train, test)),
        f"seconds of code statistics, {images:,}": seconds(lambda: code_statistics(test[0], 1.0)),
        f"seconds of msssim_shrink, {images:,} of 28 x 28": seconds(lambda: msssim_shrink(x, y)),
        f"seconds of msssim_upsampled, {images:,} of 28 x 28": seconds(lambda: msssim_upsampled(x, y)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--length", type=int, default=10, help="T")
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    arguments = parser.parse_args()
    keep_freed_memory()
    cores = os.cpu_count() or 1
    table: dict[str, dict[str, float]] = {}
    for threads in sorted({1, cores}):
        table[f"{threads} thread{'s' * (threads > 1)}"] = measure(arguments.rounds, arguments.length, threads)
    table[f"{cores} threads"] |= measure_loader(arguments.rounds, arguments.length, cores)
    table["density, 1 thread: 784-200-200-200-784, batch 128"] = measure_density(arguments.rounds, 1)
    table["FashionMNIST autoencoder, 1 thread: 78 bits, batch 128"] = measure_codes(arguments.rounds, 1)
    table["CIFAR10 Resnet18 of width 8, 1 thread: batch 128"] = measure_resnet(arguments.rounds, 1)
    table["forward of 128 maps of 512x4x4, 1 thread"] = measure_functions(arguments.rounds, 1)
    table["k-means of 16 points to 10, 1 thread"] = measure_kmeans(1)
    table["photos of 640x480 to 512x512, per core"] = measure_images(arguments.rounds)
    table["examining a run, 1 thread"] = measure_metrics(1)
    table["dab.compress, 1 thread: a folder, 49 trits an image"] = measure_compress()
    table["a study's cells, one at a time"] = measure_orchestration()
    table["import"] = measure_imports(5)
    table["memory"] = measure_memory()
    load = os.getloadavg()[0]
    print(f"dense sorter, T = {arguments.length}, batch 1024; load average {load:.1f} on {cores} cores")
    for group, rows in table.items():
        print(f"\n{group}")
        for name, value in rows.items():
            print(f"  {name:52} {value:12,.0f}" if value >= 1000 else f"  {name:52} {value:12.3f}")
    arguments.out.write_text(
        json.dumps({"length": arguments.length, "load": load, "cores": cores, **table}, indent=2) + "\n"
    )
    print(f"\nwrote {arguments.out}")


if __name__ == "__main__":
    main()
