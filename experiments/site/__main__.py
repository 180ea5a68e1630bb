from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.site.page import write
from experiments.study import COMMITTED, OWN, ROOT, SCALES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.site", description="Write the page of all results.")
    parser.add_argument("--scale", choices=SCALES, default="cpu")
    parser.add_argument("--own", action="store_true", help="with the runs of this machine that are not in results/")
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="the folder of its index.html")
    arguments = parser.parse_args()
    path = write(arguments.out.resolve(), arguments.scale, OWN if arguments.own else COMMITTED)
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
