"""The workers of one run: who I am, what we agree on. With one worker every operation is free."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn

from dab.engine.stop import SIGNALS
from dab.engine.targets import ConfigError
from dab.engine.trust import trust, trusted

PATIENCE = 1800.0  # seconds to wait for a worker that builds, compiles, measures or saves
ROLL_CALL = 3.0  # seconds in which all who still can say so
GRACE = 5.0  # seconds for a worker to end by itself when another one has failed, and again when it is asked to


class WorkerDied(Exception):
    """One of the processes of a run was killed; says which."""


@dataclass(frozen=True)
class Workers:
    """This process among the `world` processes of the run.

    timeout     seconds to wait for the others in a step, before one of them counts as hanging
    """

    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    timeout: float = PATIENCE

    @property
    def first(self) -> bool:
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all workers, on every worker."""
        if self.world > 1:
            values = values.clone()
            dist.all_reduce(values)
        return values

    def gather(self, values: Tensor) -> list[Tensor]:
        """Every worker's values, all of one shape, on every worker."""
        if self.world == 1:
            return [values]
        gathered = [torch.empty_like(values) for _ in range(self.world)]
        dist.all_gather(gathered, values)
        return gathered

    def told(self, what: Any) -> Any:
        """What the first worker says."""
        if self.world == 1:
            return what
        said = [what]
        dist.broadcast_object_list(said, src=0, device=self.device)
        return said[0]

    def concatenate(self, batches: Iterable[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """All workers' batches as one, on every worker, where worker r holds the rows r, r + world, ... of the whole.

        A whole that does not divide evenly gives the first workers one row more: others may have none.
        """
        columns = tuple(torch.cat(parts) for parts in zip(*batches))
        if self.world == 1:
            return columns
        kinds = self.told([(column.shape[1:], column.dtype) for column in columns])
        columns = columns or tuple(torch.empty(0, *shape, dtype=kind, device=self.device) for shape, kind in kinds)
        return tuple(self._whole(column) for column in columns)

    def _whole(self, column: Tensor) -> Tensor:
        lengths = [int(n) for n in self.gather(torch.tensor(len(column), device=self.device))]
        total, longest = sum(lengths), lengths[0]
        if lengths != [len(range(rank, total, self.world)) for rank in range(self.world)]:
            raise ValueError(f"{lengths} rows are no shares of a whole of {total}: worker r holds r, r + world, ...")
        padded = torch.cat([column, column.new_zeros(longest - len(column), *column.shape[1:])])
        return torch.stack(self.gather(padded), dim=1).flatten(0, 1)[:total]

    def align(self, tensors: Iterable[Tensor]) -> None:
        """All take over the first one's values, in place."""
        if self.world > 1:
            for tensor in tensors:
                dist.broadcast(tensor.detach(), src=0)

    def any(self, flag: bool) -> bool:
        return flag if self.world == 1 else bool(self.sum(torch.tensor(int(flag), device=self.device)) > 0)

    def check_equal(self, module: nn.Module) -> None:
        """Raise if the parameters of the workers have drifted apart."""
        if self.world == 1:
            return
        digest = torch.stack([p.detach().double().sum() for p in module.parameters()])
        lowest, highest = digest.clone(), digest
        dist.all_reduce(lowest, dist.ReduceOp.MIN)
        dist.all_reduce(highest, dist.ReduceOp.MAX)
        if not torch.equal(lowest.nan_to_num(), highest.nan_to_num()):
            names = [n for (n, _), same in zip(module.named_parameters(), (lowest == highest).tolist()) if not same]
            raise RuntimeError(f"parameters differ between workers: {', '.join(names)}; the run cannot be trusted")

    def barrier(self) -> None:
        if self.world > 1:
            dist.barrier()

    @contextlib.contextmanager
    def patient(self) -> Iterator[None]:
        """In here one may rightly be minutes behind another; after it the timeout counts."""
        self._wait_at_most(PATIENCE)
        yield
        self._wait_at_most(self.timeout)

    def _wait_at_most(self, seconds: float) -> None:
        if self.world > 1:
            dist.distributed_c10d._set_pg_timeout(timedelta(seconds=seconds))

    def silent(self) -> list[int]:
        """The ranks of those who do not answer any more; none, if there is nobody to ask."""
        found: list[list[int]] = []
        asking = threading.Thread(target=lambda: found.append(self._missing()), daemon=True)
        asking.start()
        asking.join(2 * ROLL_CALL)  # a store on a machine that is gone may keep one waiting for ever
        return found[0] if found else []

    def _missing(self) -> list[int]:
        """Whoever has not said in time that it is here."""
        missing, end = set(range(self.world)), time.monotonic() + ROLL_CALL
        try:
            store = dist.distributed_c10d._get_default_store()
            store.set(f"here {self.rank}", "")
            while missing and time.monotonic() < end:
                missing -= {rank for rank in missing if store.check([f"here {rank}"])}
                time.sleep(0.1)
        except RuntimeError:  # the store was with one of them
            return []
        return sorted(missing)


def pick_device(wanted: str, local_rank: int = 0) -> torch.device:
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ConfigError("trainer.device=cuda, but CUDA finds no device here: use trainer.device=cpu")
    return torch.device("cuda", local_rank)


def under_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def join_workers(
    wanted_device: str, rank: int, world: int, local_rank: int, init_method: str, timeout: float = PATIENCE
) -> Workers:
    device = pick_device(wanted_device, local_rank)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend, patience = "nccl" if device.type == "cuda" else "gloo", timedelta(seconds=PATIENCE)
    dist.init_process_group(backend, init_method, patience, rank=rank, world_size=world)
    return Workers(rank, world, device, timeout)


def join_torchrun(wanted_device: str, timeout: float) -> Workers:
    rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    return join_workers(wanted_device, rank, world, local, "env://", timeout)


def leave_workers(code: int) -> NoReturn:
    """End this worker's process with a plain exit code, without Python's finalization.

    DDP keeps gloo's threads alive beyond `destroy_process_group`; one that drops its last tensor while the
    interpreter goes down aborts the process (SIGABRT), and a run that succeeded would be reported as failed.
    """
    if dist.is_initialized() and code == 0:  # after a failure others may never answer
        dist.destroy_process_group()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def spawn(work: Callable[[Workers, dict[str, Any]], int], config: dict[str, Any]) -> int:
    """Run `work` in `trainer.devices` new processes on this machine; returns the run's exit code.

    The children get the resolved config, so nothing is composed twice. Being asked to stop is passed on.
    """
    world = config["trainer"]["devices"]
    with tempfile.TemporaryDirectory() as folder:
        store = f"file://{Path(folder) / 'rendezvous'}"
        arguments = (work, config, world, store, trusted())
        context = mp.start_processes(_child, arguments, world, join=False, start_method="spawn")
        assert context is not None

        def forward(number: int, _frame: Any) -> None:
            for pid in filter(None, context.pids()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

        before = {s: signal.signal(s, forward) for s in SIGNALS}
        logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)  # that it ends the others, we tell
        try:
            while True:
                wait([process.sentinel for process in context.processes if process.exitcode is None])
                codes = [process.exitcode for process in context.processes]  # before the others are ended, too
                if context.join(grace_period=GRACE):
                    return 0
        except mp.ProcessExitedException as error:
            _raise_if_killed(codes)
            return error.exit_code
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _raise_if_killed(codes: list[int | None]) -> None:
    for rank, code in enumerate(codes):
        if code is not None and code < 0:
            why = " (out of memory?)" if code == -signal.SIGKILL else ""
            raise WorkerDied(
                f"worker {rank + 1} of {len(codes)} was killed by {signal.Signals(-code).name}{why}; "
                "the same command goes on from the last checkpoint"
            )


def lost_a_worker(error: Exception) -> bool:
    """Whether it is what the library between the workers says when one of them does not answer any more."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


def _child(
    rank: int,
    work: Callable[[Workers, dict[str, Any]], int],
    config: dict[str, Any],
    world: int,
    store: str,
    packages: Sequence[str] = (),
) -> None:
    trust(packages)  # those of the parent's command line; what the config says of it does not count
    workers = join_workers(config["trainer"]["device"], rank, world, rank, store, config["trainer"]["timeout"])
    leave_workers(work(workers, config))
