"""One run: its identity, its directory, its lock and its state."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
import socket
import time
from pathlib import Path
from typing import Any

from dab.engine import lock
from dab.engine.config import TrainerSchema
from dab.engine.lock import LinkInRun, Lock
from dab.engine.records import read_json, write_json
from dab.engine.storage import Unusable, told
from dab.engine.targets import COMPONENTS, locate, options_of, takes
from dab.estimators.why_not import draws_itself

SCHEMA_VERSION = 1

# What a run's numbers do not depend on: where it runs, how it is logged, where it is kept.
OPTIONS_ELSEWHERE = {
    "trainer": ("device", "devices", "threads", "timeout", "log_every", "save_every"),
    "data": ("cache", "decoders", "prefetch"),
}
ELSEWHERE = ("cluster", "paths", "logger", "dry_run", "force", "resume", "trust", "budget", "label")


def defining(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a config that defines the numbers.

    Options that stand at their default are left out, so that a new option does not turn old runs into strangers.
    """
    part = {k: v for k, v in config.items() if k not in ELSEWHERE}
    for name, elsewhere in OPTIONS_ELSEWHERE.items():
        part[name] = {k: v for k, v in config[name].items() if k not in elsewhere}
    trainer = part["trainer"]
    if trainer["clip_norm"] is None:
        trainer.pop("clip_apart", None)
    part["trainer"] = _without_defaults(trainer, inspect.signature(TrainerSchema))
    for name in COMPONENTS:
        part[name] = _without_defaults(part[name], inspect.signature(locate(name, config[name])))
    for unused in ("approximator", "hard"):
        if not takes("estimator", config["estimator"], unused) and not _drawn(config, unused):
            part.pop(unused)
    if config["trainer"]["devices"] > 1:  # every worker draws its own random numbers: more of them, another model
        part["workers"] = config["trainer"]["devices"]
    return part


def resolved(config: dict[str, Any]) -> dict[str, Any]:
    """The same with every default written out, by dotted name: what a default was is part of what a run was."""
    found: dict[str, Any] = {}
    for name, value in defining(config).items():
        if name in COMPONENTS:
            value = {"_target_": config[name]["_target_"], **options_of(name, config[name])}
        elif name == "trainer":
            value = {k: v for k, v in config[name].items() if k not in OPTIONS_ELSEWHERE[name]}
        found |= {f"{name}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
    return json.loads(json.dumps(found, default=str))  # as it will be read again


def _drawn(config: dict[str, Any], component: str) -> bool:
    """Whether it is the hard function of an estimator that draws it itself. A plain Bernoulli goes without saying."""
    if component != "hard" or not draws_itself(locate("estimator", config["estimator"])):
        return False
    return options_of("hard", config["hard"]) != options_of("hard", {"_target_": "dab.hard.Bernoulli"})


def _without_defaults(options: dict[str, Any], signature: inspect.Signature) -> dict[str, Any]:
    def is_default(name: str, value: Any) -> bool:
        default = getattr(signature.parameters.get(name), "default", inspect.Parameter.empty)
        default = list(default) if isinstance(default, tuple) else default
        return type(default) is type(value) and default == value

    return {name: value for name, value in options.items() if not is_default(name, value)}


def run_hash(config: dict[str, Any]) -> str:
    text = json.dumps([SCHEMA_VERSION, defining(config)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Run:
    """`<paths.runs>/<name>/<hash>/`, the only place a run writes to; its name is its experiment and what differs."""

    def __init__(self, config: dict[str, Any]):
        self.config = config
        self.hash = run_hash(config)
        self.name = config["name"] + config.get("label", "")
        self.dir = Path(config["paths"]["runs"]) / self.name / self.hash
        self.lock = Lock(self.dir)

    @property
    def result(self) -> dict[str, Any] | None:
        return read_json(self.dir / "result.json")

    @property
    def status(self) -> dict[str, Any]:
        try:
            return {"state": "unreadable", **(read_json(self.dir / "status.json") or {"state": "missing"})}
        except Unusable as error:
            return {"state": "unreadable", "message": str(error)}

    def set_status(self, state: str, **details: Any) -> None:
        write_json(self.dir / "status.json", {"state": state, **_who(), "updated": time.time(), **details})

    def acquire(self) -> None:
        """Take the directory for this process, until it ends however it ends; RunBusy says who has it."""
        self._refuse_linked_folders()
        with told(self.dir):
            self.dir.mkdir(parents=True, exist_ok=True)
        self.lock.take()
        with told(self.dir):
            for leftover in self.dir.glob("*.tmp"):  # killed in the middle of writing
                if leftover.is_file() and not leftover.is_symlink():
                    leftover.unlink()

    def _refuse_linked_folders(self) -> None:
        """`paths.runs` may be a link, somebody's large disk; what is below it is ours and never one."""
        for folder in (self.dir, *self.dir.parents[: self.name.count("/") + 1]):
            if folder.is_symlink():
                raise LinkInRun(f"{folder} is a symbolic link, which a run does not follow: remove it")

    def refuse_links(self) -> None:
        """Before anything is written: what is there must be files and folders. W&B links its own inside its folder."""
        figures = self.dir / "figures"
        for path in (*self.dir.iterdir(), *(figures.iterdir() if figures.is_dir() else ())):
            if path.is_symlink():
                raise LinkInRun(
                    f"{path} is a symbolic link, which a run does not follow: remove it, or start over with force=true"
                )

    def is_locked(self) -> bool:
        return lock.is_locked(self.dir)

    def release(self) -> None:
        self.lock.release()

    def clear(self) -> None:
        """Forget everything but the lock (`force=true`). Of a link only the link itself."""
        with told(self.dir):
            for path in self.dir.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                elif path.name != lock.NAME:
                    path.unlink()


def _who() -> dict[str, Any]:
    return {"pid": os.getpid(), "host": socket.gethostname()}
