"""From a checked config to objects: the slot of the hard function and the groups of the optimizer."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import dab
from dab.engine.build import build, build_estimator, build_task
from dab.engine.config import ConfigError
from dab.engine.distributed import Workers
from dab.engine.loggers import NoLogger
from dab.engine.loop import Loop, Stop
from dab.engine.progress import Silent
from dab.engine.run import Run, run_hash
from dab.estimators.why_not import why_not
from dab.hard import Bernoulli, Categorical, KMeans, Signum, TopK
from dab.models.dense_sorter import DenseSorter

SMALL = ["data.valid_size=8", "data.test_size=8"]


def norm(group: dict) -> float:
    return math.sqrt(sum(p.grad.square().sum().item() for p in group["params"]))


def groups_after_clipping(config, *overrides: str) -> list[dict]:
    made = config(*SMALL, "trainer.clip_norm=1", *overrides)
    job = build(made, Workers())
    for group in job.optimizer.param_groups:
        for p in group["params"]:
            p.grad = torch.ones_like(p)
    Loop(job, Run(made), Workers(), Stop(), NoLogger(), Silent(1))._clip()
    return job.optimizer.param_groups


def test_the_approximator_is_clipped_by_itself(config) -> None:
    """Its gradient is hundreds of times the model's at the start: together, the model would hardly move."""
    model, approximator = groups_after_clipping(config)
    assert norm(model) == pytest.approx(1, rel=1e-3) and norm(approximator) == pytest.approx(1, rel=1e-3)
    (together,) = groups_after_clipping(config, "trainer.clip_apart=false")
    assert norm(together) == pytest.approx(1, rel=1e-3)


def test_the_approximator_may_have_its_own_rate_and_decay(config) -> None:
    job = build(config(*SMALL), Workers())
    assert len(job.optimizer.param_groups) == 1
    options = [
        "trainer.approximator_lr_scale=5",
        "trainer.approximator_weight_decay=0.1",
        "optimizer.weight_decay=0.01",
    ]
    job = build(config(*SMALL, *options), Workers())
    model, approximator = job.optimizer.param_groups
    assert approximator["lr"] == 5 * model["lr"]
    assert (model["weight_decay"], approximator["weight_decay"]) == (0.01, 0.1)
    of_bridge = list(job.task.model.estimator.approximator.parameters())
    assert [id(p) for p in approximator["params"]] == [id(p) for p in of_bridge]
    total = len(list(job.task.parameters()))
    assert len(model["params"]) + len(approximator["params"]) == total


def test_clipping_apart_defines_a_run_only_where_something_is_clipped(config) -> None:
    together = config()
    together["trainer"]["clip_apart"] = False
    assert run_hash(together) == run_hash(config())
    clipped = [run_hash(config("trainer.clip_norm=5", f"trainer.clip_apart={apart}")) for apart in ("true", "false")]
    assert clipped[0] != clipped[1]


class Sized(DenseSorter):
    """A model whose code is sized in bits, by the hard function that will stand there."""

    @staticmethod
    def code_shape(input_shape, hard, widths, **_) -> tuple[int, ...]:
        return (int(12 // hard.bits_per_unit), *getattr(hard, "unit_shape", ()))


@pytest.mark.parametrize(
    ("hard", "shape"),
    [(Signum(), (7,)), (Bernoulli(), (12,)), (Categorical(8), (4, 8)), (Categorical(2), (12, 2))],
)
def test_a_code_of_so_many_bits(hard: nn.Module, shape: tuple[int, ...]) -> None:
    assert Sized.code_shape((5,), hard, widths=()) == shape
    z = torch.randn(3, *shape)
    assert hard(z).shape == z.shape


@pytest.mark.parametrize(
    "estimator", ["gumbel", "st_gumbel", "gumbel_rao", "reinmax", "score_function", "rebar", "relax"]
)
def test_an_estimator_that_draws_itself_learns_from_hard_what(estimator: str, config) -> None:
    made = config(f"estimator={estimator}", "hard=categorical", "hard.classes=4")
    assert build_estimator(made, Categorical(4), (3, 4)).categorical
    binary = config(f"estimator={estimator}", "hard=bernoulli")
    assert not build_estimator(binary, Bernoulli(), (3,)).categorical
    assert run_hash(made) != run_hash(binary)
    assert run_hash(config(f"estimator={estimator}", "hard=categorical", "hard.classes=2")) != run_hash(made)


def test_why_not() -> None:
    assert why_not(dab.StraightThrough, TopK(2), (5,)) is not None
    assert why_not(dab.StraightThrough, Signum(), (5,)) is None
    assert why_not(dab.Bridge, TopK(2), (5,)) is None
    assert why_not(dab.NoHard, KMeans(), (5, 4)) is None
    assert "Bernoulli" in why_not(dab.estimators.Disarm, Categorical)


def test_straight_through_over_a_change_of_shape_is_told_before_a_model_is_built(config) -> None:
    with pytest.raises(ConfigError, match="keeps the shape, but TopK turns"):
        build_task(config("estimator=straight_through", "hard=topk"), (5,))


def test_a_model_gets_the_shape_after_the_hard_function(config) -> None:
    task = build_task(config("hard=topk", "hard.k=7"), (5,))
    assert task.model.read_out.in_features == 7


def test_a_categorical_sample_has_the_right_frequencies() -> None:
    torch.manual_seed(0)
    logits = torch.tensor([0.5, -1.0, 2.0]).repeat(20_000, 1, 1)  # [B, 1, 3]
    hard = Categorical(3, evaluate="mode")
    sample = hard(logits)
    assert torch.equal(sample.sum(-1), torch.ones(20_000, 1))
    expected: Tensor = logits[0].softmax(-1)
    error = (expected * (1 - expected) / 20_000).sqrt()
    assert ((sample.mean(0) - expected).abs() < 4 * error).all()
    assert torch.equal(hard.eval()(logits)[:1], torch.tensor([[[0.0, 0.0, 1.0]]]))
    with pytest.raises(ValueError, match="needs samples of shape"):
        hard(torch.randn(2, 4))
