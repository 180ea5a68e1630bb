"""A Resnet18 with a hard function inside: its step, and what the functions themselves cost."""

from __future__ import annotations

import statistics
import time
import warnings
from typing import Any

import numpy as np
import torch
from bench_loops import Timed, bare_loop, configuration, interleaved, our_loop, ratio
from torch import Tensor

from dab.data.images import LabelledImages
from dab.hard import KMeans, Sort, Sort1d, TopK

ROWS = {
    "no hard function": "estimator=no_hard",
    "NCHW instead of channels last": "estimator=no_hard model.channels_last=false",
    "sort, true gradient": "hard=sort estimator=true_gradient",
    "sort, dense bridge": "hard=sort",
    "sort, lines": "hard=sort approximator=lines",
    "sort, matched": "hard=sort approximator=matched",
    "sort, fitted": "hard=sort estimator=fitted",
    "sort1d, matched": "hard=sort1d model.head=flat approximator=matched",
    "k-means, straight-through": "hard=kmeans model.head=flat estimator=straight_through",
    "k-means, matched": "hard=kmeans model.head=flat approximator=matched",
}


def image_noise(config: dict[str, Any], count: int = 2560) -> LabelledImages:
    """Noise of the size of CIFAR10's images, augmented as they are."""
    noise = np.random.RandomState(0).randint(0, 256, (count, 3, 32, 32)).astype(np.uint8)
    splits = dict.fromkeys(("train", "valid", "test"), noise)
    labels = {name: pixels[:, 0, 0, 0] % 10 for name, pixels in splits.items()}
    sizes = {"batch_size": config["trainer"]["batch_size"], "eval_batch_size": 1000}
    return LabelledImages(splits, labels, 10, crop=4, flip=True, seed=0, **sizes)


def resnet(words: str) -> dict[str, Any]:
    return configuration("experiment=classification/cifar10", "trainer.batch_size=128", *words.split())


def measure_loop(rounds: int, threads: int) -> dict[str, float]:
    """The engine's loop against the same model in a bare one."""
    torch.set_num_threads(threads)
    plain = resnet(ROWS["no hard function"])
    pair = {"ours": our_loop(plain, image_noise(plain)), "bare": bare_loop(plain, image_noise(plain))}
    times = interleaved(pair, rounds, chunk=4)
    return {
        "images/s of our loop": 128 / statistics.median(times["ours"]),
        "our loop / bare model": ratio(times, "ours", "bare"),
    }


def measure_resnet(rounds: int, threads: int) -> dict[str, float]:
    found = measure_loop(rounds, threads)
    loops = {name: our_loop(config := resnet(words), image_noise(config)) for name, words in ROWS.items()}
    costs = interleaved(loops, max(2, rounds // 3), chunk=2)
    return found | {f"cost of a step: {n}": 1 / ratio(costs, n, "no hard function") for n in list(ROWS)[1:]}


def without_gradient(function: Any, z: Tensor) -> Timed:
    def step() -> None:
        with torch.no_grad():
            function(z)

    return step


def measure_functions(rounds: int, threads: int, batch: int = 128, channels: int = 512) -> dict[str, float]:
    """The hard functions against one torch.sort along the rows."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    z = torch.randn(batch, channels, 4, 4)
    functions = {"sort": Sort(), "sort1d": Sort1d(), "topk 2": TopK(2), "kmeans 10": KMeans()}
    sides = {name: without_gradient(function, z) for name, function in functions.items()}
    times = interleaved({"torch.sort": without_gradient(torch.sort, z), **sides}, rounds, chunk=2)
    costs = {f"cost of {name} / torch.sort": 1 / ratio(times, name, "torch.sort") for name in functions}
    return {"ms of torch.sort along rows": 1000 * statistics.median(times["torch.sort"]), **costs}


def measure_kmeans(threads: int, batch: int = 128, channels: int = 512) -> dict[str, float]:
    """All samples at once against scikit-learn, one after the other; equal iterations, and what is left of distance."""
    from sklearn.cluster import KMeans as Theirs
    from sklearn.exceptions import ConvergenceWarning

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    z = torch.randn(batch, channels, 4, 4)
    points = z.flatten(2).mT.contiguous()  # [B, 16, C]
    found: dict[str, float] = {}
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = [Theirs(10, n_init=1, max_iter=10, random_state=0).fit(sample.numpy()) for sample in points]
    seconds = time.process_time() - start
    inertia = statistics.fmean(model.inertia_ for model in theirs)
    for rule in ("farthest", "kmeans++"):
        ours = KMeans(start=rule)
        start = time.process_time()
        for _ in range(10):
            quantized = ours(z)
        found[f"{rule}: faster than scikit-learn, times"] = 10 * seconds / (time.process_time() - start)
        left = (z - quantized).square().flatten(1).sum(1).mean().item()
        found[f"{rule}: inertia / scikit-learn's"] = left / inertia
    return found
