"""Every experiment file of every study trains at scale=smoke, offline: found by looking, so that none is forgotten."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from dab.engine.launch import launch
from dab.engine.records import read_metrics
from dab.engine.run import Run

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "conf" / "experiment"
EXPERIMENTS = sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("[!_]*.yaml"))
SHORT = ["trainer.steps=2", "trainer.log_every=1"]
SMALL = {  # by study: what there is to measure
    "sorting": ["data.valid_size=50", "data.test_size=50"],
    "binarized": ["task.iwae_samples=[5]", "task.variance_draws=2"],
}


def test_every_study_is_looked_at() -> None:
    studies = {name.partition("/")[0] for name in EXPERIMENTS}
    assert studies == {folder.name for folder in FOLDER.iterdir()} and len(EXPERIMENTS) > 40


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_trains(experiment: str, config, tmp_path: Path, no_curves, monkeypatch) -> None:
    monkeypatch.setattr("dab.data.files.fetch", lambda url, path: f"{url} must not be needed at scale=smoke")
    data = [f"paths.data={tmp_path}/data"]  # where nothing is
    made = config(f"experiment={experiment}", *SHORT, *data, *SMALL.get(experiment.partition("/")[0], []))
    assert launch(made) == 0
    run = Run(made)
    assert run.result["steps"] == 2
    losses = [row["train/loss"] for row in read_metrics(run.dir / "metrics.jsonl") if "train/loss" in row]
    assert len(losses) == 2 and all(map(math.isfinite, losses))
    assert run.result["best"]["metric"].replace("valid/", "test/") in run.result["metrics"]
    assert all(map(math.isfinite, run.result["metrics"].values()))
