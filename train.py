"""The one entrypoint, in an installed package `dab-train`: compose a config, check it, hand it to the engine.

python train.py                          the default job
python train.py --help                   groups, keys and their ranges, exit codes
python train.py dry_run=true             what would run
python train.py -m seed=0,1,2            a sweep; with cluster=pool|slurm|ray several at a time, here or there
python train.py --list [NAME]            the runs there are: what differs, how far they are, how good
torchrun --nproc-per-node 4 train.py     workers started by torchrun, on one or more machines
"""

import math
import os
import sys
from pathlib import Path

# OpenMP reads its settings when torch is loaded, so this comes before every other import.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # waiting threads spin briefly, then sleep

try:
    import hydra
except ModuleNotFoundError as error:
    raise SystemExit(
        f"training needs {error.name}: the extra `suite` has it (in a clone: pip install '.[suite]')"
    ) from None
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from dab.engine.compose import check_sweep, resolve, searched, settle
from dab.engine.config import ConfigError
from dab.engine.exits import BAD_CONFIG, FAILED, INTERRUPTED
from dab.engine.launch import launch
from dab.engine.listing import listing
from dab.engine.reference import help_text
from dab.engine.run import Run
from dab.engine.sweep import Outcome, closing_table, new_folder, note, noted, reason_of, summarise

CONF = Path(__file__).resolve().parent / "conf"


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def job(cfg: DictConfig) -> float:
    """One job of a sweep. Whatever it fails of, the others go on. Returns the validation metric, for sweepers."""
    overrides = list(HydraConfig.get().overrides.task)
    outcome = Outcome(overrides, None)
    try:
        config = settle(cfg, overrides)
        code, run = launch(config), Run(config)
        if code > INTERRUPTED:
            sys.exit(code)
        if code:
            outcome = Outcome(overrides, None, reason_of(run, code), run.status.get("traceback", ""))
        elif not config["dry_run"]:
            outcome = Outcome(overrides, run.result)
    except ConfigError as error:
        outcome = Outcome(overrides, None, f"config error: {error}")
        print(outcome.reason, file=sys.stderr, flush=True)
    note(Path(HydraConfig.get().sweep.dir), HydraConfig.get().job.num, outcome)
    return math.nan if outcome.result is None else outcome.result["best"]["value"]


def sweep(overrides: list[str]) -> int:
    """All jobs of a sweep by Hydra; which of them failed and why is told at the end."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise ConfigError("-m under torchrun is refused: every worker would sweep; use `trainer.devices=N` with -m")
    check_sweep(CONF, overrides)
    folder = new_folder(runs_of([word for word in overrides if word.startswith("paths.runs=")]))
    os.environ["DAB_SWEEP"] = str(folder)  # for hydra.sweep.dir, here and in the processes of any launcher
    job()
    outcomes = noted(folder)
    if table := closing_table(outcomes):
        print(table, flush=True)
    failures = [f"{' '.join(one.overrides)}: {one.reason}" for one in outcomes if one.reason]
    if failures:
        again = f"The same command tries them again. All that is known: {summarise(folder, outcomes)}"
        print("\n".join([f"{len(failures)} of the sweep's jobs failed:", *failures, again]), file=sys.stderr)
    return FAILED if failures else 0


def show(overrides: list[str]) -> None:
    """--cfg job, --info: Hydra's own, of files that say nothing of Hydra."""
    check_sweep(CONF, overrides)
    job()


def list_runs(words: list[str]) -> str:
    """words: a part of a name, and where runs are kept"""
    where = [word for word in words if word.startswith("paths.runs=")]
    names = [word for word in words if word not in where]
    if len(names) > 1 or any(name.startswith("-") or "=" in name for name in names):
        raise ConfigError(f"--list takes a part of a name and paths.runs=..., given {' '.join(words)}")
    return listing(runs_of(where), *names)


def runs_of(words: list[str]) -> Path:
    return Path(resolve(CONF, words)["paths"]["runs"])


def main() -> None:
    sys.argv[1:] = sorted(sys.argv[1:], key=lambda word: word not in ("-m", "--multirun"))  # wherever it stood
    try:
        if "--list" in sys.argv:
            print(list_runs([word for word in sys.argv[1:] if word != "--list"]))
            return
        args = get_args_parser().parse_args()
        for flag in ("config_name", "config_path", "experimental_rerun"):
            if getattr(args, flag):
                name = flag.replace("_", "-")
                raise ConfigError(f"--{name} is not for train.py: --config-dir FOLDER adds experiments of your own")
        overrides = [*args.overrides, *searched(args.config_dir)]
        if args.multirun:
            sys.exit(sweep(overrides))
        if args.shell_completion:
            job()
        elif args.help:
            check_sweep(CONF, overrides)
            print(help_text(CONF, overrides))
        elif args.hydra_help or args.cfg or args.info:
            show(overrides)
        else:
            sys.exit(launch(resolve(CONF, overrides)))
    except ConfigError as error:
        print(f"config error: {error}", file=sys.stderr)
        sys.exit(BAD_CONFIG)


if __name__ == "__main__":
    main()
