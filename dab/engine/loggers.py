"""Weights & Biases as a mirror of the local files; the files stay the record."""

from __future__ import annotations

import contextlib
import netrc
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import getproxies, proxy_bypass

from dab.engine.provenance import starts
from dab.engine.records import read_metrics
from dab.engine.run import Run

PROBE_TIMEOUT = 3  # seconds in which a server that is there takes a connection
INIT_TIMEOUT = 20  # seconds to wait for its answers before logging offline


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

        self._wandb, self._of, self._project, self._entity = wandb, run, project, entity
        self._run = self._opened(mode)
        self._answers = True

    def _opened(self, mode: str) -> Any:
        run = self._of
        return self._wandb.init(
            id=run.hash,
            resume="allow" if mode == "online" else None,
            project=self._project,
            entity=self._entity,
            group=run.name,
            name=f"{run.name}-{run.hash}",
            config={**run.config, "provenance": starts(run.dir)[0]},
            dir=run.dir,
            mode=mode,  # type: ignore[arg-type]
            settings=self._wandb.Settings(silent=True, console="off", init_timeout=INIT_TIMEOUT, disable_git=True),
        )

    def log(self, row: dict[str, Any]) -> None:
        self._mirror(lambda: self._send(row))

    def _send(self, row: dict[str, Any]) -> None:
        self._run.log({k: v for k, v in row.items() if k != "step"}, step=row["step"])

    def image(self, name: str, path: Path) -> None:
        self._mirror(lambda: self._run.log({name: self._wandb.Image(str(path))}))

    def finish(self, exit_code: int, summary: dict[str, Any] | None = None) -> None:
        self._mirror(lambda: self._run.summary.update(summary or {}))
        with contextlib.suppress(Exception):  # said already; a run that is not closed would swallow the next one
            self._run.finish(exit_code=exit_code)

    def _mirror(self, send: Callable[[], object]) -> None:
        """A training run must not die of its mirror. When W&B's process is gone, a new one gets all rows, offline."""
        if not self._answers:
            return
        try:
            send()
        except Exception as error:
            print(f"W&B does not answer any more ({type(error).__name__}); logging offline from here", flush=True)
            self._answers = self._open_again(send)

    def _open_again(self, send: Callable[[], object]) -> bool:
        try:
            with contextlib.suppress(Exception):  # there may be nothing left to tear down
                self._wandb.teardown()
            self._run = self._opened("offline")
            for row in read_metrics(self._of.dir / "metrics.jsonl"):  # what the old one had not written down, too
                self._send(row)
            send()
        except Exception as error:
            print(f"nor can it be started again ({type(error).__name__}); the run goes on without it", flush=True)
            return False
        return True


def open_logger(run: Run, first: bool) -> NoLogger:
    options = run.config["logger"]
    mode = options["mode"] if options["mode"] != "auto" else ("online" if has_credentials() else "offline")
    if mode == "disabled" or not first:
        return NoLogger()
    if mode == "online" and (silence := unreachable(*address())):
        mode = _offline_instead(silence)
    try:
        return WandbLogger(run, mode, options["project"], options["entity"])
    except Exception as error:  # a training run must not die of its mirror
        if mode == "offline":
            raise
        import wandb

        wandb.teardown()  # the half-open run still holds the id
        return WandbLogger(run, _offline_instead(type(error).__name__), options["project"], options["entity"])


def _offline_instead(reason: str) -> str:
    print(f"W&B cannot be reached ({reason}); logging offline instead, to be sent when the run is over", flush=True)
    return "offline"


def address() -> tuple[str, int]:
    """Who must take a connection before W&B can: its host, or the proxy in between."""
    server = urlparse(_server())
    proxy = None if proxy_bypass(server.hostname or "") else getproxies().get(server.scheme)
    asked = urlparse(proxy if proxy and "//" in proxy else f"//{proxy}") if proxy else server
    return asked.hostname or "", asked.port or {"http": 80, "https": 443}.get(asked.scheme, 443)


def unreachable(host: str, port: int) -> str | None:
    """Why nobody is there, or None. In a thread: looking up a name takes as long as it likes."""
    found: list[str | None] = []

    def ask() -> None:
        try:
            socket.create_connection((host, port), timeout=PROBE_TIMEOUT).close()
            found.append(None)
        except OSError as error:
            found.append(f"{host}:{port}: {error}")

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PROBE_TIMEOUT)
    return found[0] if found else f"{host}:{port} does not answer within {PROBE_TIMEOUT} s"


def _server() -> str:
    return os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")


def has_credentials() -> bool:
    """An API key in the environment or in netrc: what `wandb login` leaves behind."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlparse(_server()).hostname or ""
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False
