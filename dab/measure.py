"""`python -m dab.measure RUN_DIR [--split test]`: a finished run's metrics once more, from its saved weights.

On the machine, device and thread count of the run they are the recorded ones to the last bit. Metrics that the task has
learned since then come out too; those that need what only training has (an approximator) cannot.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dab.choice import one_of
from dab.engine.build import build_data
from dab.engine.config import ConfigError
from dab.engine.distributed import Workers, pick_device
from dab.engine.evaluation import final_metrics
from dab.engine.exits import input_errors
from dab.engine.host import use_threads
from dab.engine.stop import Stop
from dab.engine.targets import locate
from dab.engine.trust import add_argument, trust
from dab.predict import load, record

NEW, LOST = "not measured then", "needs what only training has"


def measure(run_dir: Path, split: str | None = None, folder: str | None = None) -> dict[str, float]:
    """Metrics by name, "test/elbo", as the run's record has them.

    split       only this one's
    folder      where its data files are, if not where they were
    """
    config = record(run_dir)["config"]
    if split is not None:
        one_of("--split", split, locate("task", config["task"]).final_splits)
    if folder is not None:
        config["paths"]["data"] = folder
    workers = Workers(device=pick_device(config["trainer"]["device"]))
    use_threads(config["trainer"]["threads"])
    try:
        data = build_data(config, workers)
    except ConfigError as error:
        raise ConfigError(f"{error} (here: --data FOLDER)") from error
    task = load(run_dir, data).to(workers.device)
    return final_metrics(task, data, workers, Stop(), only=split)


def report(result: dict[str, Any], measured: dict[str, float], split: str | None) -> str:
    """The measured numbers beside the recorded ones."""
    recorded = {k: v for k, v in result["metrics"].items() if split is None or k.startswith(f"{split}/")}
    names = [*recorded, *(name for name in measured if name not in recorded)]
    rows = [("metric", "recorded", "measured", "difference")]
    for name in names:
        before, now = recorded.get(name), measured.get(name)
        note = NEW if before is None else LOST if now is None else f"{now - before:.2g}"
        rows.append((name, *("–" if value is None else f"{value:.6g}" for value in (before, now)), note))
    width = max(map(len, names))
    lines = [f"  {name:{width}}  {before:>12}  {now:>12}  {note}" for name, before, now, note in rows]
    return "\n".join([f"{result['name']} {result['hash']}, seed {result['seed']}", *lines, *caveats(result)])


def caveats(result: dict[str, Any]) -> list[str]:
    """Why numbers may differ though nothing is wrong."""
    world, device = result["world"], pick_device(result["config"]["trainer"]["device"]).type
    several = f"measured by {world} workers then: metrics that are sampled differ by other draws"
    elsewhere = f"measured on {result['device']} then and on {device} now: expect rounding"
    return [f"({text})" for text, holds in ((several, world > 1), (elsewhere, result["device"] != device)) if holds]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dab.measure", description=__doc__.splitlines()[0])
    parser.add_argument("run_dir", type=Path, help="directory of a finished run, e.g. runs/sorting/signum_dense/<hash>")
    parser.add_argument("--split", help="this split alone (default: all that the run has measured)")
    parser.add_argument("--data", metavar="FOLDER", help="where data files are, if not where the run found them")
    add_argument(parser)
    arguments = parser.parse_args()
    with input_errors():
        trust(arguments.trust)
        measured = measure(arguments.run_dir, arguments.split, arguments.data)
        print(report(record(arguments.run_dir), measured, arguments.split))


if __name__ == "__main__":
    main()
