"""A configuration, an experiment file and a run directory are data; what else is run is said on the command line."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import command_line

from dab.engine import trust
from dab.engine.compose import check_sweep, resolve, searched
from dab.engine.config import ConfigError
from dab.engine.launch import BAD_CONFIG, _open, launch
from dab.engine.lock import LinkInRun
from dab.engine.run import Run
from dab.measure import measure
from dab.predict import load

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import diagnose_sorter  # noqa: E402

TOUCHES = {
    "callbacks": "hydra: {callbacks: {a: {_target_: os.system, command: touch executed}}}",
    "job_logging": "hydra: {job_logging: {handlers: {a: {(): os.system, command: touch executed}}}}",
    "hydra_logging": "hydra: {hydra_logging: {handlers: {a: {(): os.system, command: touch executed}}}}",
    "launcher": "hydra: {launcher: {_target_: os.system}}",
    "run": "hydra: {run: {dir: executed}}",
    "sweep": "hydra: {sweep: {dir: executed}}",
    "job": "hydra: {job: {env_set: {PATH: executed}}}",
    "hydra_group": "defaults: [override /hydra/hydra_logging: none]",
}


@pytest.fixture(autouse=True)
def nobody_is_trusted(monkeypatch) -> None:
    monkeypatch.setattr(trust, "_trusted", set())
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def experiment(tmp_path: Path) -> Callable[[str], list[str]]:
    """experiment(text) are the words that compose an experiment file of the user's own with this text."""

    def write(text: str, package: str = "_global_") -> list[str]:
        folder = tmp_path / "it's mine" / "experiment"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mine.yaml").write_text(f"# @package {package}\n{text}\n")
        return ["experiment=mine", *searched(str(folder.parent))]

    return write


@pytest.mark.parametrize("text", TOUCHES.values(), ids=TOUCHES)
def test_a_file_says_nothing_of_hydra(text: str, experiment) -> None:
    words = experiment(f"{text}\nname: mine")
    for asked in (resolve, check_sweep):
        with pytest.raises(ConfigError, match=r"a configuration file sets hydra\.\w+, which only the command line may"):
            asked(ROOT / "conf", words)


@pytest.mark.parametrize("part", sorted(TOUCHES.keys() - {"run", "sweep"}))  # of those config.yaml has the last word
def test_a_cluster_s_file_chooses_a_launcher_of_ours_and_says_no_more_of_hydra(part: str, tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    file, words = tmp_path / "cluster" / "mine.yaml", ["cluster=mine", "seed=0,1", *searched(str(tmp_path))]
    file.write_text(
        "defaults: [override /hydra/launcher@_global_.hydra.launcher: executor]\nengine: pool\nat_once: 3\n"
    )
    check_sweep(ROOT / "conf", words)
    file.write_text(f"# @package _global_\n{TOUCHES[part]}\ncluster: {{engine: pool, at_once: 3}}\n")
    with pytest.raises(ConfigError, match=r"a configuration file sets hydra\.\w+, which only the command line may"):
        check_sweep(ROOT / "conf", words)


def test_an_experiment_s_file_does_not_choose_where_it_runs(experiment) -> None:
    words = experiment("defaults: [override /cluster: slurm]\nname: mine")
    with pytest.raises(ConfigError, match=r"a configuration file sets hydra\.launcher"):
        check_sweep(ROOT / "conf", words)


@pytest.mark.parametrize(
    "flags", [["--cfg", "job"], ["--info"], ["-m"], []], ids=lambda flags: " ".join(flags) or "run"
)
def test_no_way_to_look_at_a_file_runs_it(flags: list[str], experiment, tmp_path: Path, monkeypatch, capsys) -> None:
    experiment(TOUCHES["hydra_logging"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)  # put back afterwards
    with pytest.raises(SystemExit) as end:
        command_line(["experiment=mine", "--config-dir", "it's mine", *flags])
    assert "sets hydra.hydra_logging" in f"{end.value}{capsys.readouterr().err}"
    assert not Path("executed").exists()


def test_other_configurations_than_conf_are_refused(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", sys.argv)
    for flag in ("--config-name", "--config-path", "--experimental-rerun"):
        with pytest.raises(SystemExit) as end:
            command_line([flag, "x"])
        assert f"{flag} is not for train.py" in f"{end.value}{capsys.readouterr().err}"


def test_a_file_in_hydras_package_says_nothing_either(experiment) -> None:
    with pytest.raises(ConfigError, match=r"sets hydra\.run"):
        resolve(ROOT / "conf", experiment("run: {dir: executed}", package="hydra"))


def test_a_file_of_ones_own_is_found_and_the_command_line_may_speak_of_hydra(experiment) -> None:
    made = resolve(ROOT / "conf", [*experiment("name: mine\ndata: {length: 7}"), "hydra.verbose=true", "seed=3"])
    assert (made["name"], made["data"]["length"], made["label"]) == ("mine", 7, "")
    with pytest.raises(ConfigError, match="is no folder"):
        searched("nowhere")


@pytest.mark.parametrize("value", ["${oc.env:HOME}", "a${ oc.env : HOME }", "${oc.decode:${oc.env:HOME}}", "${now:%Y}"])
def test_what_a_resolver_finds_out_reaches_no_record(value: str, experiment) -> None:
    for key in ("name: mine\nlogger: {project: '%s'}", "name: mine\nmodel: {widths: ['%s']}"):
        with pytest.raises(ConfigError, match=r"asks for \$\{(oc|now)[^ ]*\.\.\.\}") as error:
            resolve(ROOT / "conf", experiment(key % value))
        assert os.environ["HOME"] not in str(error.value)


def test_trust_is_said_on_the_command_line_alone(experiment) -> None:
    with pytest.raises(ConfigError, match="a configuration file says trust"):
        resolve(ROOT / "conf", experiment("name: mine\ntrust: my_package"))
    assert trust.trusted() == ()
    for name in ("os", "torch.nn", "subprocess", "dab", "../evil", "a b"):
        with pytest.raises(ConfigError, match="trust="):
            resolve(ROOT / "conf", [f"trust='{name}'"])


OWN = """
import os
from subprocess import getoutput
import torch
open("imported", "w").close()
def to_grid(z, step: float = 1.0):
    return (z / step).round() * step
def nothing(): ...
class Round(torch.nn.Module):
    def forward(self, z): return z.round()
class Other: ...
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch) -> str:
    """A module of the user's own in the folder where the command is typed."""
    monkeypatch.chdir(tmp_path)
    Path("my_package.py").write_text(OWN)
    yield "my_package"
    sys.modules.pop("my_package", None)


GRID = ["hard._target_=my_package.to_grid", "~hard.eps", "+hard.step=0.5"]


def test_a_function_of_ones_own_is_trained_through_once_it_is_trusted(own, config, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="if it is your own, say trust=my_package on the command line"):
        config(*GRID)
    assert not Path("imported").exists()
    made = config(*GRID, "trust=my_package")
    assert launch(made) == 0
    run = Run(made)
    assert run.name == "sorting/signum_dense+to_grid+step=0.5" and run.result["config"]["trust"] == "my_package"
    hard = load(run.dir).model.estimator.hard
    assert torch.equal(hard(torch.tensor([0.2, 0.7])), torch.tensor([0.0, 0.5]))
    trust._trusted.clear()  # as in another process: what the run's directory says of trust does not count
    for ask in (load, measure):
        with pytest.raises(ConfigError, match="--trust my_package with a finished run"):
            ask(run.dir)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["hard._target_=my_package.to_grid"], "hard.eps is unknown; my_package.to_grid takes step: ~hard.eps leaves"),
        ([*GRID[:2], "+hard.step=wide"], "hard.step must be a number, given 'wide'"),
        (["hard._target_=my_package.nothing", "~hard.eps"], "nothing must take the tensor as its first argument"),
        (["hard._target_=my_package.getoutput", "~hard.eps"], "is not a module class of dab"),
        (["hard._target_=my_package.os", "~hard.eps"], "is not a module class of dab"),
        (["hard._target_=my_package.os.system", "~hard.eps"], "cannot be imported"),
        (["hard._target_=my_package.Other", "~hard.eps"], "is not a module class of dab"),
        (["task._target_=my_package.to_grid"], "is not a task class of dab"),
    ],
)
def test_what_is_trusted_must_still_be_of_its_kind(own, words: list[str], says: str, config) -> None:
    with pytest.raises(ConfigError) as error:
        config("trust=my_package", *words)
    assert says in str(error.value)


def test_a_module_that_fails_is_told_in_one_line(own, config) -> None:
    Path("my_package.py").write_text("1 / 0")
    with pytest.raises(ConfigError, match=r"cannot be imported: ZeroDivisionError: division by zero$"):
        config("trust=my_package", *GRID)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    from conftest import composed

    made = composed(tmp_path_factory.mktemp("finished"))
    assert launch(made) == 0
    return Run(made).dir


def planted(component: str, target: str) -> Callable[[dict[str, Any]], Any]:
    return lambda record: record["config"].update({component: {"_target_": target, "command": "touch executed"}})


HOSTILE = {
    **{
        f"{component}: {target}": planted(component, target)
        for component, target in (
            ("hard", "subprocess.getoutput"),
            ("model", "dab.engine.provenance.subprocess.getoutput"),
            ("task", "torch.hub.load"),
            ("estimator", "torch.load"),
            ("approximator", "torch.os.system"),
            ("optimizer", "torch.optim.optimizer.torch.os.system"),
            ("data", "os.system"),
        )
    },
    "trust": lambda record: record["config"].update(trust="my_package", hard={"_target_": "my_package.to_grid"}),
    "no config": lambda record: record.update(config="x"),
    "a wrong shape": lambda record: record.update(input_shape=["a"]),
    "a huge shape": lambda record: record.update(input_shape=[10**12]),
    "no trainer": lambda record: record["config"].update(trainer=3),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("ask", [load, measure, diagnose_sorter.diagnose])
def test_a_strangers_run_directory_is_refused_in_one_line(ask, change, finished: Path, own, tmp_path: Path) -> None:
    record = json.loads((finished / "result.json").read_text())
    change(record)
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps(record))
    (folder / "model.safetensors").write_bytes((finished / "model.safetensors").read_bytes())
    with pytest.raises((ConfigError, ValueError)) as error:
        ask(folder)
    assert "\n" not in str(error.value)
    assert not Path("executed").exists() and not Path("imported").exists()


FILES = [
    "lock",
    "config.yaml",
    "status.json.tmp",
    "metrics.jsonl",
    "checkpoint.pt.tmp",
    "figures/curves.png",
    "figures",
]


@pytest.mark.parametrize("name", FILES)
def test_a_link_in_a_run_directory_is_not_followed(name: str, config, tmp_path: Path, capsys) -> None:
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "folder/file").write_text("precious")
    made = config()
    link = Run(made).dir / name
    link.parent.mkdir(parents=True)
    link.symlink_to(outside / "folder" if name == "figures" else outside / "folder/file")
    assert launch(made) == BAD_CONFIG
    assert "is a symbolic link, which a run does not follow" in capsys.readouterr().err
    if name == "lock":
        with pytest.raises(LinkInRun):
            _open(Run({**made, "force": True}))
    else:
        _open(Run({**made, "force": True}))
        assert not link.is_symlink()
    assert [path.name for path in (outside / "folder").iterdir()] == ["file"]
    assert (outside / "folder/file").read_text() == "precious"


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_run_directory_that_is_a_link_is_neither_used_nor_emptied(level: int, config, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("precious")
    made = config("force=true")
    folder = [Run(made).dir, *Run(made).dir.parents][level]
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(outside)
    assert launch(made) == BAD_CONFIG
    assert [path.name for path in outside.iterdir()] == ["file"]


def test_runs_may_be_kept_on_another_disk(config, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    _open(Run(config()))
    assert list((tmp_path / "disk").rglob("status.json"))


def test_all_files_of_a_run_have_the_users_umask(config) -> None:
    before = os.umask(0o027)
    try:
        made = config()
        assert launch(made) == 0
    finally:
        os.umask(before)
    for path in Run(made).dir.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o750 if path.is_dir() else 0o640), path.name
