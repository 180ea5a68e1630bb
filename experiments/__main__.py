from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from experiments import report
from experiments.checkout import Checkout, checkout, has_uncommitted_code
from experiments.estimate import estimate, listed, seconds_of
from experiments.study import COMMITTED, FRESH, OWN, ROOT, RUNS, SCALES, Cell, Records, Store

if TYPE_CHECKING:
    from experiments.trainings import Trainings

BAD_INPUT = 2


def main() -> int:
    arguments = parse()
    study, scale, store = report.STUDIES[arguments.study], arguments.scale, store_of(arguments)
    if arguments.render:
        return wrote(scale, store)
    cells = [cell for cell in study.cells(scale) if any(word in cell.id for word in arguments.only)]
    if not cells:
        print(nothing(arguments.study, scale, arguments.only), file=sys.stderr)
        return BAD_INPUT
    if arguments.status:
        from experiments.campaign import status  # here and below: it needs the engine, rendering does not

        print(status(cells, scale, store.records(study, scale), store.runs))
        return 0
    from dab.engine.config import ConfigError

    try:
        code = _run(arguments, cells, store)
    except ConfigError as error:
        print(f"config error: {error}", file=sys.stderr)
        return BAD_INPUT
    if code <= 1 and not arguments.dry_run:  # not when stopped half-way
        wrote(scale, store)
    return code


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments", description="Run what a study misses, then render.")
    parser.add_argument("study", choices=report.STUDIES)
    parser.add_argument("--scale", choices=SCALES, default="cpu")
    parser.add_argument("--jobs", type=at_least_one, help="runs at a time, one thread each (here: 2)")
    parser.add_argument(
        "--cluster",
        nargs="+",
        default=["pool"],
        metavar=("NAME", "KEY=VALUE"),
        help="where they run: pool (this machine), slurm, ray; with what its file in conf/cluster knows",
    )
    parser.add_argument("--dry-run", action="store_true", help="only print the cells to do, and what they will cost")
    parser.add_argument("--only", nargs="+", default=[""], help="only cells whose id contains this, or one of these")
    parser.add_argument("--only-dirty", action="store_true", help="train again what uncommitted code has trained")
    parser.add_argument("--status", action="store_true", help="done, running, failed or missing, for each cell")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--fresh", action="store_true", help="train every cell again, in runs/fresh/")
    where.add_argument("--keep", action="store_true", help="keep records in results/ and render docs/, to be committed")
    where.add_argument("--render", action="store_true", help="only render docs/, README and headers from results/")
    return parser.parse_args()


def at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number of at least 1, given {text}")
    return int(text)


def store_of(arguments: argparse.Namespace) -> Store:
    return FRESH if arguments.fresh else COMMITTED if arguments.keep or arguments.render else OWN


def nothing(study: str, scale: str, only: list[str]) -> str:
    """Why there is nothing to do."""
    ids = [cell.id for cell in report.STUDIES[study].cells(scale)]
    if ids:
        words = " or ".join(only)
        return f"no cell of {study} at scale={scale} has {words} in its name, so nothing was done; one is {ids[0]}"
    others = [name for name in SCALES if report.STUDIES[study].cells(name)]
    return f"{study} has no cells at scale={scale}, so nothing was done; it has some at {', '.join(others)}"


def wrote(scale: str, store: Store) -> int:
    print(f"wrote {report.write(scale, store).relative_to(ROOT)}")
    return 0


def _run(arguments: argparse.Namespace, cells: Sequence[Cell], store: Store) -> int:
    """From a checkout of the last commit; what is only a try (scale=smoke) from the files as they are."""
    from experiments.campaign import Campaign, missing
    from experiments.executors import open_executor
    from experiments.trainings import HERE, Trainings
    from experiments.works import Works

    study, scale, runs = report.STUDIES[arguments.study], arguments.scale, store.runs
    options, records, is_try = cluster_of(arguments), store.records(study, scale), arguments.scale == "smoke"
    with nullcontext(HERE) if is_try or arguments.dry_run else checkout(ROOT, RUNS / "checkouts") as code:
        kind = Works(study.name, scale, runs) if study.work else Trainings(scale, runs, code, arguments.only_dirty)
        waiting = missing(cells, kind, records, arguments.only_dirty)
        if isinstance(kind, Trainings) and not arguments.only_dirty:
            waiting = _without_shared(waiting, kind, store, records, arguments.dry_run)
        if waiting:
            known = seconds_of(study.cells(scale), records, OWN.records(study, scale))
            if arguments.dry_run:
                print(listed(waiting, known))
            print(estimate(waiting, options["at_once"], known), flush=True)
        else:
            again = f"remove {runs.relative_to(ROOT)}/" if store is FRESH else "--fresh (make: FRESH=1)"
            wanted = "unclean" if arguments.only_dirty else "missing"
            print(f"nothing to do: of {len(cells)} runs none is {wanted}; to train them again: {again}", flush=True)
        if arguments.dry_run or not waiting:
            return 0
        _say_commit(code)
        with open_executor(options, code, f"dab-{study.name}", runs / "campaign-logs" / ".jobs") as executor:
            return Campaign(study.name, waiting, kind, records).run(executor)


def _without_shared(waiting: list[Cell], kind: Trainings, store: Store, records: Records, dry_run: bool) -> list[Cell]:
    """What is left when runs that other studies have are taken from there."""
    from experiments.campaign import shared

    others = [(other, store.records(other, kind.scale)) for other in report.STUDIES.values() if other.work is None]
    known = [record for other, of in others for cell in other.cells(kind.scale) if (record := of.of(cell))]
    taken = shared(waiting, kind, known)
    for cell, record in taken.items() if not dry_run else ():
        records.keep(cell, record)
    if taken:
        print(f"{len(taken)} of them other studies have trained: taken from there", flush=True)
    return [cell for cell in waiting if cell not in taken]


def cluster_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """What --cluster and --jobs say, as conf/cluster has it."""
    from dab.engine.compose import cluster_options
    from dab.engine.config import ConfigError

    name, *words = arguments.cluster
    if name in ("local", "joblib"):
        raise ConfigError(f"--cluster {name} is for sweeps of train.py; a study on this machine: --cluster pool")
    jobs = [f"at_once={arguments.jobs}"] if arguments.jobs else []
    return cluster_options(ROOT / "conf", name, [*words, *jobs])


def _say_commit(code: Checkout) -> None:
    if code.commit and has_uncommitted_code(ROOT):
        print(f"running commit {code.commit[:7]}; uncommitted changes are not in it", flush=True)


if __name__ == "__main__":
    sys.exit(main())
