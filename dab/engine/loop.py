"""The training loop: steps, evaluations, checkpoints, in an order a reader can follow."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dab.engine import checkpoint
from dab.engine.build import Job
from dab.engine.distributed import Workers
from dab.engine.loggers import NoLogger
from dab.engine.meter import Meter
from dab.engine.progress import Lines
from dab.engine.records import Metrics, better
from dab.engine.run import Run
from dab.engine.stopwatch import Stopwatch
from dab.keys import key, seed_device
from dab.tasks.task import Task

ASK_EVERY = 10  # steps between two agreements of several workers on whether to stop


class Interrupted(Exception):
    """The run was asked to stop, and has saved itself."""


class NonFinite(Exception):
    """The loss is no longer a number."""


class Stop:
    """Remembers SIGTERM or SIGINT, so that the loop can finish its step first."""

    def __init__(self) -> None:
        self.signal = 0

    def __enter__(self) -> Stop:
        self._before = {s: signal.signal(s, self._remember) for s in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number


@torch.no_grad()
def evaluate(
    task: Task, measure: Callable[[Any], dict[str, Tensor]], batches: Iterable[Any], workers: Workers, stop: Stop
) -> dict[str, float]:
    """Means of `measure` over all samples and workers, summed up by the task; Interrupted if any was asked to stop."""
    task.eval()
    totals: dict[str, Tensor] = {}
    count = 0
    for batch in batches:
        if stop.signal:
            break
        for name, values in measure(batch).items():
            total = values.double().sum(0)
            totals[name] = totals[name] + total if name in totals else total
        count += len(values)
    task.train()
    if workers.any(bool(stop.signal)):
        raise Interrupted
    flat = [*(total.flatten() for total in totals.values()), torch.tensor([count], device=workers.device)]
    sums = workers.sum(torch.cat(flat)).cpu()
    parts = sums.div(sums[-1]).split([total.numel() for total in totals.values()] + [1])
    return task.summary({name: part.view(total.shape) for (name, total), part in zip(totals.items(), parts)})


class Loop:
    """One training from wherever its checkpoint left it to its last step."""

    def __init__(self, job: Job, run: Run, workers: Workers, stop: Stop, logger: NoLogger, progress: Lines):
        self.job, self.run, self.workers, self.stop = job, run, workers, stop
        self.logger, self.progress = logger, progress
        self.options = run.config["trainer"]
        self.seed, self.steps = run.config["seed"], self.options["steps"]
        self.step, self.seconds, self.pending_evaluation = 0, 0.0, False
        self.watch = Stopwatch()
        self.best: dict[str, Any] = {"value": None, "step": 0}
        self.meter = Meter()
        self.paced = [m for m in job.task.modules() if hasattr(m, "set_progress")]
        self.base_rates = [group["lr"] for group in job.optimizer.param_groups]
        self.parameters = [p for group in job.optimizer.param_groups for p in group["params"]]
        self.bad = torch.zeros((), dtype=torch.bool, device=workers.device)
        self.metrics: Metrics | None = None

    def fit(self) -> None:
        """Train to the last step; then the best weights are in the task."""
        self._resume()
        self._clock = time.perf_counter()
        self.watch.start()
        self._window, self._window_step = self.watch.read()["train_seconds"], self.step
        forward = self._wrapped()
        if self.pending_evaluation:
            self._evaluate()
        while self.step < self.steps:
            self._train_step(forward)
            self._after_step()
        self.watch.stop()
        if self.metrics:
            self.metrics.close()
        self._load_best()

    def _wrapped(self) -> nn.Module:
        forward: nn.Module = self.job.task
        if self.workers.world > 1:
            ids = [self.workers.device.index] if self.workers.device.type == "cuda" else None
            forward = DistributedDataParallel(forward, device_ids=ids)
        return torch.compile(forward) if self.options["compile"] else forward  # type: ignore[return-value]

    def _train_step(self, forward: nn.Module) -> None:
        done = self.step / self.steps
        factor = self.job.schedule(done)
        for group, rate in zip(self.job.optimizer.param_groups, self.base_rates):
            group["lr"] = rate * factor
        for module in self.paced:
            module.set_progress(done)  # type: ignore[operator]
        # Whatever draws random numbers in this step depends on the step alone, so a checkpoint needs no RNG state.
        seed_device(key("step", self.seed, self.step, self.workers.rank), self.workers.device)
        batch = self.job.data.batch(self.step)
        with self._autocast():
            loss, logs = forward(batch)
        self.job.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._clip()
        self.job.optimizer.step()
        self.bad = self.bad | ~torch.isfinite(loss.detach())  # stays on the device; read with the metrics
        self.meter.add(logs)
        self.step += 1

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if not self.options["amp"]:
            return contextlib.nullcontext()
        return torch.autocast(self.workers.device.type, dtype=torch.bfloat16)

    def _clip(self) -> None:
        if self.options["clip_norm"] is not None:
            groups = [group["params"] for group in self.job.optimizer.param_groups]
            for parameters in groups if self.options["clip_apart"] else [self.parameters]:
                nn.utils.clip_grad_norm_(parameters, self.options["clip_norm"])
        elif self.options["clip_value"] is not None:
            nn.utils.clip_grad_value_(self.parameters, self.options["clip_value"])

    def _after_step(self) -> None:
        last = self.step == self.steps
        if last or self.step % self.options["log_every"] == 0:
            self._log()
        if last or self.step % self.options["eval_every"] == 0:
            self._evaluate()
        if last or self.step % self.options["save_every"] == 0:
            self._save()
        if self._asked_to_stop() and not last:
            self._save()
            raise Interrupted
        self.progress.advance(self.step)

    def _asked_to_stop(self) -> bool:
        if self.workers.world == 1:
            return bool(self.stop.signal)
        return self.step % ASK_EVERY == 0 and self.workers.any(bool(self.stop.signal))

    def _log(self) -> None:
        means = self.meter.read(self.workers)
        self._check_finite()
        now = self.watch.read()["train_seconds"]
        rate = (self.step - self._window_step) * self.options["batch_size"] / max(now - self._window, 1e-9)
        self._window, self._window_step = now, self.step
        lr = self.job.optimizer.param_groups[0]["lr"]
        self._record({**{f"train/{k}": v for k, v in means.items()}, "train/lr": lr, "train/samples_per_second": rate})

    def _check_finite(self) -> None:
        if self.workers.any(bool(self.bad)):
            raise NonFinite(
                f"the loss stopped being finite within the {self.options['log_every']} steps before step {self.step}; "
                "try a smaller optimizer.lr or trainer.clip_norm=1"
            )

    def _record(self, values: dict[str, Any]) -> None:
        row = {"step": self.step, "seconds": round(self._elapsed(), 3), **values}
        if self.metrics:
            self.metrics.append(row)
        self.logger.log(row)
        self.progress.show(row)

    def _elapsed(self) -> float:
        return self.seconds + time.perf_counter() - self._clock

    def _evaluate(self) -> None:
        with self.watch.paused():
            try:
                values = self.measure("valid")
            except Interrupted:
                self.pending_evaluation = True  # the resumed run starts with this evaluation
                self._save()
                raise
            self.pending_evaluation = False
            self._record({**{f"valid/{k}": v for k, v in values.items()}, **self._diagnose(), **self.watch.read()})
            value = values[self.job.task.select]
            if better(value, self.best["value"], self.job.task.larger_is_better):
                self.best = {"value": value, "step": self.step}
                if self.workers.first:
                    state = self.job.task.state_dict()
                    checkpoint.replace(self.run.dir / "best.pt", lambda path: torch.save(state, path))

    def measure(self, split: str, final: bool = False) -> dict[str, float]:
        torch.manual_seed(key("evaluate", split, self.workers.rank))
        task = self.job.task
        measure = partial(task.measure_final, split=split) if final else task.measure
        return evaluate(task, measure, self.job.data.batches(split), self.workers, self.stop)

    def _diagnose(self) -> dict[str, float]:
        """What the task has to say about training, on the batch of the next step. Keyed, so that nothing moves."""
        torch.manual_seed(key("diagnose", self.seed, self.step, self.workers.rank))
        logs = self.job.task.diagnose(self.job.data.batch(self.step))
        if not logs:
            return {}
        means = self.workers.sum(torch.stack(list(logs.values())).double()) / self.workers.world
        return dict(zip((f"train/{name}" for name in logs), means.tolist()))

    def _save(self) -> None:
        with self.watch.paused():
            self._check_finite()
            self.workers.check_equal(self.job.task)
            state = self._state()
            if self.workers.first:
                checkpoint.save(self.run.dir, state)
                self.run.set_status("running", step=self.step, steps=self.steps)
            self.workers.barrier()

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "task": self.job.task.state_dict(),
            "optimizer": self.job.optimizer.state_dict(),
            "best": self.best,
            "meter": self.meter.state(self.workers),
            "seconds": self._elapsed(),
            "watch": self.watch.read(),
            "pending_evaluation": self.pending_evaluation,
        }

    def _resume(self) -> None:
        state = checkpoint.load(self.run.dir, self.workers.device)
        if state is not None:
            self.job.task.load_state_dict(state["task"])
            self.job.optimizer.load_state_dict(state["optimizer"])
            self.meter.restore(state["meter"], self.workers)
            self.step, self.seconds, self.best = state["step"], state["seconds"], state["best"]
            self.pending_evaluation, self.watch = state["pending_evaluation"], Stopwatch(**state["watch"])
        if self.workers.first:
            path = self.run.dir / "metrics.jsonl"
            self.metrics = Metrics(path, self.step, keep_evaluation=not self.pending_evaluation)

    def _load_best(self) -> None:
        self.workers.barrier()
        path = self.run.dir / "best.pt"
        if path.exists():
            self.job.task.load_state_dict(torch.load(path, map_location=self.workers.device, weights_only=True))
