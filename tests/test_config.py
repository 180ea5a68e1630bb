"""Mistakes on the command line end in one line that says what is allowed; good commands compose."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from dab.engine.config import ConfigError, check_command_line, fits, plain
from dab.engine.launch import describe
from dab.engine.run import Run, run_hash

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
        ("data.length=five", "data.length='five' has the wrong type; allowed: int"),
        ("model.widths=3", "model.widths=3 has the wrong type"),
        ("trainer.device=tpu", "choose from auto, cpu, cuda"),
        ("logger.mode=maybe", "choose from auto, online, offline, disabled"),
        ("scale=huge", "allowed: cpu, paper, smoke"),
        ("trainer.steps=0", "at least 1"),
        ("trainer.threads=0", "auto or a number"),
        ("hard._target_=os.system", "only names starting with dab. or torch."),
        ("hard._target_=dab.hard.Nothing", "cannot be imported"),
        ("seed=0,1", "add -m"),
        ("seed", "seed"),
    ],
)
def test_a_mistake_is_told_in_one_line(override: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        check_command_line(ROOT / "conf", "config", [override])
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "overrides",
    [
        ["trainer.devices=2", "trainer.batch_size=7"],
        ["trainer.clip_norm=1", "trainer.clip_value=1"],
    ],
)
def test_impossible_combinations_are_refused(overrides: list[str]) -> None:
    with pytest.raises(ConfigError, match="trainer"):
        check_command_line(ROOT / "conf", "config", overrides)


def test_every_value_of_a_sweep_is_checked() -> None:
    check_command_line(ROOT / "conf", "config", ["data.length=5,10"], multirun=True)
    with pytest.raises(ConfigError, match=r"data\.length='x'"):
        check_command_line(ROOT / "conf", "config", ["seed=0,1", "data.length=5,x"], multirun=True)


def test_the_command_line_prints_no_traceback(train) -> None:
    done = train("estimator.routing=sideways")
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1].startswith("config error: estimator: routing")
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
    files = [p for p in (ROOT / "conf").rglob("*.yaml") if p.parent != ROOT / "conf" and "experiment" not in p.parts]
    assert len(files) > 15
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        for path in files:
            plain(compose("config", [f"{path.parent.name}={path.stem}"]))


def test_hash_covers_what_defines_the_numbers_and_nothing_else(config) -> None:
    base = run_hash(config())
    for same in (
        "logger.project=other",
        "trainer.threads=2",
        "trainer.devices=2",
        "trainer.log_every=7",
        "paths.data=x",
    ):
        assert run_hash(config(same)) == base, same
    for other in ("seed=1", "data.length=6", "optimizer.lr=0.1", "trainer.steps=21", "estimator.gamma=2"):
        assert run_hash(config(other)) != base, other


def test_an_option_at_its_default_does_not_change_the_run(config) -> None:
    """So a later version can add an option without turning every finished run into another one."""
    made = config()
    base = run_hash(made)
    del made["data"]["close_share"], made["trainer"]["amp"], made["model"]["activation"]
    assert run_hash(made) == base


def test_a_part_the_estimator_does_not_use_does_not_change_the_run(config) -> None:
    plain_ste = run_hash(config("estimator=straight_through"))
    assert run_hash(config("estimator=straight_through", "approximator=matched")) == plain_ste
    assert run_hash(config("estimator=straight_through", "hard.eps=0.1")) != plain_ste


def test_the_paper_optimizer_brings_its_constant_schedule(config) -> None:
    made = config("optimizer=paper")
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
