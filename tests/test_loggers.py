"""What reaches W&B is read back from the file it wrote."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from pathlib import Path

import pytest
from wandb_file import items, of_kind

from dab.engine.launch import FAILED, launch
from dab.engine.loggers import WandbLogger, address, has_credentials, unreachable
from dab.engine.records import read_metrics
from dab.engine.run import Run


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))


def run_file(run: Run) -> Path:
    """The newest file, once W&B's own process has written the last record into it."""
    path = sorted(run.dir.glob("wandb/offline-run-*/run-*.wandb"))[-1]
    deadline = time.monotonic() + 60
    while not of_kind(path, "exit") and time.monotonic() < deadline:
        time.sleep(0.1)
    return path


def test_without_credentials_auto_is_offline_and_mirrors_everything(config) -> None:
    made = config("logger.mode=auto", "trainer.log_every=5")
    assert not has_credentials()
    assert launch(made) == 0
    run = Run(made)
    path = run_file(run)
    logged = [items(history.item) for history in of_kind(path, "history")]
    rows = read_metrics(run.dir / "metrics.jsonl")
    for name in ("train/loss", "train/lr", "valid/all_or_none"):
        ours = [row[name] for row in rows if name in row]
        assert [row[name] for row in logged if name in row] == pytest.approx(ours) and ours, name
    assert any(key.startswith("curves") for row in logged for key in row)  # the picture
    (start,) = of_kind(path, "run")
    sent = items(start.config.update)
    assert start.run_id == run.hash and start.run_group == made["name"]
    assert sent["trainer"]["steps"] == 20 and sent["provenance"]["torch"]
    summary = {k: v for message in of_kind(path, "summary") for k, v in items(message.update).items()}
    assert summary["test/all_or_none"] == pytest.approx(run.result["metrics"]["test/all_or_none"])
    assert of_kind(path, "exit")[-1].exit_code == 0


def test_image_metrics_probes_and_grids_are_mirrored(config) -> None:
    made = config("experiment=representation/fashion_mnist", "logger.mode=offline", "model.bpp=0.5")
    assert launch(made) == 0
    run = Run(made)
    path = run_file(run)
    summary = {k: v for message in of_kind(path, "summary") for k, v in items(message.update).items()}
    for name in ("test/msssim_shrink", "test/msssim_upsampled", "test/probe", "test/nominal_bits"):
        assert summary[name] == pytest.approx(run.result["metrics"][name])
    logged = [items(history.item) for history in of_kind(path, "history")]
    assert any(key.startswith("reconstructions") for row in logged for key in row)


def test_a_run_outlives_its_mirror(config, monkeypatch, capsys) -> None:
    """W&B's own process is killed in the middle: another one gets every row, for `wandb sync`."""
    log = WandbLogger.log

    def log_and_kill(self: WandbLogger, row: dict) -> None:
        log(self, row)
        if row["step"] == 10 and "train/loss" in row:
            (process,) = [p for p in children() if "wandb-core" in (p / "cmdline").read_text()]
            os.kill(int(process.name), signal.SIGKILL)

    monkeypatch.setattr(WandbLogger, "log", log_and_kill)
    made = config("logger.mode=offline", "trainer.log_every=1", "trainer.eval_every=7")
    assert launch(made) == 0
    told, run = capsys.readouterr().out, Run(made)
    assert told.count("W&B does not answer any more (") == 1 and "nor can it" not in told
    (killed, _), whole = sorted(run.dir.glob("wandb/offline-run-*")), run_file(run)
    assert f"wandb sync {killed} {whole.parent}" in told
    losses = [row["train/loss"] for row in read_metrics(run.dir / "metrics.jsonl") if "train/loss" in row]
    logged = [items(history.item) for history in of_kind(whole, "history")]
    assert [row["train/loss"] for row in logged if "train/loss" in row] == pytest.approx(losses) and len(losses) == 20
    assert of_kind(whole, "exit")[-1].exit_code == 0


def children() -> list[Path]:
    """The processes of this one, as folders of /proc."""
    mine = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "stat").read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                mine.append(folder)
    return mine


def test_a_failed_run_is_a_failed_run_there_too(config) -> None:
    made = config("logger.mode=offline", "optimizer.lr=1e30")
    assert launch(made) == FAILED
    assert of_kind(run_file(Run(made)), "exit")[-1].exit_code != 0


def test_disabled_writes_nothing(config) -> None:
    made = config("logger.mode=disabled")
    assert launch(made) == 0
    assert not (Run(made).dir / "wandb").exists()


def test_credentials_are_found_where_wandb_login_leaves_them(monkeypatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine api.wandb.ai login user password 0123\n")
    netrc.chmod(0o600)
    assert has_credentials()
    netrc.unlink()
    assert not has_credentials()
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    assert has_credentials()


@pytest.mark.parametrize("listens", [False, True])
def test_a_server_that_does_not_answer_costs_the_mirror_not_the_run(listens, config, monkeypatch, capsys) -> None:
    """Nobody there is told at once; somebody who takes the connection and says nothing, after a while."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1] if listens else 9
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{port}")
        monkeypatch.setattr("dab.engine.loggers.INIT_TIMEOUT", 2)
        made = config("logger.mode=online")
        assert launch(made) == 0
    told = capsys.readouterr().out
    assert "logging offline instead" in told and ("127.0.0.1:9" in told) != listens
    folder = run_file(Run(made)).parent
    assert f"-m wandb sync {folder}" in told


def test_where_nobody_answers_is_known_within_seconds(monkeypatch) -> None:
    """A name that resolves slowly, or a firewall that swallows everything."""

    def swallowed(*_: object, **__: object) -> None:
        time.sleep(30)
        raise TimeoutError

    monkeypatch.setattr("dab.engine.loggers.PROBE_TIMEOUT", 0.2)
    monkeypatch.setattr(socket, "create_connection", swallowed)
    before = time.monotonic()
    assert "does not answer within" in unreachable("example.org", 443)
    assert time.monotonic() - before < 5


def test_the_proxy_is_asked_where_there_is_one(monkeypatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert address() == ("api.wandb.ai", 443)
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    assert address() == ("proxy.example", 3128)
    monkeypatch.setenv("no_proxy", "api.wandb.ai")
    assert address() == ("api.wandb.ai", 443)
