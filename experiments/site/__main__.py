from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.site.page import write
from experiments.study import FRESH, OWN, ROOT, SCALES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.site", description="Write the page of all results.")
    parser.add_argument("--scale", choices=SCALES, default="cpu")
    parser.add_argument(
        "--fresh", action="store_true", help="of the runs in runs/fresh/ alone; else results/ and runs/"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="the folder of its index.html")
    arguments = parser.parse_args()
    path = write(arguments.out.resolve(), arguments.scale, FRESH if arguments.fresh else OWN)
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
