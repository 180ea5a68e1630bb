"""Cells that take seconds: a few processes stay, load everything once, and work on one after another.

`python -m experiments.workers STUDY SCALE` is such a process: a cell's id comes in as a line, its record goes out.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from dab.engine.records import write_json
from experiments.campaign import HERE
from experiments.checkout import Checkout
from experiments.provenance import is_clean
from experiments.runs import state
from experiments.study import RUNS, Cell, Record, Records


class Worker:
    """One process, asked for one record at a time. Its complaints are in `log`."""

    def __init__(self, study: str, scale: str, code: Checkout, log: Path):
        # The commit's code, one thread, and a session of its own: Ctrl-C is for the campaign, which passes it on.
        environment = {**os.environ, "PYTHONPATH": str(code.root), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "experiments.workers", study, scale]
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as complaints:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                cwd=code.root,
                env=environment,
                start_new_session=True,
            )

    def record(self, cell: Cell) -> Record | None:
        """None when the process is gone, or could not make it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(cell.id + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline() or "null")
        except (BrokenPipeError, json.JSONDecodeError):
            return None

    @property
    def is_gone(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        self._process.terminate()

    def close(self) -> None:
        assert self._process.stdin is not None
        if not self.is_gone:
            self._process.stdin.close()  # no further cell: it ends by itself
        self._process.wait()


class Workers:
    """A queue of cells and the processes that work on it. A cell that is interrupted is lost: it took seconds."""

    def __init__(
        self,
        study: str,
        cells: Sequence[Cell],
        scale: str,
        records: Records,
        jobs: int,
        code: Checkout = HERE,
        only_dirty: bool = False,
        runs: Path | None = None,
    ):
        self.study, self.scale, self.records, self.jobs, self.code = study, scale, records, jobs, code
        self.log = (runs or RUNS) / "campaign-logs" / f"{scale}.{study}.log"
        self.waiting = [cell for cell in cells if self._wants(cell, only_dirty)]
        self.total, self.done, self.failed, self.stopped = len(self.waiting), 0, 0, 0
        self._workers: list[Worker] = []
        self._lock = threading.Lock()

    def _wants(self, cell: Cell, only_dirty: bool) -> bool:
        if not only_dirty:
            return state(cell, self.scale, self.records) != "done"
        record = self.records.of(cell)
        return record is not None and not is_clean(record)

    def run(self) -> int:
        """Exit code: 0 all done, 1 some failed, 128 + signal when stopped."""
        before = {s: signal.signal(s, self._stop) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            threads = [threading.Thread(target=self._work) for _ in range(min(self.jobs, self.total))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return 128 + self.stopped if self.stopped else int(self.failed > 0)

    def _work(self) -> None:
        worker = self._new_worker()
        while (cell := self._next()) is not None:
            record = worker.record(cell)
            if not self.stopped:
                self._keep(cell, record)
                if worker.is_gone:
                    worker = self._new_worker()
        worker.close()

    def _new_worker(self) -> Worker:
        worker = Worker(self.study, self.scale, self.code, self.log)
        with self._lock:
            self._workers.append(worker)
        return worker

    def _next(self) -> Cell | None:
        with self._lock:
            return self.waiting.pop(0) if self.waiting and not self.stopped else None

    def _keep(self, cell: Cell, record: Record | None) -> None:
        with self._lock:
            self.done += 1
            outcome = f"failed, see {os.path.relpath(self.log)}"
            if record is not None and record["hash"] != cell.identity:
                record, outcome = None, "the commit makes another cell of it than the working tree: commit first"
            if record is None:
                self.failed += 1
            else:
                path = self.records.path(cell)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_json(path, record)
                outcome = _outcome(record)
            print(f"[{self.done}/{self.total}] {cell.id}: {outcome}", flush=True)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self.stopped = number
        for worker in self._workers:
            worker.stop()


def _outcome(record: Record) -> str:
    name, value = next((n, v) for n, v in record["metrics"].items() if n.startswith("test/"))
    clean = "" if is_clean(record) else " (uncommitted code)"
    return f"{name} {value:.3f} in {record['seconds']:.0f} s{clean}"


def serve(study: str, scale: str) -> None:
    from experiments.report import STUDIES

    work = STUDIES[study].work
    assert work is not None, f"{study} is made of runs of train.py"
    cells = {cell.id: cell for cell in STUDIES[study].cells(scale)}
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr  # what a library prints is no answer
    for line in sys.stdin:
        answer: dict[str, Any] | None = None
        try:
            answer = work(cells[line.strip()], scale)
        except Exception:
            print(line.strip(), traceback.format_exc(), sep="\n", file=sys.stderr, flush=True)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
