"""Runs what is missing: some `train.py` at a time, one thread each, each resumable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from experiments.study import ROOT, RUNS, Cell, Records, run_of, state

POLL_SECONDS = 0.2


class Campaign:
    """A queue of cells and the processes that work on it. Stopping it stops them, and each saves itself."""

    def __init__(self, cells: Sequence[Cell], scale: str, records: Records, jobs: int):
        self.scale, self.records, self.jobs = scale, records, jobs
        self.waiting = [cell for cell in cells if state(cell, scale, records) != "done"]
        self.total, self.failed, self.stopped = len(self.waiting), 0, 0
        self.running: dict[subprocess.Popen[bytes], Cell] = {}

    def run(self) -> int:
        """Exit code: 0 all done, 1 some failed, 128 + signal when stopped."""
        before = {s: signal.signal(s, self._stop) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            while self.running or (self.waiting and not self.stopped):
                while self.waiting and len(self.running) < self.jobs and not self.stopped:
                    self._start(self.waiting.pop(0))
                self._collect()
                time.sleep(POLL_SECONDS)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return 128 + self.stopped if self.stopped else int(self.failed > 0)

    def _start(self, cell: Cell) -> None:
        quiet = ["logger.mode=disabled", f"paths.runs={RUNS}"]
        arguments = [sys.executable, str(ROOT / "train.py"), f"scale={self.scale}", *cell.command, *quiet]
        log = self._log(cell)
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "wb") as output:
            process = subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        self.running[process] = cell

    def _log(self, cell: Cell) -> Path:
        return RUNS / "campaign-logs" / f"{self.scale}.{cell.id}.log"

    def _collect(self) -> None:
        for process in [p for p in self.running if p.poll() is not None]:
            cell = self.running.pop(process)
            if process.returncode == 0:
                keep(cell, self.scale, self.records)
            elif not self.stopped:
                self.failed += 1
            self._tell(cell, process.returncode)

    def _tell(self, cell: Cell, code: int) -> None:
        done = self.total - len(self.waiting) - len(self.running)
        record = self.records.of(cell)
        if code == 0 and record is not None:
            name = record["best"]["metric"].replace("valid/", "test/")
            outcome = f"{name} {record['metrics'][name]:.4f} in {record['seconds']:.0f} s"
        else:
            outcome = f"exit {code}, see {os.path.relpath(self._log(cell))}"
        print(f"[{done}/{self.total}] {cell.id}: {outcome}", flush=True)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self.stopped = number
        for process in self.running:
            process.send_signal(signal.SIGTERM)


def keep(cell: Cell, scale: str, records: Records) -> None:
    """Copy the run's result.json to where tables are made from."""
    path = records.path(cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = (run_of(cell, scale).dir / "result.json").read_text()
    path.write_text(text.replace(f" paths.runs={RUNS}", "").replace(str(RUNS), "runs"))  # no path of this machine


def status(cells: Sequence[Cell], scale: str, records: Records) -> str:
    states = {cell.id: state(cell, scale, records) for cell in cells}
    lines = [f"{state_:12} {name}" for name, state_ in states.items()]
    counts = ", ".join(f"{count} {name}" for name, count in Counter(states.values()).items())
    return "\n".join([*lines, counts])
