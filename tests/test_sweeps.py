"""Sweeps whose jobs are processes of their own: nothing is lost on the way back."""

from __future__ import annotations

import json
import subprocess

import pytest
from conftest import command

from dab.engine.run import Run


@pytest.mark.parametrize("cluster", ["pool", "joblib"])
def test_a_failing_job_is_told_with_its_traceback_and_only_it_is_tried_again(cluster, train, config, tmp_path) -> None:
    if cluster == "joblib":
        pytest.importorskip("hydra_plugins.hydra_joblib_launcher", reason="pip install -e '.[cluster]'")

    def start(*words: str) -> subprocess.CompletedProcess[str]:
        if cluster == "pool":
            return train(*words)
        return subprocess.run(command(tmp_path, *words), capture_output=True, text=True)  # joblib wants a __main__

    words = ("trainer.steps=3", "data.valid_size=50", "data.test_size=50")
    sweep = ("-m", *words, "optimizer.lr=1e-3,1e30", "seed=0,1", f"cluster={cluster}")
    done = start(*sweep)
    assert done.returncode == 1, done.stderr
    assert "4 runs, 2 finished, 2 failed; mean ± standard deviation (seeds)" in done.stdout
    assert "2 of the sweep's jobs failed" in done.stderr and done.stderr.count("the loss stopped being finite") >= 2
    (path,) = (tmp_path / "runs/.sweep").glob("*/summary.json")
    failed = json.loads(path.read_text())["failed"]
    bad = [Run(config(*words, "optimizer.lr=1e30", f"seed={seed}")) for seed in (0, 1)]
    assert sorted(one["traceback"] for one in failed) == sorted(run.status["traceback"] for run in bad)
    assert all("NonFinite" in one["traceback"] for one in failed)
    good = Run(config(*words, "optimizer.lr=1e-3"))
    before = [(run.dir / "provenance.json").read_text() for run in (good, *bad)]
    assert start(*sweep).returncode == 1
    after = [(run.dir / "provenance.json").read_text() for run in (good, *bad)]
    assert [one == two for one, two in zip(before, after)] == [True, False, False]
