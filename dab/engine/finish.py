"""The end of a run: measured, drawn, recorded, told.

The record comes last. Until it is there the same command does all of this again from the checkpoint, which holds the
best weights too; so it does not matter between which two files a crash falls.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from dab.engine import provenance
from dab.engine.build import Job
from dab.engine.checkpoint import digest, replace
from dab.engine.curves import draw_curves
from dab.engine.evaluation import final_metrics
from dab.engine.grids import draw_grid
from dab.engine.hints import hints
from dab.engine.loggers import NoLogger
from dab.engine.loop import Loop
from dab.engine.norms import is_synchronised
from dab.engine.records import damaged, read_metrics, write_json
from dab.engine.run import Run
from dab.engine.storage import Unusable, told
from dab.keys import key
from dab.strip import strip

TOLERANCE = 1e-3  # between two measurements of the same weights; on one machine's CPU they are equal


def finish(loop: Loop, logger: NoLogger) -> dict[str, Any] | None:
    """Look at the test set once, with the weights that were best on validation, and write the record."""
    job, run = loop.job, loop.run
    with loop.workers.patient():
        metrics = final_metrics(job.task, job.data, loop.workers, loop.stop)
    confirm(loop, metrics)
    if not loop.workers.first:
        return None
    run.lock.check_mine()
    model = strip(job.task.model)
    save_weights(model, run.dir / "model.safetensors")
    rows = read_metrics(run.dir / "metrics.jsonl")
    for name, path in draw(job, rows, run.dir / "figures").items():
        logger.image(name, path)
    result = record(loop, metrics, rows, model)
    write_json(run.dir / "result.json", result)
    run.set_status("finished", step=loop.steps, steps=loop.steps)
    return {**metrics, "samples_per_second": result["samples_per_second"], "seconds": result["seconds"]}


def confirm(loop: Loop, metrics: dict[str, float]) -> None:
    """Nothing is reported of weights that do not measure again what they were kept for."""
    name, then = f"valid/{loop.job.task.select}", loop.best.value
    now = metrics.get(name)
    if then is None or now is None or math.isclose(now, then, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        return
    message = f"the best weights, of step {loop.best.step}, had {name} {then:.6g} and now have {now:.6g}"
    if loop.run.config["resume"] == "exact":
        raise Unusable(f"{message}: data, code or machine changed; force=true starts over, resume=anyway reports it")
    print(message, flush=True)


def save_weights(model: nn.Module, path: Path) -> None:
    tensors = {name: value.contiguous() for name, value in model.state_dict().items()}
    content = save(tensors)  # by our hands: save_file makes files that nobody else may read, whatever the umask
    replace(path, lambda temporary: temporary.write_bytes(content))


@torch.no_grad()
def draw(job: Job, rows: list[dict[str, Any]], folder: Path) -> dict[str, Path]:
    """Pictures for a person, by name: the training curves and what the task has to show."""
    torch.manual_seed(key("pictures"))
    grids = job.task.eval().pictures(job.data.batches("test"))
    with told(folder):
        curves = draw_curves(rows, job.task.select, folder / "curves.png")
        return {"curves": curves, **{name: draw_grid(grid, folder / f"{name}.png") for name, grid in grids.items()}}


def record(loop: Loop, metrics: dict[str, float], rows: list[dict[str, Any]], model: nn.Module) -> dict[str, Any]:
    """result.json; `model` is the one for inference.

    weights     the sha256 of what is in model.safetensors
    resumed     the steps at which the training was taken up again: none, if it is of one piece
    damage      to metrics.jsonl, and so to `curve`, in between
    worlds      how many workers there were, from which step on
    """
    job, config, workers = loop.job, loop.run.config, loop.workers
    spent, samples = loop.watch.read(), loop.steps * config["trainer"]["batch_size"]
    select = f"valid/{job.task.select}"
    return {
        "name": loop.run.name,
        "hash": loop.run.hash,
        "seed": config["seed"],
        "scale": config["scale"],
        "metrics": metrics,
        "best": {"metric": select, **loop.best.entry()},
        "weights": digest(model.state_dict()),
        "resumed": loop.resumed,
        "damage": loop.damage,
        "steps": loop.steps,
        "samples": samples,
        "seconds": round(loop.elapsed(), 3),
        **spent,
        "samples_per_second": round(samples / max(spent["train_seconds"], 1e-9), 1),
        "parameters": {"training": count(job.task), "inference": count(model)},
        "input_shape": list(job.data.input_shape),
        "curve": curve(rows, select),
        "threads": torch.get_num_threads(),
        "world": workers.world,
        "worlds": loop.worlds,
        "across_workers": across_workers(loop),
        "device": workers.device.type,
        "finished": time.time(),
        "provenance": provenance.whole(loop.run.dir),
        "config": config,
    }


def across_workers(loop: Loop) -> list[str]:
    """What of these numbers is due to their having been made by several workers: one would have drawn other noise."""
    if all(world == 1 for _, world in loop.worlds):
        return []
    modules = [*loop.job.task.modules()]
    names = {type(m).__name__: None for m in modules if not getattr(m, "row_wise", True)}
    return [
        "noise: every worker draws its own, keyed by (seed, step, rank); data and augmentation are the global batch's",
        *(["batch norm: over the rows of all workers"] if any(map(is_synchronised, modules)) else []),
        *(f"{name}: over each worker's own rows" for name in names),
    ]


def curve(rows: list[dict[str, Any]], metric: str) -> dict[str, list[float | None]]:
    """Every evaluation while training, column by column: step, times, and what was measured."""
    chosen = [row for row in rows if metric in row]
    return {name: [row.get(name) for row in chosen] for name in chosen[-1]} if chosen else {}


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def closing(run: Run) -> str:
    """What a person wants to know when a run is over."""
    result = run.result
    assert result is not None
    try:
        return _told(run, result)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged(run.dir / "result.json", f"no record of a run: {type(error).__name__} {error}") from error


def _told(run: Run, result: dict[str, Any]) -> str:
    numbers = "\n".join(f"  {name:24} {value:.5g}" for name, value in result["metrics"].items())
    resumed = ", ".join(f"{step:,}" for step in result.get("resumed", []))
    return (
        f"{result['name']} {result['hash']}, seed {result['seed']}, scale {result['scale']}: "
        f"{result['steps']:,} steps, {result['seconds']:.0f} s, {result['samples_per_second']:,.0f} samples/s"
        f"{resumed and f', resumed at step {resumed}'}\n"
        f"{numbers}\n"
        f"  best {result['best']['metric']} at step {result['best']['step']:,}\n"
        f"Files   {run.dir}/ (result.json, metrics.jsonl, model.safetensors, figures/curves.png)\n"
        "Try     " + "\n        ".join(hints(run, result))
    )
