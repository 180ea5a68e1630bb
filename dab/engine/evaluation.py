"""What a task says of itself: while it trains, at the end of its run, and later from its saved weights."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dab.data.dataset import Dataset
from dab.engine.distributed import Workers
from dab.engine.stop import Interrupted, Stop
from dab.keys import key, seed_device
from dab.tasks.task import Task


def measure(
    task: Task, data: Dataset, split: str, workers: Workers, stop: Stop, final: bool = False
) -> dict[str, float]:
    """The metrics of one split, with random numbers of its own: measured again they are the same."""
    torch.manual_seed(key("evaluate", split, workers.rank))
    workers.align(task.buffers())  # running statistics differ between workers, and the first one's are saved
    of_batch = partial(task.measure_final, split=split) if final else task.measure
    return means(task, of_batch, data.batches(split), workers, stop)


@torch.no_grad()
def means(
    task: Task, of_batch: Callable[[Any], dict[str, Tensor]], batches: Iterable[Any], workers: Workers, stop: Stop
) -> dict[str, float]:
    """Of what `of_batch` says of every sample of all workers, summed up by the task; Interrupted if one was stopped."""
    task.eval()
    totals: dict[str, Tensor] = {}
    count = 0
    for batch in batches:
        if stop.signal:
            break
        for name, values in of_batch(batch).items():
            total = values.double().sum(0)
            totals[name] = totals[name] + total if name in totals else total
        count += len(values)
    task.train()
    if workers.any(bool(stop.signal)):
        raise Interrupted
    shapes = workers.told({name: total.shape for name, total in totals.items()})  # some may have had no sample at all
    nothing = {name: torch.zeros(shape, dtype=torch.double, device=workers.device) for name, shape in shapes.items()}
    totals = nothing | totals
    flat = [*(total.flatten() for total in totals.values()), torch.tensor([count], device=workers.device)]
    sums = workers.sum(torch.cat(flat)).cpu()
    parts = sums.div(sums[-1]).split([total.numel() for total in totals.values()] + [1])
    return task.summary({name: part.view(total.shape) for (name, total), part in zip(totals.items(), parts)})


def final_metrics(task: Task, data: Dataset, workers: Workers, stop: Stop, only: str | None = None) -> dict[str, float]:
    """All a record holds: the metrics of every final split, and what the task finds by examining whole ones.

    only    this split's
    """
    splits = task.final_splits if only is None else (only,)
    measured = {split: measure(task, data, split, workers, stop, final=True) for split in splits}
    metrics = {f"{split}/{name}": value for split, values in measured.items() for name, value in values.items()}
    found = examine(task, data, workers)
    if twice := sorted(metrics.keys() & found.keys()):
        raise ValueError(
            f"{type(task).__name__}.examine names {', '.join(twice)}, which `measure` has measured already"
        )
    return {**metrics, **{name: v for name, v in found.items() if only is None or name.startswith(f"{only}/")}}


def examine(task: Task, data: Dataset, workers: Workers) -> dict[str, float]:
    with aside(task, "examine", workers.rank, device=workers.device) as examined:
        return {name: float(value) for name, value in examined.eval().examine(data, workers).items()}


def diagnose(task: Task, data: Dataset, step: int, seed: int, workers: Workers) -> dict[str, float]:
    """What the task has to say about training, on the batch of the next step: means over the workers."""
    if not task.diagnoses:
        return {}
    batch = data.batch(step)
    with aside(task, "diagnose", seed, step, workers.rank, device=workers.device) as diagnosed:
        logs = diagnosed.diagnose(batch)
    if not logs:
        return {}
    values = workers.sum(torch.stack(list(logs.values())).double()) / workers.world
    return dict(zip(logs, values.tolist()))


@contextlib.contextmanager
def aside(task: Task, *parts: int | str, device: torch.device) -> Iterator[Task]:
    """A copy of the task and keyed random numbers: what happens to them inside leaves no trace outside."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        seed_device(key(*parts), device)
        yield copy.deepcopy(task)
