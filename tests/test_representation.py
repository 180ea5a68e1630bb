"""Representations: the task, its runs and its study."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dab.data.digits import DigitImages
from dab.engine.build import build, build_task
from dab.engine.config import ConfigError
from dab.engine.distributed import Workers
from dab.engine.launch import launch
from dab.engine.run import Run
from dab.measure import measure
from experiments import representation, representation_search
from experiments.results import Results
from experiments.study import ROOT, Records

FASHION = "experiment=representation/fashion_mnist"
BERNOULLI = ["hard=bernoulli", "hard.evaluate=threshold"]


def task_of(config, *overrides: str):
    torch.manual_seed(0)
    return build_task(config(FASHION, "model.bpp=0.5", *overrides), (1, 8, 8))


def images(count: int = 6) -> Tensor:
    return next(DigitImages(seed=0, batch_size=8, eval_batch_size=count).batches("test"))[0]


@pytest.mark.parametrize(
    "overrides",
    [
        ["hard=signum"],
        ["hard=binary", "approximator=matched"],
        [*BERNOULLI, "estimator=gumbel", "task.kl=1"],
        ["hard=categorical", "hard.evaluate=mode", "estimator=gumbel", "task.kl=1"],
        [*BERNOULLI, "estimator=rebar"],
        ["hard=binary", "estimator=fitted", "approximator=elementwise"],
    ],
)
def test_every_row_trains_encoder_and_decoder(config, overrides) -> None:
    task = task_of(config, *overrides)
    loss, logs = task((images(),))
    loss.backward()
    for half in (task.model.encoder, task.model.decoder):
        assert all(p.grad is not None and p.grad.isfinite().all() for p in half.parameters())
        assert sum(p.grad.abs().sum() for p in half.parameters()) > 0
    assert logs["reconstruction"] > 0 and not logs["loss"].requires_grad


def test_the_loss_is_the_likelihood_of_the_image_after_its_code(config) -> None:
    x = images()
    task = task_of(config, "hard=binary", "estimator=straight_through").eval()
    decoded = task.model.decode(task.model.hard(task.model.encode(x)))
    expected = F.binary_cross_entropy(torch.sigmoid(decoded), x, reduction="none").flatten(1).sum(1)
    torch.testing.assert_close(task.measure((x,))["reconstruction"], expected)
    grey = task_of(config, "hard=binary", "estimator=straight_through", "task.likelihood=gaussian", "task.sigma=0.5")
    grey.eval()
    decoded = grey.model.decode(grey.model.code(x))
    normal = torch.distributions.Normal(decoded, 0.5)
    constant = -math.log(0.5 * math.sqrt(2 * math.pi)) * x[0].numel()
    torch.testing.assert_close(grey.measure((x,))["reconstruction"], constant - normal.log_prob(x).flatten(1).sum(1))


def test_the_divergence_is_that_to_uniform_codes(config) -> None:
    categorical = ["hard=categorical", "hard.classes=4", "estimator=gumbel", "task.kl=1"]
    for overrides in ([*BERNOULLI, "estimator=gumbel", "task.kl=1"], categorical):
        task = task_of(config, *overrides)
        z = torch.randn(3, *task.model.before_shape)
        p = torch.stack([torch.sigmoid(z), torch.sigmoid(-z)], -1) if z.dim() == 2 else z.softmax(-1)
        uniform = torch.full_like(p, 1 / p.shape[-1])
        expected = torch.distributions.kl_divergence(
            torch.distributions.Categorical(p), torch.distributions.Categorical(uniform)
        ).sum(1)
        torch.testing.assert_close(task.divergence(z), expected)


def test_a_divergence_of_what_is_not_drawn_is_refused(config) -> None:
    with pytest.raises(ConfigError, match="kl=1 needs a code that is drawn"):
        task_of(config, "hard=signum", "task.kl=1")
    with pytest.raises(ConfigError, match="representations need a model with a code"):
        build_task(config("task=representation"), (5,))


def test_a_whole_run_measures_images_codes_and_probes(config, no_curves) -> None:
    made = config(FASHION, "hard=binary", "approximator=matched", "model.bpp=0.5", "trainer.steps=60")
    assert launch(made) == 0
    run = Run(made)
    metrics = run.result["metrics"]
    assert metrics["test/nominal_bits"] == 32 and metrics["test/units"] == 32
    assert metrics["test/at_most_bits"] <= 32 and metrics["test/dead_units"] < 32
    assert 0 < metrics["test/msssim_shrink"] < 1 and 0 < metrics["test/msssim_upsampled"] < 1
    assert metrics["test/probe"] > 0.4 and metrics["test/knn"] > 0.4  # guessing is 0.1
    assert metrics["test/probe_before"] > metrics["test/probe"]
    assert (run.dir / "figures" / "reconstructions.png").exists()
    assert run.name.startswith("representation/fashion_mnist+matched+bpp=0.5")
    assert measure(run.dir) == pytest.approx(metrics, rel=1e-6)


def test_floors_are_measured_like_rows(config, no_curves) -> None:
    words = representation.FASHION.commands[representation.PCA].split()
    made = config(*words, "model.bpp=0.5")
    assert launch(made) == 0
    found = Run(made).result["metrics"]
    assert found["test/nominal_bits"] == 32 and found["test/probe"] > 0.5


def test_rows_are_equal_in_bits_steps_and_data(config) -> None:
    """Every trained row has the same budget, and its code never more bits than the size allows."""
    budgets = set()
    for row in representation.ROWS:
        made = config(*representation.FASHION.commands[row].split(), "model.bpp=0.1", scale="cpu")
        budgets.add((made["trainer"]["steps"], made["trainer"]["batch_size"], made["data"]["_target_"]))
        task = build_task(made, (1, 28, 28))
        assert 76 < task.model.bits <= 78.4, row
    assert len(budgets) == 1


@pytest.mark.parametrize("images", representation_search.SEARCHED, ids=lambda images: images.name)
def test_what_the_search_chose_is_what_is_run(images) -> None:
    results = Results(Records(ROOT / "results/representation/search/cpu"), representation_search.searched("cpu"), "cpu")
    for row in representation_search.SEARCHED[images]:
        measured = representation_search.tried(images, row, results)
        if len(measured) == len(representation_search.candidates(row)):
            assert images.tuned[row] == min(measured, key=measured.__getitem__), row
        else:
            assert row not in images.tuned


def test_the_batch_is_the_same_for_every_row(config) -> None:
    """Rows share data order by seed: seed against seed can be compared."""
    batches = []
    for words in (["hard=signum"], [*BERNOULLI, "estimator=gumbel"]):
        job = build(config(FASHION, *words), Workers())
        batches.append(job.data.batch(3)[0])
    assert torch.equal(*batches)
