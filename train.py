"""The one entrypoint: compose a config, check it, hand it to the engine.

python train.py                          the default job
python train.py --help                   groups and keys
python train.py dry_run=true             what would run
python train.py -m seed=0,1,2            a sweep
torchrun --nproc-per-node 4 train.py     workers started by torchrun, on one or more machines
"""

import math
import os
import sys
from pathlib import Path

# OpenMP reads its settings when torch is loaded, so this comes before every other import.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # waiting threads spin briefly, then sleep

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from dab.engine.compose import check_sweep, resolve, settle
from dab.engine.config import ConfigError
from dab.engine.launch import BUSY, CHANGED, FAILED, launch
from dab.engine.run import Run

CONF = Path(__file__).resolve().parent / "conf"
INTERRUPTED = 128  # exit codes from here on: 128 + the signal
REASONS = {
    BUSY: "another process is training it",
    CHANGED: "it was trained with other code or options (force=true or resume=anyway)",
}
failures: list[str] = []  # of this process's part of a sweep


class JobFailed(Exception):
    """How a sweep's launcher in other processes learns that a job failed."""


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def job(cfg: DictConfig) -> float:
    """One job of a sweep. Whatever it fails of, the others go on. Returns the validation metric, for sweepers."""
    overrides = list(HydraConfig.get().overrides.task)
    reason, value = "", math.nan
    try:
        config = settle(cfg, overrides)
        code = launch(config)
        if code > INTERRUPTED:
            sys.exit(code)
        run = Run(config)
        if code:
            reason = REASONS.get(code) or run.status.get("message", f"exit code {code}")
        elif run.result is not None:
            value = run.result["best"]["value"]
    except ConfigError as error:
        reason = f"config error: {error}"
        print(reason, file=sys.stderr, flush=True)
    if reason:
        failures.append(f"{' '.join(overrides)}: {reason}")
        if "BasicLauncher" not in HydraConfig.get().launcher._target_:
            raise JobFailed(reason)
    return value


def sweep(overrides: list[str]) -> int:
    """All jobs of a sweep by Hydra; which of them failed and why is told at the end."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise ConfigError("-m under torchrun is refused: every worker would sweep; use `trainer.devices=N` with -m")
    check_sweep(CONF, overrides)
    job()
    if failures:
        print("\n".join([f"{len(failures)} of the sweep's jobs failed:", *failures]), file=sys.stderr)
    return FAILED if failures else 0


def main() -> None:
    args = get_args_parser().parse_args()
    try:
        if args.multirun:
            sys.exit(sweep(args.overrides))
        flags = [word for word in sys.argv[1:] if word.startswith("-")]
        if flags:  # --help, --cfg job, --info: Hydra's own
            job()
            return
        sys.exit(launch(resolve(CONF, args.overrides)))
    except ConfigError as error:
        sys.exit(f"config error: {error}")


if __name__ == "__main__":
    main()
