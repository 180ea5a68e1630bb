"""`python train.py --list`: the runs there are. Their files are read and nothing of them is built."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from dab.engine.lock import is_locked
from dab.engine.records import read_json
from dab.engine.run import ELSEWHERE, OPTIONS_ELSEWHERE

WIDTH = 80
DAMAGED = "damaged"


@dataclass(frozen=True)
class Listed:
    """One run: what defines it as "trainer.steps": 20, its state, and what else there is to say."""

    name: str
    hash: str
    options: dict[str, Any]
    state: str
    more: str


def listing(runs: Path, name: str = "") -> str:
    """Every run below `runs` whose name contains `name`; runs of one name by what they differ in."""
    found = [one for folder in _folders(runs) if name in (one := _listed(runs, folder)).name]
    if not found:
        return f"no runs below {runs}/" + (f" with {name} in their name" if name else "")
    named: dict[str, list[Listed]] = defaultdict(list)
    for one in found:
        named[one.name].append(one)
    lines = [line for group in sorted(named) for line in (group, *_lines(named[group]))]  # a name is never cut
    counts = ", ".join(f"{count} {state}" for state, count in Counter(one.state for one in found).items())
    return "\n".join([*lines, f"{len(found)} runs below {runs}/: {counts}"])


def _folders(runs: Path) -> Iterator[Path]:
    """Directories of runs; what a run holds and checkouts of campaigns are not looked into."""
    for place, folders, files in os.walk(runs):
        is_run = "status.json" in files
        folders[:] = [] if is_run else sorted(f for f in folders if f != "checkouts" and not f.startswith("."))
        if is_run:
            yield Path(place)


def _listed(runs: Path, folder: Path) -> Listed:
    name = str(folder.parent.relative_to(runs))
    try:
        status, result = read_json(folder / "status.json"), read_json(folder / "result.json")
        options = _options(OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"), resolve=False))
        state, more = _state(folder, status or {}, result)
    except Exception:  # a foreign or torn file can be wrong in any way, and the others are still wanted
        return Listed(name, folder.name, {}, DAMAGED, "cannot be read; force=true starts it over")
    return Listed(name, folder.name, options, state, more)


def _state(folder: Path, status: dict[str, Any], result: dict[str, Any] | None) -> tuple[str, str]:
    if result is not None:
        best = result["best"]
        value = "never a number" if best["value"] is None else f"{best['value']:.4g}"
        return "finished", f"{best['metric']} {value}"
    state = "interrupted" if status["state"] == "running" and not is_locked(folder) else status["state"]
    reached = f"at step {status['step']:,} of {status['steps']:,}" if "step" in status else ""
    return state, status.get("message", reached)


def _options(config: Any, path: str = "") -> dict[str, Any]:
    """The leaves of a configuration that can make one run differ from another."""
    if not isinstance(config, dict):
        return {path: config}
    left_out = ELSEWHERE if not path else OPTIONS_ELSEWHERE.get(path, ())
    inner = {f"{path}.{key}" if path else str(key): value for key, value in config.items() if key not in left_out}
    return {name: leaf for key, value in inner.items() for name, leaf in _options(value, key).items()}


def _lines(group: list[Listed]) -> list[str]:
    differ = [
        name
        for name in dict.fromkeys(name for one in group for name in one.options)
        if name == "seed" or len({repr(one.options.get(name)) for one in group if one.options}) > 1
    ]
    texts = {one.hash: _differing(one.options, differ) for one in group}
    width, states = max(map(len, texts.values())), max(len(one.state) for one in group)
    rows = [
        f"  {one.hash}  {texts[one.hash]:{width}}  {one.state:{states}}  {one.more}"
        for one in sorted(group, key=lambda one: texts[one.hash])
    ]
    return [_fitted(row) for row in rows]


def _fitted(row: str) -> str:
    """In one line of a terminal; what a stranger's file says to it is not passed on."""
    plain = "".join(letter if letter.isprintable() else " " for letter in row).rstrip()
    return plain if len(plain) <= WIDTH else plain[: WIDTH - 1] + "…"


def _differing(options: dict[str, Any], names: list[str]) -> str:
    return " ".join(f"{name.rpartition('.')[2]}={options[name]}".replace(" ", "") for name in names if name in options)
