"""From a checked config to a finished run: who trains, what is printed, what is left behind."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from dab.data.files import DataError
from dab.engine.build import build, build_data, build_optimizer, build_task, make
from dab.engine.checkpoint import Unusable
from dab.engine.config import ConfigError
from dab.engine.distributed import Workers, join_torchrun, leave_workers, pick_device, spawn, under_torchrun
from dab.engine.exits import BAD_CONFIG, BUSY, FAILED, INTERRUPTED
from dab.engine.finish import closing, count, finish
from dab.engine.host import check_host, keep_freed_memory, use_threads
from dab.engine.loggers import open_logger
from dab.engine.loop import Loop, NonFinite
from dab.engine.progress import open_progress
from dab.engine.provenance import note_start
from dab.engine.run import Run, RunBusy
from dab.engine.stop import Interrupted, Stop
from dab.strip import strip


def launch(config: dict[str, Any]) -> int:
    """Run the job a config describes; returns the process's exit code."""
    check_host(config["trainer"])
    run = Run(config)
    if config["dry_run"]:
        print(describe(run))
        return 0
    if run.result is not None and not config["force"]:
        if run.status["state"] != "finished":
            run.set_status("finished")  # a crash came between the record and this
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
        except (ConfigError, DataError) as error:
            _fail(run, workers, f"config error: {error}")
            return BAD_CONFIG
        except (NonFinite, Unusable) as error:
            _fail(run, workers, f"run failed: {error}")
            return FAILED
        except Interrupted:
            if workers.first:
                run.set_status("interrupted")
                _say(f"Interrupted and saved in {run.dir}; the same command goes on.")
            return INTERRUPTED + (stop.signal or 15)
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
    note_start(run.dir)
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
