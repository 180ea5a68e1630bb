"""One process trains a run: also where several machines share the folder, and their locks say yes to everybody."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import start

from dab.engine import checkpoint, lock
from dab.engine.launch import BUSY, launch
from dab.engine.lock import Lock, RunBusy, file_system, is_locked
from dab.engine.loop import Loop
from dab.engine.run import Run

HOSTS = 3
FOREIGN = "process 7 on elsewhere, kernel other, lease 0badcafe, beat {:09}"


def lie(change: Callable[[Any, str, Any], object]) -> None:
    """From here on the folder is on a file system whose flock lies, and everything goes ten times as fast."""
    for name, value in (("BEAT", 0.2), ("SILENCE", 1.5), ("SETTLE", 0.4), ("is_shared", lambda folder: True)):
        change(lock, name, value)
    change(lock.fcntl, "flock", lambda *_: None)


@pytest.fixture
def shared(monkeypatch) -> None:
    lie(monkeypatch.setattr)


def together(folder: Path, moment: str, host: int) -> None:
    """Wait until all hosts are here."""
    (folder / f"{moment}{host}").touch()
    while len(list(folder.glob(f"{moment}*"))) < HOSTS:
        time.sleep(0.002)


def contend(folders: list[Path], host: int) -> None:
    lie(setattr)
    lock.kernel = lambda: f"kernel{host}"  # type: ignore[assignment]
    for folder in folders:
        mine = Lock(folder)
        together(folder, "ready", host)
        try:
            mine.take()
            together(folder, "tried", host)
            mine.check_mine()  # on a busy machine one may have come late, and have it now
            print("has", folder.name, flush=True)
        except RunBusy as error:
            together(folder, "tried", host)
            print(error, flush=True)
        together(folder, "over", host)
        mine.release()


def test_of_three_machines_that_race_for_a_run_one_has_it(tmp_path, record_property) -> None:
    """Three races, at the same moment each; no race is undecided, and none is won twice."""
    folders = [tmp_path / str(number) for number in range(3)]
    for folder in folders:
        folder.mkdir()
    racing = [start(tmp_path / f"host{n}", contend, folders, n) for n in range(HOSTS)]
    for process in racing:
        process.join(60)
    told = [line for n in range(HOSTS) for line in (tmp_path / f"host{n}").read_text().splitlines()]
    assert sorted(line for line in told if line.startswith("has")) == [f"has {number}" for number in range(3)]
    lost = [line for line in told if " is being trained by " in line or " has been taken over by " in line]
    assert len(lost) == 6
    assert all((folder / lock.NAME).read_text() == "" for folder in folders)  # released
    record_property("faults", 3)


def test_a_lease_of_another_machine_is_watched_before_it_is_taken_over(tmp_path, shared, capsys) -> None:
    path = tmp_path / lock.NAME
    path.write_text(FOREIGN.format(3))
    assert is_locked(tmp_path)
    since = time.monotonic()
    mine = Lock(tmp_path)
    mine.take()
    assert time.monotonic() - since > 1.5 and "was left by process 7 on elsewhere: waiting" in capsys.readouterr().out
    first = path.read_text()
    time.sleep(1)
    assert mine.is_mine() and path.read_text() > first  # another beat
    mine.release()
    Lock(tmp_path).take()  # at once: it was given back
    path.write_text(FOREIGN.format(3))
    os.utime(path, (0, 0))
    assert not is_locked(tmp_path)  # silent for long


def test_a_lease_that_beats_is_somebodys(tmp_path, shared) -> None:
    path, done = tmp_path / lock.NAME, threading.Event()
    path.write_text(FOREIGN.format(0))

    def beat() -> None:
        with open(path, "r+b", buffering=0) as file:
            for number in range(100):
                os.pwrite(file.fileno(), FOREIGN.format(number).encode(), 0)
                if done.wait(0.2):
                    return

    other = threading.Thread(target=beat)
    other.start()
    with pytest.raises(RunBusy, match="is being trained by process 7 on elsewhere; wait for it or stop it"):
        Lock(tmp_path).take()
    done.set()
    other.join()


def test_who_has_lost_the_run_writes_nothing_more(config, shared, monkeypatch, capsys) -> None:
    """Suspended for a minute, say: meanwhile another machine has gone on with it."""
    made = config("trainer.save_every=5", "data.valid_size=50", "data.test_size=50")
    real, path = Loop._train_step, Run(made).dir / lock.NAME

    def step(self: Loop, forward: torch.nn.Module) -> None:
        real(self, forward)
        if self.step == 13:
            path.write_text(FOREIGN.format(0))

    monkeypatch.setattr(Loop, "_train_step", step)
    assert launch(made) == BUSY
    assert "has been taken over by process 7 on elsewhere" in capsys.readouterr().err
    assert torch.load(path.with_name(checkpoint.NAME), weights_only=True)["step"] == 10
    assert Run(made).status["state"] == "running" and path.read_text() == FOREIGN.format(0)


def test_a_disk_of_this_machine_needs_no_lease(tmp_path) -> None:
    assert file_system(Path("/proc/self")) == "proc" and file_system(tmp_path) in lock.OWN_FILE_SYSTEMS
    mine = Lock(tmp_path)
    mine.take()
    assert (tmp_path / lock.NAME).read_text() == lock.who() and is_locked(tmp_path)
    with pytest.raises(RunBusy, match=f"process {os.getpid()} on"):
        Lock(tmp_path).take()
    mine.release()
    assert not is_locked(tmp_path)
