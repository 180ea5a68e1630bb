"""From a checked config to a finished run: who trains, what is printed, what is left behind."""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from safetensors.torch import save_file

from dab.engine.build import Job, build, build_data, build_task
from dab.engine.config import ConfigError
from dab.engine.curves import draw_curves
from dab.engine.distributed import Workers, join_torchrun, leave_workers, pick_device, spawn, under_torchrun
from dab.engine.grids import draw_grid
from dab.engine.host import keep_freed_memory, use_threads
from dab.engine.loggers import NoLogger, open_logger
from dab.engine.loop import Interrupted, Loop, NonFinite, Stop
from dab.engine.progress import open_progress
from dab.engine.records import provenance, read_metrics, write_json
from dab.engine.run import Run, RunBusy
from dab.keys import key
from dab.strip import strip

FAILED, BAD_CONFIG, BUSY = 1, 2, 3


def launch(config: dict[str, Any]) -> int:
    """Run the job a config describes; returns the process's exit code."""
    run = Run(config)
    if config["dry_run"]:
        print(describe(run))
        return 0
    if run.result is not None and not config["force"]:
        print(f"This run is finished already (force=true starts it over).\n{closing(run)}")
        return 0
    if under_torchrun():
        leave_workers(work(join_torchrun(config["trainer"]["device"]), config))
    if config["trainer"]["devices"] > 1:
        return spawn(work, config)
    return work(Workers(device=pick_device(config["trainer"]["device"])), config)


def work(workers: Workers, config: dict[str, Any]) -> int:
    """One worker's whole life; every way a run can end is an exit code here."""
    run = Run(config)
    use_threads(config["trainer"]["threads"])
    keep_freed_memory()
    with Stop() as stop:
        try:
            if workers.first:
                _open(run)
            workers.barrier()
            train(run, workers, stop)
            return 0
        except RunBusy as error:
            _say(str(error))
            return BUSY
        except ConfigError as error:
            _fail(run, workers, f"config error: {error}")
            return BAD_CONFIG
        except NonFinite as error:
            _fail(run, workers, f"run failed: {error}")
            return FAILED
        except Interrupted:
            if workers.first:
                run.set_status("interrupted")
                _say(f"Interrupted and saved in {run.dir}; the same command goes on.")
            return 128 + (stop.signal or 15)
        except Exception as error:
            _fail(run, workers, f"run failed: {type(error).__name__}: {error}")
            traceback.print_exc()
            return FAILED
        finally:
            run.release()


def _open(run: Run) -> None:
    run.acquire()
    if run.config["force"]:
        run.clear()
    OmegaConf.save(OmegaConf.create(run.config), run.dir / "config.yaml")
    run.set_status("running")


def _fail(run: Run, workers: Workers, message: str) -> None:
    _say(message)
    if workers.first and run.dir.exists():
        run.set_status("failed", message=message)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def train(run: Run, workers: Workers, stop: Stop) -> None:
    if run.config["trainer"]["amp"] and workers.device.type == "cpu" and workers.first:
        _say("trainer.amp=true on a CPU is usually slower than float32: it is made for GPUs")
    job = build(run.config, workers)
    logger = open_logger(run, workers.first)
    progress = open_progress(run.config["trainer"]["steps"], workers.first)
    exit_code, summary = 1, None
    try:
        loop = Loop(job, run, workers, stop, logger, progress)
        loop.fit()
        summary = finish(loop, job, run, workers, logger)
        exit_code = 0
    except Interrupted:
        exit_code = 128 + (stop.signal or 15)
        raise
    finally:
        progress.close()
        logger.finish(exit_code, summary)
    if workers.first:
        print(closing(run), flush=True)


def finish(loop: Loop, job: Job, run: Run, workers: Workers, logger: NoLogger) -> dict[str, Any] | None:
    """Look at the test set once, with the weights that were best on validation, and write the record."""
    measured = {split: loop.measure(split, final=True) for split in job.task.final_splits}
    final = {f"{split}/{name}": value for split, values in measured.items() for name, value in values.items()}
    if not workers.first:
        return None
    save_file({k: v.contiguous() for k, v in strip(job.task.model).state_dict().items()}, run.dir / "model.safetensors")
    spent, samples = loop.watch.read(), loop.steps * run.config["trainer"]["batch_size"]
    result = {
        "name": run.config["name"],
        "hash": run.hash,
        "seed": run.config["seed"],
        "scale": run.config["scale"],
        "metrics": final,
        "best": {"metric": f"valid/{job.task.select}", **loop.best},
        "steps": loop.steps,
        "samples": samples,
        "seconds": round(loop._elapsed(), 3),
        **spent,
        "samples_per_second": round(samples / max(spent["train_seconds"], 1e-9), 1),
        "parameters": count_parameters(job),
        "input_shape": list(job.data.input_shape),
        "curve": curve(read_metrics(run.dir / "metrics.jsonl"), f"valid/{job.task.select}"),
        "threads": torch.get_num_threads(),
        "world": workers.world,
        "device": workers.device.type,
        "finished": time.time(),
        "provenance": provenance(),
        "config": run.config,
    }
    curves = draw_curves(read_metrics(run.dir / "metrics.jsonl"), job.task.select, run.dir / "figures" / "curves.png")
    for name, path in {"curves": curves, **draw_pictures(job, run.dir / "figures")}.items():
        logger.image(name, path)
    (run.dir / "best.pt").unlink(missing_ok=True)  # model.safetensors holds these weights
    write_json(run.dir / "result.json", result)
    run.set_status("finished", step=loop.steps, steps=loop.steps)
    return {**final, "samples_per_second": result["samples_per_second"], "seconds": result["seconds"]}


@torch.no_grad()
def draw_pictures(job: Job, folder: Path) -> dict[str, Path]:
    torch.manual_seed(key("pictures"))
    pictures = job.task.eval().pictures(job.data.batches("test"))
    return {name: draw_grid(images, folder / f"{name}.png") for name, images in pictures.items()}


def curve(rows: list[dict[str, Any]], metric: str) -> dict[str, list[float | None]]:
    """Every evaluation while training, column by column: step, times, and what was measured."""
    chosen = [row for row in rows if metric in row]
    return {name: [row.get(name) for row in chosen] for name in chosen[-1]} if chosen else {}


def count_parameters(job: Job) -> dict[str, int]:
    return {
        "training": sum(p.numel() for p in job.task.parameters()),
        "inference": sum(p.numel() for p in strip(job.task.model).parameters()),
    }


def closing(run: Run) -> str:
    """What a person wants to know when a run is over."""
    result = run.result
    assert result is not None
    numbers = "\n".join(f"  {name:24} {value:.5g}" for name, value in result["metrics"].items())
    return (
        f"{result['name']} {result['hash']}, seed {result['seed']}, scale {result['scale']}: "
        f"{result['steps']:,} steps, {result['seconds']:.0f} s, {result['samples_per_second']:,.0f} samples/s\n"
        f"{numbers}\n"
        f"  best {result['best']['metric']} at step {result['best']['step']:,}\n"
        f"Files   {run.dir}/ (result.json, metrics.jsonl, model.safetensors, figures/curves.png)\n"
        f"Try     python -m dab.predict {run.dir} INPUT...     (a sorter: the numbers to sort)\n"
        f"        python train.py -m seed=0,1,2        python train.py --help"
    )


def describe(run: Run) -> str:
    """The answer to `dry_run=true`."""
    workers = Workers()
    data = build_data(run.config, workers)
    task = build_task(run.config, data.input_shape)
    trainer = run.config["trainer"]
    with_bridge = sum(p.numel() for p in task.parameters())
    without = sum(p.numel() for p in strip(task.model).parameters())
    return (
        f"{OmegaConf.to_yaml(OmegaConf.create(run.config))}\n{task}\n\n"
        f"parameters     {with_bridge:,} in training, {without:,} at inference\n"
        f"steps          {trainer['steps']:,} of batch {trainer['batch_size']:,} = "
        f"{trainer['steps'] * trainer['batch_size']:,} samples\n"
        f"state          {run.status['state']}\n"
        f"run directory  {Path(run.dir)}"
    )
