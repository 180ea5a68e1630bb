from __future__ import annotations

import argparse
import sys

from experiments import report
from experiments.campaign import Campaign, status
from experiments.study import ROOT, SCALES, records_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments", description="Run what a study misses, then render.")
    parser.add_argument("study", choices=report.STUDIES)
    parser.add_argument("--scale", choices=SCALES, default="cpu")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--only", default="", help="only cells whose id contains this")
    parser.add_argument("--status", action="store_true", help="done, running, failed or missing, for each cell")
    parser.add_argument("--render", action="store_true", help="only render what there is")
    arguments = parser.parse_args()
    study, scale = report.STUDIES[arguments.study], arguments.scale
    records = records_of(study, scale)
    cells = [cell for cell in study.cells(scale) if arguments.only in cell.id]
    if arguments.status:
        print(status(cells, scale, records))
        return 0
    code = 0 if arguments.render else Campaign(cells, scale, records, arguments.jobs).run()
    if code <= 1:  # not when stopped half-way
        print(f"wrote {report.write(scale).relative_to(ROOT)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
