"""Mistakes on the command line end in one line that says what is allowed; good commands compose."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import open_dict

from dab.engine.compose import check_sweep, resolve
from dab.engine.config import ConfigError, check_cluster, plain
from dab.engine.exits import BAD_CONFIG
from dab.engine.launch import describe, launch
from dab.engine.run import Run, run_hash
from dab.engine.targets import KINDS, locate
from dab.ranges import fits

ROOT = Path(__file__).resolve().parents[1]
EXPERIMENTS = sorted(
    str(p.relative_to(ROOT / "conf/experiment").with_suffix("")) for p in (ROOT / "conf/experiment").rglob("[!_]*.yaml")
)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("modle=dense_sorter", "did you mean model?"),
        ("model=dense", "did you mean dense_sorter?"),
        ("trainer.stepz=3", "did you mean steps?"),
        ("seed=abc", "seed"),
        ("data.length=five", "data.length must be a whole number in [2, 2^31), given 'five'"),
        ("model.widths=3", "model.widths must be a list of whole numbers in [1, 2^31) (at least one), given 3"),
        ("trainer.device=tpu", "trainer.device must be one of auto, cpu, cuda, given 'tpu'"),
        ("logger.mode=maybe", "logger.mode must be one of auto, online, offline, disabled"),
        ("scale=huge", "allowed: cpu, paper, smoke"),
        ("trainer.steps=0", "trainer.steps must be a whole number in [1, 2^31), given 0"),
        ("trainer.steps=1e3", "trainer.steps must be a whole number in [1, 2^31), given 1000.0"),
        ("trainer.clip_norm=-1", "trainer.clip_norm must be a number > 0, or null, given -1"),
        ("trainer.threads=true", "trainer.threads must be auto, or a whole number in"),
        ("schedule.floor=-1", "schedule.floor must be a number in [0, 1], given -1"),
        ("optimizer.lr=0", "optimizer.lr must be a number > 0, given 0"),
        ("optimizer.lr=fast", "optimizer.lr must be a number >= 0, given 'fast'"),
        ("optimizer.betas=[0.9]", "optimizer.betas must be a list of 2"),
        ("optimizer.fused=maybe", "optimizer.fused must be true or false, or null, given 'maybe'"),
        ("+optimizer.maximize=true", "optimizer.maximize must be false, given True"),
        ("+estimator.hard=1", "estimator.hard is unknown"),
        ("hard.eps=1e400", "hard.eps must be a number >= 0, given inf"),
        ("hard=null", "hard=null: choose one of argmax, bernoulli"),
        ("model=[dense_sorter]", "choose one of autoencoder"),
        ("data.test_size=0", "data.test_size must be a whole number"),
        ("name=''", "name must be a text of letters"),
        ("name=../x", "name must be a text of letters"),
        ("name=/tmp/x", "name must be a text of letters"),
        ("paths.runs=''", "paths.runs must be a text of printable characters"),
        ("budget.paper.lr=-1", "budget.paper.lr must be a number >= 0"),
        ("experiment=nope", "experiment=nope does not exist; allowed: binarized/arm"),
        ("experiment=sorting/signum", "did you mean sorting/signum"),
        ("trainer.steps.x=1", "trainer.steps.x is unknown; nothing can be set there"),
        ("=3", "'=3' names no key: write key=value"),
        ("hard._target_=os.system", "is not a module class of dab"),
        ("hard._target_=dab.hard.Nothing", "cannot be imported"),
        ("seed=0,1", "add -m"),
        ("seed", "'seed' cannot be read"),
    ],
)
def test_a_mistake_is_told_in_one_line(override: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        resolve(ROOT / "conf", [override])
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_an_experiment_without_its_package_line_is_told_of_it(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(ROOT / "conf", conf)
    (conf / "experiment/mine.yaml").write_text("seed: 1\n")
    with pytest.raises(ConfigError, match="begin it with the line # @package _global_"):
        resolve(conf, ["experiment=mine"])


def test_a_machine_must_have_what_a_run_asks_for(config) -> None:
    with pytest.raises(ConfigError, match=r"trainer.threads=1000\d*, but this machine has"):
        launch(config("trainer.threads=10000", "dry_run=true"))
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="CUDA finds 0 devices here"):
            launch(config("trainer.device=cuda", "dry_run=true"))


@pytest.mark.parametrize(
    "overrides",
    [
        ["trainer.devices=2", "trainer.batch_size=7"],
        ["trainer.clip_norm=1", "trainer.clip_value=1"],
    ],
)
def test_impossible_combinations_are_refused(overrides: list[str]) -> None:
    with pytest.raises(ConfigError, match="trainer"):
        resolve(ROOT / "conf", overrides)


def test_every_name_in_a_sweep_is_checked_before_it_starts() -> None:
    check_sweep(ROOT / "conf", ["model=dense_sorter,lstm_sorter"])
    check_sweep(ROOT / "conf", ["optimizer=glob(*)"])
    with pytest.raises(ConfigError, match="matches nothing; allowed: adam"):
        check_sweep(ROOT / "conf", ["optimizer=glob(x*)"])
    with pytest.raises(ConfigError, match=r"glob\(...\) is for the groups"):
        check_sweep(ROOT / "conf", ["seed=glob(*)"])
    with pytest.raises(ConfigError, match="model=dense does not exist; did you mean dense_sorter"):
        check_sweep(ROOT / "conf", ["seed=0,1", "model=dense_sorter,dense"])


def test_where_a_sweep_runs_is_checked_before_it_starts_and_is_no_part_of_a_run(config) -> None:
    check_sweep(ROOT / "conf", ["seed=0,1", "cluster=slurm", "cluster.partition=gpu"])
    for words, says in {
        "cluster=slurm cluster.gpus=-1": "cluster.gpus must be a whole number in",
        "cluster=pool cluster.partition=gpu": "cluster.partition is unknown; did you mean at_once",
        "cluster=pool cluster.engine=slurm": "choose cluster=NAME",
    }.items():
        with pytest.raises(ConfigError, match=says):
            check_sweep(ROOT / "conf", ["seed=0,1", *words.split()])
    with pytest.raises(ConfigError, match="cluster=pool has no effect without -m"):
        config("cluster=pool")
    assert "cluster" not in config()


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (
            ["estimator=reinmax", "hard=kmeans"],
            "ReinMax draws its Bernoulli or Categorical sample itself",
        ),
        (["estimator=disarm", "hard=categorical"], "Disarm draws its Bernoulli sample itself"),
        (["estimator=vector_quantization"], "learns the words of a Nearest, given Signum: use hard=nearest"),
        (["estimator=reinmax"], "given Signum: use hard=bernoulli"),
        (["estimator=straight_through", "approximator=matched"], "approximator=matched has no effect"),
        (["estimator=no_hard", "hard.eps=0.1"], "hard.eps=0.1 has no effect: NoHard has no hard function"),
        (["estimator=no_hard", "trainer.approximator_lr_scale=5"], "has no effect: NoHard has no approximator"),
        (["estimator=fitted", "trainer.approximator_lr=1e-3"], "FittedBridge fits its approximator itself"),
        (["approximator.frozen=true", "trainer.approximator_lr=1e-3"], "a frozen approximator is not trained"),
        (["trainer.control_lr_scale=10"], "has no effect: Bridge has no control variate"),
        (["trainer.clip_apart=false"], "has no effect: it needs a clip_norm"),
        (["data.close_low=1e-3"], "has no effect: it needs a close_share"),
        (["experiment=representation/fashion_mnist", "task.sigma=1"], "it needs likelihood=gaussian"),
        (["experiment=representation/fashion_mnist", "model.decoder_hidden=[9]"], "needs decoder=upsampling or dense"),
        (["experiment=classification/cifar10", "model.norm=group", "model.norm_momentum=0.2"], "it needs norm=batch"),
    ],
)
def test_what_would_have_no_effect_is_refused(overrides: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        resolve(ROOT / "conf", overrides)


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "sorting/signum_dense"),
        (["seed=3", "paths.runs=x", "trainer.devices=2"], "sorting/signum_dense"),
        (["model=lstm_sorter", "model.ponder=2"], "sorting/signum_dense+lstm_sorter+ponder=2"),
        (["model=lstm_sorter", "model.ponder=0"], "sorting/signum_dense+lstm_sorter"),
        (["model=dense_sorter", "data.length=5"], "sorting/signum_dense"),  # what it is anyway
        (["optimizer.lr=1e-2", "data.length=10"], "sorting/signum_dense+lr=0.01+length=10"),
        (["model.widths=[64, 32]"], "sorting/signum_dense+widths=64,32"),
        (["experiment=binarized/relax", "recipe=rebar", "data=digits"], "binarized/relax+rebar+digits"),
    ],
)
def test_a_run_is_named_by_its_experiment_and_what_differs(overrides: list[str], name: str) -> None:
    run = Run(resolve(ROOT / "conf", overrides))
    assert run.name == name
    assert run.dir.parent.name == name.rpartition("/")[2]


HOSTILE = [
    "os.system",
    "builtins.eval",
    "subprocess.getoutput",
    "torch.os.system",
    "torch.load",
    "torch.hub.load",
    "torch.utils.collect_env.run",
    "torch.optim.optimizer.torch.os.system",
    "torch.optim.lr_scheduler.LambdaLR",
    "torch.nn.Linear",
    "dab.engine.records.subprocess.getoutput",
    "dab.engine.records.subprocess",
    "dab.engine.records.Path",
    "dab.engine.launch.launch",
    "dab.engine.distributed.spawn",
    "dab.engine.checkpoint.torch.load",
    "dab.data.files.fetch",
    "dab.hard.Signum.__init__",
    "dab.hard.out_shape",
    "dab",
    "dab.",
    "",
    ".",
    "importlib.import_module",
]


@pytest.mark.parametrize("component", KINDS)
@pytest.mark.parametrize("target", HOSTILE)
def test_a_target_outside_its_kind_is_refused(component: str, target: str) -> None:
    with pytest.raises(ConfigError) as error:
        locate(component, {"_target_": target, "command": "touch /tmp/no"})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("component", KINDS)
def test_a_component_of_another_kind_is_refused(component: str, config) -> None:
    made = config()
    modules = {"hard", "estimator"}  # a hard function is a module like any other
    for other in KINDS:
        if other != component and not (component in modules and other in modules | {"model", "task"}):
            with pytest.raises(ConfigError):
                locate(component, made[other])


def test_a_sweep_goes_on_after_any_failure_and_tells_at_the_end(train, tmp_path: Path, config) -> None:
    """An impossible combination, bad data and a busy directory: the job that can be trained is."""
    busy = Run(config("estimator=straight_through"))
    busy.acquire()
    done = train("-m", "estimator=reinmax,bridge,straight_through", "data.length=1,5")
    busy.release()
    assert done.returncode == 1
    told = done.stderr[done.stderr.index("5 of the sweep's jobs failed:") :].splitlines()[1:]
    assert sum("ReinMax draws its" in line for line in told) == 1
    assert sum("data.length must be a whole number" in line for line in told) == 3
    assert sum("another process is training it" in line for line in told) == 1
    assert "Traceback" not in done.stderr
    finished = list((tmp_path / "runs").rglob("result.json"))
    assert [path.parent.parent.name for path in finished] == ["signum_dense"]
    table = done.stdout[done.stdout.index("6 runs, 1 finished, 5 failed") :].splitlines()
    assert table[1].split() == ["best", "valid/all_or_none", "test/all_or_none", "seconds"]
    assert sum("1 failed" in line for line in table) == 5


def test_the_command_line_prints_no_traceback(train) -> None:
    done = train("estimator.routing=sideways")
    assert done.returncode == BAD_CONFIG
    assert done.stderr.strip() == (
        "config error: estimator.routing must be one of released, equation, additive, given 'sideways'"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("experiment", EXPERIMENTS)
@pytest.mark.parametrize("scale", ["smoke", "cpu", "paper"])
def test_every_experiment_composes_and_is_named_after_its_file(experiment: str, scale: str, config) -> None:
    made = config(f"experiment={experiment}", scale=scale)
    assert made["name"] == experiment
    assert set(made["budget"]) == {"smoke", "cpu", "paper"}


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_opens_with_its_command(experiment: str) -> None:
    text = (ROOT / "conf/experiment" / f"{experiment}.yaml").read_text()
    comment = [line for line in text.splitlines() if line.startswith("#")]
    assert any("python train.py" in line for line in comment)


def test_every_file_of_every_group_composes() -> None:
    files = [p for p in (ROOT / "conf").glob("*/*.yaml") if p.parent.name != "experiment"]
    assert len(files) > 15
    if find_spec("hydra_plugins.hydra_joblib_launcher") is None:
        files.remove(ROOT / "conf/cluster/joblib.yaml")
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        for path in files:
            group = path.parent.name
            needed = "nearest" if path.stem == "vector_quantization" else "bernoulli"
            hard = [f"hard={needed}"] if group == "estimator" else []
            composed = compose("config", [f"{group}={path.stem}", *hard])
            check_cluster(composed)
            with open_dict(composed):
                del composed["cluster"]  # of a sweep
            plain(composed)


def test_hash_covers_what_defines_the_numbers_and_nothing_else(config) -> None:
    base = run_hash(config())
    for same in (
        "logger.project=other",
        "trainer.threads=2",
        "resume=anyway",
        "trainer.log_every=7",
        "paths.data=x",
    ):
        assert run_hash(config(same)) == base, same
    others = (
        "seed=1",
        "data.length=6",
        "optimizer.lr=0.1",
        "trainer.steps=21",
        "estimator.gamma=2",
        "trainer.devices=2",
    )
    for other in others:
        assert run_hash(config(other)) != base, other


def test_an_option_at_its_default_does_not_change_the_run(config) -> None:
    """So a later version can add an option without turning every finished run into another one."""
    made = config()
    base = run_hash(made)
    del made["data"]["close_share"], made["trainer"]["amp"], made["model"]["activation"]
    assert run_hash(made) == base


def test_a_part_the_estimator_does_not_use_does_not_change_the_run(config) -> None:
    plain_ste = run_hash(config("estimator=straight_through"))
    assert run_hash(config("experiment=sorting/matched_cap4", "estimator=straight_through", "name=x")) == run_hash(
        config("estimator=straight_through", "name=x")
    )
    assert run_hash(config("estimator=straight_through", "hard.eps=0.1")) != plain_ste


def test_the_paper_recipe_brings_its_constant_schedule(config) -> None:
    made = config("recipe=paper")
    assert made["optimizer"]["lr"] == 1e-4
    assert made["schedule"]["_target_"].endswith("Constant")


def test_dry_run_tells_everything_and_writes_nothing(config, tmp_path: Path) -> None:
    made = config("dry_run=true")
    text = describe(Run(made))
    for part in ("139,161 in training, 56,729 at inference", "20 of batch 64", "run directory", "eps: 0.5"):
        assert part in text
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (True, int, False),
        (1, float, True),
        ("1", float, False),
        (None, int | None, True),
        ([1, 2], tuple[int, ...], True),
        ([1, "a"], list[int], False),
    ],
)
def test_fits(value, hint, expected) -> None:
    assert fits(value, hint) is expected
