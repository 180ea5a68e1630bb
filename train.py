"""The one entrypoint: compose a config, check it, hand it to the engine.

python train.py                          the default job
python train.py --help                   groups and keys
python train.py dry_run=true             what would run
python train.py -m seed=0,1,2            a sweep
torchrun --nproc-per-node 4 train.py     workers started by torchrun, on one or more machines
"""

import os
import sys
from pathlib import Path

# OpenMP reads its settings when torch is loaded, so this comes before every other import.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # waiting threads spin briefly, then sleep

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from dab.engine.config import ConfigError, check_command_line, plain
from dab.engine.launch import FAILED, launch

CONF = Path(__file__).resolve().parent / "conf"


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def job(cfg: DictConfig) -> None:
    try:
        code = launch(plain(cfg))
    except ConfigError as error:
        sys.exit(f"config error: {error}")
    if code == FAILED and HydraConfig.get().mode == RunMode.MULTIRUN:
        raise RuntimeError("this job of the sweep failed; the others go on")
    if code:
        sys.exit(code)


def main() -> None:
    args = get_args_parser().parse_args()
    try:
        if args.multirun and "TORCHELASTIC_RUN_ID" in os.environ:
            raise ConfigError("-m under torchrun is refused: every worker would sweep; use `trainer.devices=N` with -m")
        check_command_line(CONF, args.config_name or "config", args.overrides, args.multirun)
    except ConfigError as error:
        sys.exit(f"config error: {error}")
    job()


if __name__ == "__main__":
    main()
