"""The pool: processes of this machine that start at once, and what happens to one happens to it alone."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from experiments.executors import Command
from experiments.pool import Pool, devices
from experiments.trainings import HERE

SCRIPT = """
import os, signal, sys, time
print(os.environ["CUDA_VISIBLE_DEVICES"], os.getcwd(), "torch" in sys.modules, os.getpid(), flush=True)
what = sys.argv[1]
if what == "sleep":
    time.sleep(600)
if what == "die":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(int(what))
"""


def test_jobs_have_a_device_each_and_end_alone(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert devices() == ["4", "7"]
    (tmp_path / "script.py").write_text(SCRIPT)
    logs = {what: tmp_path / "logs" / what for what in ("sleep", "die", "3", "0")}
    with Pool(2, HERE) as pool:

        def start(what: str):  # type: ignore[no-untyped-def]
            return pool.submit(Command((str(tmp_path / "script.py"), what), logs[what], tmp_path))

        sleeping, codes = start("sleep"), []
        for what in ("die", "3", "0"):  # one after the other, beside the one that sleeps
            codes.append(ended(start(what)))
        assert codes == [-signal.SIGKILL, 3, 0] and sleeping.poll() is None
        sleeping.cancel()
        assert ended(sleeping) == -signal.SIGTERM
    words = {what: log.read_text().split() for what, log in logs.items()}
    assert [words[what][0] for what in logs] == ["4", "7", "7", "7"]
    assert all(said[1:3] == [str(tmp_path), "True"] for said in words.values())  # torch was there before they were
    assert len({said[3] for said in words.values()}) == 4


def ended(job) -> int:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + 120
    while job.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return job.poll()
