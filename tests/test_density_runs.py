"""Density estimation through the engine, offline on digits: every estimator, resumed runs, records and pictures."""

from __future__ import annotations

import math
import os
import signal

import pytest
import torch
from safetensors.torch import load_file

from dab.engine.build import build, build_task
from dab.engine.config import ConfigError
from dab.engine.distributed import Workers
from dab.engine.launch import BAD_CONFIG, describe, launch
from dab.engine.records import read_metrics
from dab.engine.run import Run
from dab.predict import load
from dab.tasks.density import DensityTask

SMALL = ["model.latents=20", "model.encoder=[16]", "model.decoder=[16]", "task.iwae_samples=[5]"]


@pytest.mark.parametrize("name", ["bridge_dense", "relax"])  # a layer and an objective; the others: tests/test_smoke.py
def test_a_run_measures_bounds_latents_and_variance(name: str, config, no_curves) -> None:
    made = config(f"experiment=binarized/{name}", "trainer.log_every=5", *SMALL)
    assert made["data"]["_target_"].endswith("Digits")
    assert launch(made) == 0
    rows = read_metrics(Run(made).dir / "metrics.jsonl")
    losses = [row["train/loss"] for row in rows if "train/loss" in row]
    assert len(losses) == 4 and all(map(math.isfinite, losses))
    metrics = Run(made).result["metrics"]
    assert metrics["test/iwae_5"] > metrics["test/elbo"]
    assert {f"{split}/{m}" for split in ("train", "valid", "test") for m in ("elbo", "kl", "active_units")} <= set(
        metrics
    )
    assert rows[-1]["train/gradient_variance"] > 0


def test_training_lowers_the_bound_and_leaves_pictures(config) -> None:
    pace = ["trainer.steps=300", "trainer.batch_size=64", "optimizer.lr=3e-2", "optimizer.betas=[0.9,0.999]"]
    made = config("experiment=binarized/reinmax", "recipe=rebar", *pace, "model.latents=20", "task.iwae_samples=[5]")
    assert launch(made) == 0
    result = Run(made).result
    assert result["metrics"]["test/elbo"] > -26  # a model that does not use its latents stays at -27
    assert result["metrics"]["test/active_units"] >= 10
    for name in ("curves", "samples", "reconstructions"):
        assert (Run(made).dir / "figures" / f"{name}.png").stat().st_size > 500
    assert "+" in load(Run(made).dir).predict([DensityTask.example((1, 8, 8))])


def stopped_and_continued(made, monkeypatch) -> None:
    measure, calls = DensityTask.measure, []

    def stop_here(self, batch):
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return measure(self, batch)

    monkeypatch.setattr(DensityTask, "measure", stop_here)
    assert launch(made) == 143
    monkeypatch.setattr(DensityTask, "measure", measure)
    assert launch(made) == 0


def comparable(run: Run) -> tuple:
    times = ("seconds", "train_seconds", "cpu_seconds", "train/samples_per_second")
    rows = read_metrics(run.dir / "metrics.jsonl")
    return run.result["metrics"], [{k: v for k, v in row.items() if k not in times} for row in rows]


@pytest.mark.parametrize("layers", [1, 2])
def test_interrupted_equals_uninterrupted(config, tmp_path, monkeypatch, no_curves, layers) -> None:
    paces = ["trainer.steps=40", "trainer.eval_every=13", "trainer.save_every=10", "trainer.log_every=5"]
    options = ["experiment=binarized/relax", "data.dynamic=true", f"model.layers={layers}", *paces, *SMALL]
    whole, parts = config(*options), config(*options, f"paths.runs={tmp_path}/parts")
    assert launch(whole) == 0
    stopped_and_continued(parts, monkeypatch)
    assert comparable(Run(whole)) == comparable(Run(parts))
    a, b = (load_file(Run(made).dir / "model.safetensors") for made in (whole, parts))
    assert a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def test_measuring_the_variance_does_not_disturb_training(config, no_curves) -> None:
    options = ["experiment=binarized/rebar", "trainer.eval_every=10", *SMALL]
    made = [config(*options, f"task.variance_draws={draws}") for draws in (0, 3)]
    assert [launch(m) for m in made] == [0, 0]
    a, b = (load_file(Run(m).dir / "model.safetensors") for m in made)
    assert all(torch.equal(a[key], b[key]) for key in a)
    rows = [read_metrics(Run(m).dir / "metrics.jsonl") for m in made]
    assert [sum("train/gradient_variance" in row for row in run) for run in rows] == [0, 2]


def test_control_variates_have_their_own_learning_rate(config) -> None:
    job = build(config("experiment=binarized/relax", "optimizer.weight_decay=0.1", *SMALL), Workers())
    model, control = job.optimizer.param_groups
    assert control["lr"] == pytest.approx(10 * model["lr"])
    assert (model["weight_decay"], control["weight_decay"]) == (0.1, 0.0)
    estimator = job.task.model.estimator
    assert {id(p) for p in control["params"]} == {id(p) for p in estimator.control_parameters()}
    assert len(model["params"]) + len(control["params"]) == len([p for p in job.task.parameters() if p.requires_grad])
    assert len(build(config("experiment=binarized/bridge_dense", *SMALL), Workers()).optimizer.param_groups) == 1


def test_dry_run_tells_the_control_variate(config) -> None:
    text = describe(Run(config("experiment=binarized/relax", "dry_run=true", *SMALL)))
    assert "temperature=0.5, eta=1, learn=True" in text


def test_the_rebar_recipe(config) -> None:
    job = build(config("experiment=binarized/rebar", "recipe=rebar"), Workers())
    model = job.task.model
    assert [tuple(p.shape) for p in model.decoder.parameters()] == [(64, 200), (64,)]
    assert model.signed and model.centred and isinstance(model.prior, torch.nn.Parameter)
    assert torch.allclose(torch.sigmoid(model.decoder[-1].bias), job.data.mean.flatten().clamp(0.001, 0.999), atol=1e-5)
    assert torch.equal(model.mean, job.data.mean.flatten())
    assert job.optimizer.defaults["betas"] == (0.9, 0.99999)


@pytest.mark.parametrize("scale", ["cpu", "paper"])
def test_the_scales_beyond_smoke_are_mnist(scale: str, config) -> None:
    made = config("experiment=binarized/reinmax", scale=scale)
    assert made["data"]["_target_"].endswith("BinarizedMNIST")
    other = config("experiment=binarized/reinmax", "data=binarized_omniglot", scale=scale)
    assert other["data"]["variant"] == "area"


def test_missing_data_is_a_config_error(config, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("dab.data.binarized_mnist.AMAT_URL", "file:///nowhere/{}")
    options = ["experiment=binarized/reinmax", "data=binarized_mnist", f"paths.data={tmp_path}/data"]
    assert launch(config(*options)) == BAD_CONFIG
    assert f"config error: data: no data: looked in {tmp_path}/data" in capsys.readouterr().err


def test_an_objective_estimator_cannot_sort(config) -> None:
    with pytest.raises(ConfigError, match=r"Disarm needs the loss itself.*model=vae_mlp"):
        build_task(config("estimator=disarm", "hard=bernoulli"), (5,))
