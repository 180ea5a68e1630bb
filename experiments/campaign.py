"""Runs what is missing: some cells at a time, each a command of its own, wherever an executor runs it."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType

from dab.engine.exits import BUSY
from dab.engine.records import write_json
from experiments.executors import Command, Executor, Job
from experiments.provenance import is_clean
from experiments.runs import progress, run_of, state
from experiments.study import Cell, Record, Records
from experiments.trainings import Trainings
from experiments.works import Works

POLL_SECONDS = 0.05


def missing(cells: Sequence[Cell], kind: Trainings | Works, records: Records, only_dirty: bool = False) -> list[Cell]:
    """What a campaign has to do; with only_dirty, what uncommitted code has done."""
    if not only_dirty:
        return [cell for cell in cells if state(cell, kind.scale, records, kind.runs) != "done"]
    return [cell for cell in cells if (record := records.of(cell)) is not None and not is_clean(record)]


def shared(cells: Sequence[Cell], kind: Trainings, known: Iterable[Record]) -> dict[Cell, Record]:
    """Cells whose very run another study has: the same configuration and seed, hence the same hash."""
    by_hash = {record["hash"]: record for record in known}
    hashes = {cell: run_of(cell, kind.scale, kind.runs).hash for cell in cells}
    return {cell: by_hash[found] for cell, found in hashes.items() if found in by_hash}


class Campaign:
    """A queue of cells and the jobs that work on it. Stopping it stops them, and each saves itself."""

    def __init__(self, name: str, waiting: Sequence[Cell], kind: Trainings | Works, records: Records):
        self.name, self.waiting, self.kind, self.records = name, list(waiting), kind, records
        self.total, self.stopped = len(self.waiting), 0
        self.failed: dict[Cell, dict[str, str]] = {}
        self.running: dict[Cell, Job] = {}
        self.elsewhere: set[Cell] = set()  # what had to wait for another process

    def run(self, executor: Executor) -> int:
        """Exit code: 0 all done, 1 some failed, 128 + signal when stopped."""
        before = {s: signal.signal(s, self._stop) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            while self.running or (self.waiting and not self.stopped):
                while len(self.running) < executor.at_once and not self.stopped and (cell := self._next()):
                    self.running[cell] = executor.submit(self._command(cell))
                    if self.stopped:  # meanwhile
                        self.running[cell].cancel()
                self._collect()
                time.sleep(POLL_SECONDS)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.total:
            self._summarise()
        return 128 + self.stopped if self.stopped else int(bool(self.failed))

    def _next(self) -> Cell | None:
        """The first that waits and that no other process is training."""
        for cell in self.waiting:
            if not self.kind.is_taken(cell):
                self.waiting.remove(cell)
                return cell
            if cell not in self.elsewhere:
                self.elsewhere.add(cell)
                print(f"{cell.id}: another process is training it; waiting for its end", flush=True)
        return None

    def _command(self, cell: Cell) -> Command:
        log = self._log(cell)
        log.unlink(missing_ok=True)
        return Command(tuple(self.kind.words(cell)), log)

    def _log(self, cell: Cell) -> Path:
        return self.kind.runs / "campaign-logs" / f"{self.kind.scale}.{cell.id}.log"

    def _collect(self) -> None:
        for cell, job in list(self.running.items()):
            if (code := job.poll()) is None:
                continue
            del self.running[cell]
            if code == BUSY:  # another was faster: no failure of this one
                self.waiting.append(cell)
                continue
            record = self.kind.keep(cell, self.records) if code == 0 else None
            log = os.path.relpath(self._log(cell))
            if record is None and not self.stopped:
                self.failed[cell] = {"ended": _complaint(code), "log": log, **self.kind.failure(cell)}
            outcome = _outcome(record) if record else f"{_complaint(code)}, see {log}"
            done = self.total - len(self.waiting) - len(self.running)
            print(f"[{done}/{self.total}] {cell.id}: {outcome}", flush=True)

    def _summarise(self) -> None:
        """What failed, once more at the end, and in a file with all that is known of it."""
        path = self.kind.runs / "campaign-logs" / f"{self.kind.scale}.{self.name.replace('/', '-')}.summary.json"
        left = len(self.waiting)
        path.parent.mkdir(parents=True, exist_ok=True)
        failed = {cell.id: told for cell, told in self.failed.items()}
        write_json(path, {"cells": self.total, "left": left, "failed": failed, "time": time.time()})
        if failed:
            lines = [f"  {name}: {told.get('message', told['ended'])}" for name, told in failed.items()]
            print("\n".join([f"{len(failed)} of {self.total} cells failed ({os.path.relpath(path)}); the same command "
                             "tries them again:", *lines]), flush=True)  # fmt: skip

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self.stopped = number
        for job in self.running.values():
            job.cancel()


def _outcome(record: Record) -> str:
    if "best" in record:
        name = record["best"]["metric"].replace("valid/", "test/")
    else:
        name = next(name for name in record["metrics"] if name.startswith("test/"))
    clean = "" if is_clean(record) else " (uncommitted code)"
    return f"{name} {record['metrics'][name]:.4f} in {record['seconds']:.0f} s{clean}"


def _complaint(code: int) -> str:
    """A run that ends well elsewhere than expected had another configuration: that of the commit."""
    return f"exit {code}" if code else "the commit makes another run of it than the working tree: commit first"


def status(cells: Sequence[Cell], scale: str, records: Records, runs: Path | None = None) -> str:
    """As things stand now, whoever is at work on them and wherever: it is read from the runs' own files."""
    states = {cell: state(cell, scale, records, runs) for cell in cells}
    lines = [f"{found:12} {cell.id}{progress(cell, scale, runs, found)}" for cell, found in states.items()]
    counts = [f"{count} {name}" for name, count in Counter(states.values()).items()]
    unclean = sum(not is_clean(record) for cell in cells if (record := records.of(cell)) is not None)
    return "\n".join([*lines, ", ".join(counts) + (f"; {unclean} not clean" if unclean else "")])
