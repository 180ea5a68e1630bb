"""Two machines, as far as one can be two: torchrun in two network namespaces with a cable between them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from conftest import ROOT, command, composed
from processes import run_workers
from test_engine import LONG, only_run, wait_for_step, weights

from dab.engine.records import read_json

NODES, CABLES, ADDRESSES = ("dab-one", "dab-two"), ("dab-cable1", "dab-cable2"), ("10.77.0.1", "10.77.0.2")
PORT = 29477
LEFT = "does not answer any more; the same command goes on"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def kill_all(node: str) -> None:
    """Everything that runs there, as when the power goes."""
    done = subprocess.run(["ip", "netns", "pids", node], capture_output=True, text=True, check=True)
    for pid in map(int, done.stdout.split()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def nodes() -> Iterator[None]:
    """Namespaces need root and the command `ip`."""
    try:
        for node in NODES:
            ip("netns", "add", node)
        ip("link", "add", CABLES[0], "netns", NODES[0], "type", "veth", "peer", "name", CABLES[1], "netns", NODES[1])
        for node, cable, address in zip(NODES, CABLES, ADDRESSES):
            ip("-n", node, "address", "add", f"{address}/24", "dev", cable)
            ip("-n", node, "link", "set", "lo", "up")
            ip("-n", node, "link", "set", cable, "up")
        yield
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespaces here: {getattr(error, 'stderr', None) or error}")
    finally:
        for node in NODES:
            with contextlib.suppress(FileNotFoundError, subprocess.CalledProcessError):
                kill_all(node)
                ip("netns", "delete", node)


class Node:
    """What a person types on one machine."""

    def __init__(self, rank: int, folder: Path, start: int):
        self.rank, self.log = rank, folder / f"node{rank}.{start}"
        torchrun = ["-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(rank), "--nproc-per-node", "1"]
        where = ["--master-addr", ADDRESSES[0], "--master-port", str(PORT)]
        words = [sys.executable, *torchrun, *where, *command(folder, *LONG, "trainer.timeout=5")[1:]]
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": CABLES[rank], "PYTHONPATH": str(ROOT)}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", NODES[rank], *words],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
            )

    def kill(self) -> None:
        kill_all(NODES[self.rank])
        self.process.wait()

    def ended(self) -> str:
        """What it has said, once it has ended by itself."""
        return f"exit {self.process.wait(timeout=60)}\n{self.log.read_text()}"


@pytest.mark.slow
def test_a_node_that_dies_or_is_cut_off_is_told_and_the_same_command_goes_on(nodes, tmp_path, record_property) -> None:
    one, two = (Node(rank, tmp_path, start=0) for rank in range(2))
    wait_for_step(tmp_path, 80)
    two.kill()
    since = time.monotonic()
    told = one.ended()
    assert time.monotonic() - since < 60 and told.startswith("exit 1") and f"worker 2 of 2 {LEFT}" in told

    one, two = (Node(rank, tmp_path, start=1) for rank in range(2))
    wait_for_step(tmp_path, 200)
    ip("-n", NODES[1], "link", "set", CABLES[1], "down")  # not a word to the other
    since = time.monotonic()
    told = one.ended(), two.ended()
    assert time.monotonic() - since < 60 and all(said.startswith("exit 1") for said in told)
    assert f"worker 2 of 2 {LEFT}" in told[0] and "run failed: " in told[1]
    ip("-n", NODES[1], "link", "set", CABLES[1], "up")

    one, two = (Node(rank, tmp_path, start=2) for rank in range(2))
    assert [node.ended().split("\n")[0] for node in (one, two)] == ["exit 0", "exit 0"]
    result = read_json(only_run(tmp_path) / "result.json")
    assert result["world"] == 2 and len(result["resumed"]) == 2
    here = tmp_path / "here"  # the same on one machine, in one piece
    assert run_workers(composed(here, *LONG), here) == [0, 0]
    theirs, ours = weights(only_run(tmp_path)), weights(only_run(here))
    assert all(torch.equal(theirs[name], ours[name]) for name in ours)
    record_property("faults", 2)
