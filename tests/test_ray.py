"""A sweep on a real Ray cluster on this machine: a head and two workers, one of them killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import processes
import pytest
from conftest import QUIET

from dab.engine.records import read_metrics
from dab.engine.run import Run

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800)]

PORT = 26379  # not among those that workers take
RAY = Path(sys.executable).with_name("ray")
SEEDS = (0, 1, 2)
LONG = ("scale=smoke", *QUIET, "estimator=straight_through", "trainer.steps=4000", "trainer.log_every=20")


@pytest.fixture
def address(tmp_path_factory) -> Iterator[str]:
    """Of a head that runs nothing and two nodes of one core each, every one a process group of its own."""
    ray = pytest.importorskip("ray", reason="pip install -e '.[ray]' -c constraints.txt")
    address = f"{ray.util.get_node_ip_address()}:{PORT}"  # Ray would take 127.0.0.1 for it anyway
    folder = "/tmp/dab-ray-test"  # short: it becomes part of a socket's name
    head = ["--head", f"--port={PORT}", "--num-cpus=0", "--include-dashboard=false", f"--temp-dir={folder}"]
    node = [f"--address={address}", "--num-cpus=1", "--object-store-memory=100000000"]
    environment = {**os.environ, "RAY_worker_niceness": "0"}  # else a busy machine would not get to them
    started = []
    try:
        for words in (head, node, node):
            log = tmp_path_factory.mktemp("ray") / "log"
            command = [RAY, "start", *words, "--disable-usage-stats", "--block"]
            with open(log, "w") as output:
                started.append(
                    subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
                )
            deadline = time.monotonic() + 120
            while "will now block forever" not in log.read_text():
                assert started[-1].poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
        yield address
    finally:
        for process in reversed(started):
            os.killpg(process.pid, signal.SIGTERM)
        for process in started:
            process.wait(60)


def test_a_sweep_survives_the_death_of_a_worker_bit_for_bit(address, tmp_path: Path, config, record_property) -> None:
    runs = {seed: Run(config(*LONG, f"seed={seed}")) for seed in SEEDS}
    words = [*LONG, "seed=0,1,2", f"paths.runs={tmp_path}/runs", "cluster=ray", f"cluster.address={address}"]
    sweep = processes.start(tmp_path / "printed", processes.command_line, ["-m", *words])
    deadline = time.monotonic() + 240
    while not (begun := [run for run in runs.values() if read_metrics(run.dir / "metrics.jsonl")]):
        assert time.monotonic() < deadline and sweep.is_alive(), (tmp_path / "printed.err").read_text()
        time.sleep(0.2)
    worker = parent(begun[0].status["pid"])
    assert "ray::" in Path(f"/proc/{worker}/cmdline").read_text()
    os.kill(worker, signal.SIGKILL)
    sweep.join(900)
    said = (tmp_path / "printed").read_text() + (tmp_path / "printed.err").read_text()
    assert sweep.exitcode == 0, said
    assert "3 runs, 3 finished, 0 failed; mean ± standard deviation (seeds)" in said
    print(said)
    record_property("faults", 1)

    processes.check_as_in_a_pool([*LONG, "seed=0,1,2"], runs.values(), tmp_path)
    assert begun[0].result["resumed"]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
