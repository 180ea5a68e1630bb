"""Runs what is missing: some `train.py` at a time, one thread each, each resumable."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from dab.engine.launch import BUSY
from dab.engine.records import write_json
from experiments.checkout import Checkout
from experiments.provenance import is_clean
from experiments.runs import run_of, state
from experiments.study import ROOT, RUNS, Cell, Record, Records

DATA = ROOT / "data"
HERE = Checkout(ROOT)
POLL_SECONDS = 0.2
LIBC, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1  # the number is from Linux's prctl.h


class Campaign:
    """A queue of cells and the processes that work on it. Stopping it stops them, and each saves itself."""

    def __init__(
        self,
        cells: Sequence[Cell],
        scale: str,
        records: Records,
        jobs: int,
        code: Checkout = HERE,
        only_dirty: bool = False,
        runs: Path | None = None,
    ):
        self.scale, self.records, self.jobs, self.code, self.only_dirty = scale, records, jobs, code, only_dirty
        self.runs = runs or RUNS
        self.waiting = [cell for cell in cells if self._wants(cell)]
        self.total, self.failed, self.stopped = len(self.waiting), 0, 0
        self.running: dict[subprocess.Popen[bytes], Cell] = {}
        self.elsewhere: set[Cell] = set()  # what had to wait for another process

    def _wants(self, cell: Cell) -> bool:
        if not self.only_dirty:
            return state(cell, self.scale, self.records, self.runs) != "done"
        record = self.records.of(cell)
        return record is not None and not is_clean(record)

    def run(self) -> int:
        """Exit code: 0 all done, 1 some failed, 128 + signal when stopped."""
        before = {s: signal.signal(s, self._stop) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            while self.running or (self.waiting and not self.stopped):
                while len(self.running) < self.jobs and not self.stopped and (cell := self._next()):
                    self._start(cell)
                self._collect()
                time.sleep(POLL_SECONDS)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return 128 + self.stopped if self.stopped else int(self.failed > 0)

    def _next(self) -> Cell | None:
        """The first that waits and that no other process is training: another campaign, or what a killed one left."""
        for cell in self.waiting:
            if not run_of(cell, self.scale, self.runs).is_locked():
                self.waiting.remove(cell)
                return cell
            if cell not in self.elsewhere:
                self.elsewhere.add(cell)
                print(f"{cell.id}: another process is training it; waiting for its end", flush=True)
        return None

    def _start(self, cell: Cell) -> None:
        arguments = [sys.executable, str(self.code.root / "train.py"), f"scale={self.scale}", *cell.command]
        arguments += [*_where(self.runs), "logger.mode=disabled"]
        arguments += ["force=true" if self._must_start_over(cell) else "resume=anyway"]
        log = self._log(cell)
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "wb") as output:
            process = subprocess.Popen(
                arguments,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_stop_with_parent,
                pass_fds=() if self.code.lock is None else (self.code.lock,),  # a run may outlive its campaign
            )
        self.running[process] = cell

    def _must_start_over(self, cell: Cell) -> bool:
        """A finished run would only say that it is; an interrupted one goes on, and a clean one is what is wanted.

        It goes on with another commit too (resume=anyway): its record then says `changed`, and is not clean.
        """
        result = run_of(cell, self.scale, self.runs).result if self.only_dirty else None
        return result is not None and not is_clean(result)

    def _log(self, cell: Cell) -> Path:
        return self.runs / "campaign-logs" / f"{self.scale}.{cell.id}.log"

    def _collect(self) -> None:
        for process in [p for p in self.running if p.poll() is not None]:
            cell = self.running.pop(process)
            if process.returncode == BUSY:  # another was faster: no failure of this one
                self.waiting.append(cell)
                continue
            record = keep(cell, self.scale, self.records, self.runs) if process.returncode == 0 else None
            self.failed += record is None and not self.stopped
            log = os.path.relpath(self._log(cell))
            outcome = _outcome(record) if record else f"{_complaint(process.returncode)}, see {log}"
            done = self.total - len(self.waiting) - len(self.running)
            print(f"[{done}/{self.total}] {cell.id}: {outcome}", flush=True)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self.stopped = number
        for process in self.running:
            process.send_signal(signal.SIGTERM)


def _stop_with_parent() -> None:
    """In a run, before it starts: be asked to stop when the campaign is gone, even if that was killed. Linux only."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _outcome(record: Record) -> str:
    name = record["best"]["metric"].replace("valid/", "test/")
    clean = "" if is_clean(record) else " (uncommitted code)"
    return f"{name} {record['metrics'][name]:.4f} in {record['seconds']:.0f} s{clean}"


def _complaint(code: int) -> str:
    """A run that ends well elsewhere than expected had another configuration: that of the commit."""
    return f"exit {code}" if code else "the commit makes another run of it than the working tree: commit first"


def keep(cell: Cell, scale: str, records: Records, runs: Path) -> Record | None:
    """Copy the run's result.json to where tables are made from, without the paths of this machine."""
    result = run_of(cell, scale, runs).result
    if result is None:
        return None
    record, path = _anywhere(result, runs), records.path(cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, record)
    return record


def _where(runs: Path) -> list[str]:
    return [f"paths.runs={runs}", f"paths.data={DATA}"]


def _anywhere(value: Any, runs: Path) -> Any:
    """The same on any machine: places inside this folder become relative, and the command does without them."""
    if isinstance(value, dict):
        return {key: _anywhere(inner, runs) for key, inner in value.items()}
    if isinstance(value, list):
        return [_anywhere(inner, runs) for inner in value]
    if isinstance(value, str):
        for override in _where(runs):
            value = value.replace(f" {override}", "")
        for path, name in ((runs, "runs"), (DATA, "data"), (ROOT, ".")):
            value = re.sub(rf"{re.escape(str(path))}(?=/|\s|$)", name, value)
    return value


def status(cells: Sequence[Cell], scale: str, records: Records, runs: Path | None = None) -> str:
    states = {cell.id: state(cell, scale, records, runs) for cell in cells}
    lines = [f"{state_:12} {name}" for name, state_ in states.items()]
    counts = [f"{count} {name}" for name, count in Counter(states.values()).items()]
    unclean = sum(not is_clean(record) for cell in cells if (record := records.of(cell)) is not None)
    return "\n".join([*lines, ", ".join(counts) + (f"; {unclean} not clean" if unclean else "")])
