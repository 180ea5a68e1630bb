"""Weights & Biases as a mirror of the local files; the files stay the record."""

from __future__ import annotations

import contextlib
import netrc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from dab.engine.provenance import starts
from dab.engine.run import Run

INIT_TIMEOUT = 30  # seconds to wait for a server before logging offline


class NoLogger:
    """Logs nothing: for `logger.mode=disabled` and for every worker but the first."""

    def log(self, row: dict[str, Any]) -> None:
        pass

    def image(self, name: str, path: Path) -> None:
        pass

    def finish(self, exit_code: int, summary: dict[str, Any] | None = None) -> None:
        pass


class WandbLogger(NoLogger):
    def __init__(self, run: Run, mode: str, project: str, entity: str | None):
        import wandb

        self._wandb = wandb
        self._run = wandb.init(
            id=run.hash,
            resume="allow" if mode == "online" else None,
            project=project,
            entity=entity,
            group=run.name,
            name=f"{run.name}-{run.hash}",
            config={**run.config, "provenance": starts(run.dir)[0]},
            dir=run.dir,
            mode=mode,  # type: ignore[arg-type]
            settings=wandb.Settings(silent=True, console="off", init_timeout=INIT_TIMEOUT, disable_git=True),
        )

        self._answers = True

    def log(self, row: dict[str, Any]) -> None:
        self._mirror(lambda: self._run.log({k: v for k, v in row.items() if k != "step"}, step=row["step"]))

    def image(self, name: str, path: Path) -> None:
        self._mirror(lambda: self._run.log({name: self._wandb.Image(str(path))}))

    def finish(self, exit_code: int, summary: dict[str, Any] | None = None) -> None:
        self._mirror(lambda: self._run.summary.update(summary or {}))
        with contextlib.suppress(Exception):  # said already; a run that is not closed would swallow the next one
            self._run.finish(exit_code=exit_code)

    def _mirror(self, send: Callable[[], object]) -> None:
        """A training run must not die of its mirror: when W&B's process is gone, the files go on alone."""
        if not self._answers:
            return
        try:
            send()
        except Exception as error:
            self._answers = False
            print(f"W&B does not answer any more ({type(error).__name__}); the run goes on without it", flush=True)


def open_logger(run: Run, first: bool) -> NoLogger:
    options = run.config["logger"]
    mode = options["mode"] if options["mode"] != "auto" else ("online" if has_credentials() else "offline")
    if mode == "disabled" or not first:
        return NoLogger()
    try:
        return WandbLogger(run, mode, options["project"], options["entity"])
    except Exception as error:  # a training run must not die of its mirror
        if mode == "offline":
            raise
        import wandb

        wandb.teardown()  # the half-open run still holds the id
        print(f"W&B cannot be reached ({type(error).__name__}); logging offline instead", flush=True)
        return WandbLogger(run, "offline", options["project"], options["entity"])


def has_credentials() -> bool:
    """An API key in the environment or in netrc: what `wandb login` leaves behind."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False
