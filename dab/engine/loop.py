"""The training loop: steps, evaluations, checkpoints, in an order a reader can follow."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dab.engine import best, checkpoint, evaluation
from dab.engine.best import Best
from dab.engine.build import MODEL, Job
from dab.engine.distributed import Workers
from dab.engine.loggers import NoLogger
from dab.engine.meter import Meter
from dab.engine.norms import synchronise
from dab.engine.progress import Lines
from dab.engine.records import Metrics
from dab.engine.run import Run
from dab.engine.stop import Interrupted, Stop
from dab.engine.stopwatch import Stopwatch
from dab.engine.storage import Unusable
from dab.keys import key, seed_device

ASK_EVERY = 10  # steps between two agreements of several workers on whether to stop


class NonFinite(Exception):
    """The loss is no longer a number."""


class Loop:
    """One training from wherever its checkpoint left it to its last step."""

    def __init__(self, job: Job, run: Run, workers: Workers, stop: Stop, logger: NoLogger, progress: Lines):
        self.job, self.run, self.workers, self.stop = job, run, workers, stop
        self.logger, self.progress = logger, progress
        self.options = run.config["trainer"]
        self.seed, self.steps = run.config["seed"], self.options["steps"]
        self.step, self.seconds, self.pending_evaluation = 0, 0.0, False
        self.watch = Stopwatch()
        self.best = Best()
        self.meter = Meter()
        self.paced = [m for m in job.task.modules() if hasattr(m, "set_progress")]
        self.base_rates = [group["lr"] for group in job.optimizer.param_groups]
        self.parts: dict[str, list[nn.Parameter]] = defaultdict(list)
        for group in job.optimizer.param_groups:
            self.parts[group.get("part", MODEL)] += group["params"]
        self.bad = torch.zeros((), dtype=torch.bool, device=workers.device)
        self.metrics: Metrics | None = None
        self.resumed: list[int] = []  # the steps at which this training was taken up again
        self.worlds = [[0, workers.world]]  # how many workers there were, from which step on
        self.damage: list[str] = []  # what was found out about metrics.jsonl then

    @property
    def parameters(self) -> list[nn.Parameter]:
        """All that is trained."""
        return [p for part in self.parts.values() for p in part]

    def fit(self) -> None:
        """Train to the last step; then the best weights are in the task."""
        with self.workers.patient():
            self._resume()
            self._clock = time.perf_counter()
            self.watch.start()
            self._window, self._window_step = self.watch.read()["train_seconds"], self.step
            forward = self._wrapped()
        if self.pending_evaluation:
            self._evaluate()
        first = self.step
        while self.step < self.steps:
            # In the first one whatever is compiled is, by some workers sooner than by others.
            with self.workers.patient() if self.step == first else contextlib.nullcontext():
                self._train_step(forward)
            self._after_step()
        self.watch.stop()
        if self.metrics:
            self.metrics.close()
        self.best.put_into(self.job.task, self.workers)

    def _wrapped(self) -> nn.Module:
        forward: nn.Module = self.job.task
        if self.workers.world > 1:
            synchronise(forward, self.workers.device)
            ids = [self.workers.device.index] if self.workers.device.type == "cuda" else None
            forward = DistributedDataParallel(forward, device_ids=ids, find_unused_parameters=self._leaves_some_out())
        return torch.compile(forward) if self.options["compile"] else forward  # type: ignore[return-value]

    def _leaves_some_out(self) -> bool:
        """Whether a step has no gradient for some parameters, e.g. before a function that passes none.

        To find out at every step which costs DDP a walk over the graph; to be told here costs one step without it.
        """
        batch = self.job.data.batch(self.step)
        with evaluation.aside(self.job.task, "left out", device=self.workers.device) as task, self._autocast():
            task.loss(batch)[0].backward()
            return any(p.grad is None for p in task.parameters() if p.requires_grad)

    def _train_step(self, forward: nn.Module) -> None:
        done = self.step / self.steps
        factor = self.job.schedule(done)
        for group, rate in zip(self.job.optimizer.param_groups, self.base_rates):
            group["lr"] = rate * factor
        for module in self.paced:
            module.set_progress(done)  # type: ignore[operator]
        # Whatever draws random numbers in this step depends on the step alone, so a checkpoint needs no RNG state.
        seed_device(key("step", self.seed, self.step, self.workers.rank), self.workers.device)
        self.job.optimizer.zero_grad(set_to_none=True)
        self._backward(forward, self.job.data.batch(self.step))
        self._clip()
        self.job.optimizer.step()
        self.step += 1

    def _backward(self, forward: nn.Module, batch: tuple[Tensor, ...]) -> None:
        """The gradient of the mean loss of a batch, of its parts one after another; the last one's waits for all."""
        parts = self.options["accumulate"]
        for number, part in enumerate(zip(*(t.chunk(parts) for t in batch)) if parts > 1 else [batch], 1):
            alone = getattr(forward, "no_sync", contextlib.nullcontext) if number < parts else contextlib.nullcontext
            with alone():
                with self._autocast():
                    loss, logs = forward(part)
                (loss / parts if parts > 1 else loss).backward()
            self.bad = self.bad | ~torch.isfinite(loss.detach())  # stays on the device; read with the metrics
            self.meter.add(logs)

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if not self.options["amp"]:
            return contextlib.nullcontext()
        return torch.autocast(self.workers.device.type, dtype=torch.bfloat16)

    def _clip(self) -> None:
        if self.options["clip_norm"] is not None:
            apart = list(self.parts.values()) if self.options["clip_apart"] else [self.parameters]
            for parameters in apart:
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
        row = {"step": self.step, "seconds": round(self.elapsed(), 3), **values}
        if self.metrics:
            self.metrics.append(row)
        self.logger.log(row)
        self.progress.show(row)

    def elapsed(self) -> float:
        return self.seconds + time.perf_counter() - self._clock

    def _evaluate(self) -> None:
        with self.watch.paused(), self.workers.patient():
            task, data = self.job.task, self.job.data
            try:
                values = evaluation.measure(task, data, "valid", self.workers, self.stop)
            except Interrupted:
                self.pending_evaluation = True  # the resumed run starts with this evaluation
                self._save()
                raise
            self.pending_evaluation = False
            found = evaluation.diagnose(task, data, self.step, self.seed, self.workers)
            named = {f"valid/{k}": v for k, v in values.items()} | {f"train/{k}": v for k, v in found.items()}
            self._record({**named, **self.watch.read()})
            self.best.offer(values[task.select], self.step, task, self.workers)

    def _save(self) -> None:
        with self.watch.paused(), self.workers.patient():
            self._check_finite()
            self.workers.check_equal(self.job.task)
            state = self._state()
            if self.metrics:
                self.metrics.sync()
            if self.workers.first:
                self.run.lock.check_mine()
                checkpoint.save(self.run.dir, state)
                self.run.set_status("running", step=self.step, steps=self.steps)
            self.workers.barrier()

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "task": self.job.task.state_dict(),
            "optimizer": self.job.optimizer.state_dict(),
            "best": self.best.state(),
            "meter": self.meter.state(self.workers),
            "seconds": self.elapsed(),
            "watch": self.watch.read(),
            "pending_evaluation": self.pending_evaluation,
            "resumed": self.resumed,
            "worlds": self.worlds,
            "log": self.metrics.state() if self.metrics else None,
            "damage": self.damage,
        }

    def _resume(self) -> None:
        state = checkpoint.load(self.run.dir, self.workers.device, best.check)
        if state is not None:
            try:
                self._restore(state)
            except (KeyError, RuntimeError, ValueError) as error:
                reason = " ".join(str(error).split())
                raise Unusable(
                    f"the checkpoint in {self.run.dir} is of another model than this one: `force=true` starts the run "
                    f"over ({type(error).__name__}: {reason})"
                ) from error
        if self.workers.first:
            path = self.run.dir / "metrics.jsonl"
            self.metrics = Metrics(path, self.step, keep_evaluation=not self.pending_evaluation)
            if state is not None:
                print(f"resuming at step {self.step:,} of {self.steps:,}", flush=True)
                self._look_at_log(self.metrics, state.get("log"))

    def _restore(self, state: dict[str, Any]) -> None:
        self.job.task.load_state_dict(state["task"])
        self.job.optimizer.load_state_dict(state["optimizer"])
        self.meter.restore(state["meter"], self.workers)
        self.step, self.seconds = state["step"], state["seconds"]
        self.best = Best.restored(state["best"], self.workers)
        self.pending_evaluation, self.watch = state["pending_evaluation"], Stopwatch(**state["watch"])
        self.resumed, self.damage = [*state.get("resumed", []), self.step], state.get("damage", [])
        if (worlds := state.get("worlds", self.worlds))[-1][1] != self.workers.world:
            worlds = [*worlds, [self.step, self.workers.world]]
        self.worlds = worlds

    def _look_at_log(self, metrics: Metrics, log: dict[str, Any] | None) -> None:
        """log: as the checkpoint remembers it; those of older versions do not"""
        if log is not None and (found := metrics.damage(log)):
            self.damage = [*self.damage, found]
            print(f"{found} since step {self.step:,}: the training does not depend on them, its curve does", flush=True)
