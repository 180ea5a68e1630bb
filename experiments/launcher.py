"""The jobs of a sweep, each a `train.py` of its own: what happens to one happens to it alone."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig

from dab.engine.compose import resolve_job
from dab.engine.config import ConfigError, check_cluster
from dab.engine.run import Run
from dab.engine.sweep import Outcome, note, reason_of
from experiments.executors import Command, Executor, Job, open_executor
from experiments.trainings import HERE

POLL_SECONDS = 0.1


def launch(config: DictConfig, job_overrides: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
    """first: the number of the first of these jobs in the sweep"""
    folder, options = Path(config.hydra.sweep.dir), check_cluster(config)
    searched = [word for word in config.hydra.overrides.hydra if word.startswith("hydra.searchpath=")]
    words = [[*(word for word in one if not _says_where(word)), *searched] for one in job_overrides]
    print(f"{len(words)} jobs for {options['engine']}; what they print is in {folder}/", flush=True)
    with open_executor(options, HERE, "dab-sweep", folder / ".jobs") as executor:
        return _Queue(words, folder, first).run(executor)


def _says_where(override: str) -> bool:
    """A word for the sweep, not for its jobs."""
    return override.startswith(("cluster=", "cluster."))


class _Queue:
    def __init__(self, words: Sequence[Sequence[str]], folder: Path, first: int):
        self.words, self.folder, self.first = words, folder, first
        self.waiting, self.running = list(range(len(words))), dict[int, Job]()
        self.returns: dict[int, JobReturn] = {}

    def run(self, executor: Executor) -> list[JobReturn]:
        """Every job to its end; asked to stop (Ctrl-C), those that run save themselves first."""
        try:
            while self.waiting or self.running:
                while self.waiting and len(self.running) < executor.at_once:
                    index = self.waiting.pop(0)
                    self.running[index] = executor.submit(self._command(index))
                self._collect()
                time.sleep(POLL_SECONDS)
        except BaseException:
            for job in self.running.values():
                job.cancel()
            while any(job.poll() is None for job in self.running.values()):
                time.sleep(POLL_SECONDS)
            raise
        return [self.returns[index] for index in range(len(self.words))]

    def _command(self, index: int) -> Command:
        script = HERE.root / "train.py"
        return Command((str(script), *self.words[index]), self.folder / f"{self.first + index}.log")

    def _collect(self) -> None:
        for index, job in list(self.running.items()):
            if (code := job.poll()) is None:
                continue
            del self.running[index]
            outcome = self._outcome(index, code)
            note(self.folder, self.first + index, outcome)
            best = outcome.result["best"] if outcome.result else {"metric": "done", "value": math.nan}
            said = outcome.reason or f"{best['metric']} {best['value']:.4g}"
            print(f"[{len(self.returns) + 1}/{len(self.words)}] {' '.join(self.words[index])}: {said}", flush=True)
            ended = JobReturn(list(self.words[index]), status=JobStatus.COMPLETED)
            ended.return_value = best["value"]
            self.returns[index] = ended

    def _outcome(self, index: int, code: int) -> Outcome:
        words, log = self.words[index], self.folder / f"{self.first + index}.log"
        try:
            run = Run(resolve_job(words))
        except ConfigError as error:
            return Outcome(words, None, f"config error: {error}")
        if code:
            return Outcome(words, None, f"{reason_of(run, code)}, see {log}", run.status.get("traceback", ""))
        return Outcome(words, None if run.config["dry_run"] else run.result)
