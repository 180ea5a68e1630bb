"""From a checked config to a finished run: who trains, what is printed, what is left behind."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from dab.data.files import DataError
from dab.engine import checkpoint
from dab.engine.build import build, build_data, build_optimizer, build_task, make
from dab.engine.config import ConfigError, check_shares
from dab.engine.distributed import (
    WorkerDied,
    Workers,
    join_torchrun,
    leave_workers,
    lost_a_worker,
    pick_device,
    spawn,
    under_torchrun,
)
from dab.engine.exits import BAD_CONFIG, BUSY, CHANGED, FAILED, INTERRUPTED
from dab.engine.finish import closing, count, finish
from dab.engine.host import check_host, keep_freed_memory, use_threads
from dab.engine.lock import LinkInRun, RunBusy
from dab.engine.loggers import open_logger
from dab.engine.loop import Loop, NonFinite
from dab.engine.progress import open_progress
from dab.engine.provenance import differences, note_start
from dab.engine.run import Run
from dab.engine.stop import Interrupted, Stop
from dab.engine.storage import Unusable
from dab.strip import strip

SHOWN = 4  # differences that are named


class Changed(Exception):
    """What a run is made of is no longer what it was made of so far."""


def launch(config: dict[str, Any]) -> int:
    """Run the job a config describes; returns the process's exit code."""
    check_host(config["trainer"])
    if under_torchrun():
        config = _on_all_of_torchrun(config)
    run = Run(config)
    if config["dry_run"]:
        print(describe(run))
        return 0
    try:
        if not config["force"] and run.result is not None:
            print(already_finished(run))
            return 0
    except Changed as error:
        _say(str(error))
        return CHANGED
    except Unusable as error:
        _say(f"run failed: {error}")
        return FAILED
    if under_torchrun():
        leave_workers(work(join_torchrun(config["trainer"]["device"], config["trainer"]["timeout"]), config))
    if config["trainer"]["devices"] > 1:
        return _spawned(run)
    return work(Workers(device=pick_device(config["trainer"]["device"])), config)


def _on_all_of_torchrun(config: dict[str, Any]) -> dict[str, Any]:
    """trainer.devices is what torchrun started: it is part of what a run is, whoever goes on with it."""
    given, world = config["trainer"]["devices"], int(os.environ["WORLD_SIZE"])
    if given not in (1, world):
        if config["resume"] == "anyway":
            check_shares(config["trainer"], world)
            return config
        raise ConfigError(
            f"trainer.devices={given}, but torchrun started {world} workers: leave trainer.devices out, or go on with "
            f"the run of {given} workers on {world} by resume=anyway"
        )
    check_shares(config["trainer"], world)
    return {**config, "trainer": {**config["trainer"], "devices": world}}


def already_finished(run: Run) -> str:
    """What is said of a run whose record is there."""
    said = closing(run)
    check_unchanged(run)
    if run.status["state"] != "finished":
        _note(run, "finished")  # a crash came between the record and this
    return f"This run is finished already (force=true starts it over).\n{said}"


def check_unchanged(run: Run) -> None:
    """Raise Changed if the numbers that are there come from other code or options than those of now."""
    found = differences(run.dir, run.config)
    if found and run.config["resume"] == "exact":
        named = "; ".join(found[:SHOWN]) + (f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
        raise Changed(
            f"{run.dir} was trained with other code or options ({named}): force=true starts it over, "
            "resume=anyway takes it as it is"
        )


def _spawned(run: Run) -> int:
    try:
        return spawn(work, run.config)
    except WorkerDied as error:
        _fail(run, Workers(), f"run failed: {error}")
        return FAILED


def work(workers: Workers, config: dict[str, Any]) -> int:
    """One worker's whole life; every way a run can end is an exit code here."""
    run = Run(config)
    use_threads(config["trainer"]["threads"])
    keep_freed_memory()
    with Stop() as stop:
        try:
            if refused := _opened(run, workers):
                return refused
            train(run, workers, stop)
            return 0
        except (ConfigError, DataError) as error:
            _fail(run, workers, f"config error: {error}")
            return BAD_CONFIG
        except (NonFinite, Unusable) as error:
            _fail(run, workers, f"run failed: {error}")
            return FAILED
        except RunBusy as error:  # lost to another machine: what is in the directory is that one's
            _say(str(error))
            return BUSY
        except Interrupted:
            if workers.first:
                _note(run, "interrupted")
                _say(f"Interrupted and saved in {run.dir}; the same command goes on.")
            return INTERRUPTED + (stop.signal or 15)
        except Exception as error:
            if workers.world > 1 and lost_a_worker(error):
                return _without(workers.silent(), run, workers)
            _fail(run, workers, f"run failed: {type(error).__name__}: {error}")
            traceback.print_exc()
            return FAILED
        finally:
            run.release()


def _without(silent: list[int], run: Run, workers: Workers) -> int:
    """The end of a worker that some of the others have left waiting."""
    named = ", ".join(str(rank + 1) for rank in silent)
    who = f"worker {named} of {workers.world} does not answer any more" if silent else "another worker of it is gone"
    first = min(rank for rank in range(workers.world) if rank not in silent)
    _fail(run, workers, f"run failed: {who}; the same command goes on", noted=workers.rank == first)
    return FAILED


def _opened(run: Run, workers: Workers) -> int:
    """The first worker takes the directory; all learn why it could not: an exit code, or 0."""
    code = 0
    if workers.first:
        try:
            _open(run)
        except (RunBusy, Changed) as error:
            _say(str(error))
            code = BUSY if isinstance(error, RunBusy) else CHANGED
        except LinkInRun as error:
            _say(f"run refused: {error}")
            code = BAD_CONFIG
        except Unusable as error:
            _fail(run, workers, f"run failed: {error}")
            code = FAILED
    return int(workers.sum(torch.tensor(code, device=workers.device)))


def _open(run: Run) -> None:
    run.acquire()
    if run.config["force"]:
        run.clear()
    run.refuse_links()
    if not run.config["force"] and checkpoint.exists(run.dir):
        check_unchanged(run)
    config = OmegaConf.create(run.config)
    checkpoint.replace(run.dir / "config.yaml", lambda temporary: OmegaConf.save(config, temporary))
    note_start(run.dir, run.config)
    run.set_status("running")


def _fail(run: Run, workers: Workers, message: str, noted: bool | None = None) -> None:
    """In an except clause: what happened is said, and kept with its traceback in the run's directory.

    noted: whether this worker writes it down; else the first one does
    """
    _say(message)
    if (workers.first if noted is None else noted) and run.dir.exists():
        _note(run, "failed", message=message, traceback=traceback.format_exc())


def _note(run: Run, state: str, **details: Any) -> None:
    """Into status.json, if it can be: how a run ends does not depend on it."""
    with contextlib.suppress(Unusable):
        run.set_status(state, **details)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def train(run: Run, workers: Workers, stop: Stop) -> None:
    if run.config["trainer"]["amp"] and workers.device.type == "cpu" and workers.first:
        _say("trainer.amp=true on a CPU is usually slower than float32: it is made for GPUs")
    job = build(run.config, workers)
    logger = open_logger(run, workers.first)
    progress = open_progress(run.config["trainer"]["steps"], workers.first, job.task.select)
    exit_code, summary = 1, None
    try:
        loop = Loop(job, run, workers, stop, logger, progress)
        loop.fit()
        summary = finish(loop, logger)
        exit_code = 0
    except Interrupted:
        exit_code = INTERRUPTED + (stop.signal or 15)
        raise
    finally:
        progress.close()
        logger.finish(exit_code, summary)
    if workers.first:
        print(closing(run), flush=True)


def describe(run: Run) -> str:
    """The answer to `dry_run=true`."""
    workers = Workers()
    data = build_data(run.config, workers)
    task = build_task(run.config, data.input_shape)
    build_optimizer(run.config, task), make(run.config, "schedule")  # what they refuse is to be heard here too
    trainer = run.config["trainer"]
    return (
        f"{OmegaConf.to_yaml(OmegaConf.create(run.config))}\n{task}\n\n"
        f"parameters     {count(task):,} in training, {count(strip(task.model)):,} at inference\n"
        f"steps          {trainer['steps']:,} of batch {trainer['batch_size']:,} = "
        f"{trainer['steps'] * trainer['batch_size']:,} samples\n"
        f"state          {run.status['state']}\n"
        f"run directory  {Path(run.dir)}"
    )
