from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

from experiments import report
from experiments.checkout import checkout, has_uncommitted_code
from experiments.study import ROOT, RUNS, SCALES, Cell, records_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments", description="Run what a study misses, then render.")
    parser.add_argument("study", choices=report.STUDIES)
    parser.add_argument("--scale", choices=SCALES, default="cpu")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--only", default="", help="only cells whose id contains this")
    parser.add_argument("--only-dirty", action="store_true", help="train again what uncommitted code has trained")
    parser.add_argument("--status", action="store_true", help="done, running, failed or missing, for each cell")
    parser.add_argument("--render", action="store_true", help="only render what there is")
    arguments = parser.parse_args()
    study, scale = report.STUDIES[arguments.study], arguments.scale
    cells = [cell for cell in study.cells(scale) if arguments.only in cell.id]
    if not cells:
        print(
            f"{arguments.study} has no cells at scale={scale}" + (f" named {arguments.only}" if arguments.only else "")
        )
    if arguments.status:
        from experiments.campaign import status  # here and below: it needs the engine, rendering does not

        print(status(cells, scale, records_of(study, scale)))
        return 0
    code = 0 if arguments.render else _run(arguments, cells)
    if code <= 1:  # not when stopped half-way
        print(f"wrote {report.write(scale).relative_to(ROOT)}")
    return code


def _run(arguments: argparse.Namespace, cells: Sequence[Cell]) -> int:
    """From a checkout of the last commit; what is only a try (scale=smoke) from the files as they are."""
    from experiments.campaign import HERE, Campaign
    from experiments.workers import Workers

    study = report.STUDIES[arguments.study]
    campaign = partial(Workers, study.name) if study.work else Campaign
    records = records_of(study, arguments.scale)
    is_try = arguments.scale == "smoke"
    with nullcontext(HERE) if is_try else checkout(ROOT, RUNS / "checkouts") as code:
        if code.commit and has_uncommitted_code(ROOT):
            print(f"running commit {code.commit[:7]}; uncommitted changes are not in it", flush=True)
        return campaign(cells, arguments.scale, records, arguments.jobs, code, arguments.only_dirty).run()


if __name__ == "__main__":
    sys.exit(main())
