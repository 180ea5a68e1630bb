"""Classification: the networks around the hard function, the task, its recipe and its runs."""

from __future__ import annotations

import os
import signal

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from dab.data.digits import DigitImages
from dab.engine.build import build, build_task
from dab.engine.config import ConfigError
from dab.engine.distributed import Workers
from dab.engine.finish import count
from dab.engine.launch import BAD_CONFIG, launch
from dab.engine.loggers import NoLogger
from dab.engine.loop import Loop, Stop
from dab.engine.optimizers import Together
from dab.engine.progress import Silent
from dab.engine.run import Run
from dab.engine.schedules import Linear
from dab.measure import measure
from dab.tasks.classification import ClassificationTask

CIFAR, DENSE = "experiment=classification/cifar10", "experiment=classification/dense"
ROWS = {
    "dense bridge": ["hard=sort"],
    "lines": ["hard=topk", "approximator=lines"],
    "conv": ["hard=sort", "approximator=conv", "approximator.channels=[4]"],
    "matched sort": ["hard=sort", "approximator=matched"],
    "matched k-means": ["hard=kmeans", "approximator=matched", "model.head=flat"],
    "fitted": ["hard=signum", "estimator=fitted"],
    "straight-through": ["hard=sort1d", "estimator=straight_through"],
    "true gradient": ["hard=kmeans", "hard.output=centroids", "estimator=true_gradient"],
    "frozen": ["hard=sort", "approximator.frozen=true"],
    "baseline": ["estimator=no_hard"],
    "in the middle": ["hard=sort", "model.after=2", "approximator=conv"],
}


def task_of(config, *overrides: str, experiment: str = CIFAR, shape: tuple[int, ...] = (1, 8, 8)) -> ClassificationTask:
    return build_task(config(experiment, *overrides), shape)


def digits(count: int = 12) -> tuple[Tensor, Tensor]:
    return next(DigitImages(seed=0, batch_size=8, eval_batch_size=count).batches("test"))


def moved(module: nn.Module) -> bool:
    """Whether every parameter has got a finite gradient, and not all of it is zero."""
    gradients = [p.grad for p in module.parameters()]
    return all(g is not None and g.isfinite().all() for g in gradients) and any(g.any() for g in gradients)


@pytest.mark.parametrize("row", ROWS)
def test_every_row_trains_what_is_before_and_after_the_hard_function(row: str, config) -> None:
    task = task_of(config, *ROWS[row])
    loss, logs = task(digits())
    loss.backward()
    assert moved(task.model.encoder) and moved(task.model.decoder)
    assert logs["task_loss"] > 0 and not logs["loss"].requires_grad


def test_detached_leaves_what_is_before_alone(config) -> None:
    task = task_of(config, "hard=sort", "estimator=detached")
    task(digits())[0].backward()
    assert all(p.grad is None for p in task.model.encoder.parameters()) and moved(task.model.decoder)
    z = torch.randn(3, 16, 4, 4, requires_grad=True)
    y, penalty = task.model.estimator(z)
    assert torch.equal(y, task.model.estimator.hard(z.detach())) and not y.requires_grad and not penalty.any()


# The networks


def test_the_usual_resnet18(config) -> None:
    task = task_of(config, "estimator=no_hard", "model.width=64", "model.strides=[1,2,2,2]", shape=(3, 32, 32))
    assert count(task.model) == 11_173_962
    assert task.model.encode(torch.rand(2, 3, 32, 32)).shape == (2, 512, 4, 4)


@pytest.mark.parametrize(
    ("after", "hard", "seen", "next_channels"),
    [
        (1, "signum", (4, 8, 8), 4),
        (2, "sort", (8, 8, 8), 16),  # the next block takes twice the channels
        (2, "topk", (8, 8, 8), 8),  # a map of 16 x 2
        (3, "kmeans", (16, 8, 8), 16),
    ],
)
def test_blocks_go_on_from_what_the_hard_function_leaves(after, hard, seen, next_channels, config) -> None:
    task = task_of(config, f"hard={hard}", f"model.after={after}", "model.width=4", "estimator=true_gradient")
    assert task.model.encode(digits()[0]).shape[1:] == seen
    assert task.model.decoder[0][0].conv1.in_channels == next_channels
    assert task.model(digits()[0])[0].shape == (12, 10)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (
            ["hard=kmeans", "hard.output=centroids", "model.after=2"],
            r"\[4, 8, 8\] of block 2 into \[4, 10\], and",
        ),
        (["hard=sort", "model.head=pooled"], "head=pooled takes the mean over a map"),
        (["hard=sort", "model.after=5"], r"after must be a whole number in \[1, 4\], or null"),
        (["hard=sort", "model.after=null"], "leaves no place for Bridge: use estimator=no_hard"),
        (["model.strides=[1,2]"], "strides must be a list of 4"),
        (["hard=kmeans", "model.strides=[1,2,2,2]"], "k = 10 is more than the 1 positions"),
    ],
)
def test_what_cannot_be_built_is_told(overrides: list[str], says: str, config) -> None:
    with pytest.raises(ConfigError, match=says):
        task_of(config, *overrides)


def test_the_head_is_flat_where_the_shape_has_changed_and_where_it_is_asked_for(config) -> None:
    def units(*overrides: str) -> int:
        return task_of(config, *overrides).model.decoder[-1][-1].in_features

    assert units("hard=signum") == units("estimator=no_hard") == units("model.after=null", "estimator=no_hard") == 16
    assert units("hard=sort") == 2 * units("hard=signum", "model.head=flat") == 2 * 16 * 4 * 4
    assert units("hard=topk", "hard.k=3") == 16 * (4 + 4) * 3
    assert units("hard=kmeans", "hard.output=centroids") == 16 * 10


def test_k_means_before_a_pooled_head_says_nothing(config) -> None:
    """The mean over the places of their centroids is the mean over the places: the hard function is invisible."""
    hard = task_of(config, "hard=kmeans", "estimator=straight_through").eval()
    plain = task_of(config, "estimator=no_hard").eval()
    torch.testing.assert_close(hard.model(digits()[0])[0], plain.model(digits()[0])[0], rtol=0, atol=1e-4)


def test_rows_share_initial_weights_wherever_shapes_agree(config) -> None:
    """And are another seed's elsewhere: seed against seed can be compared."""
    rows = [["estimator=no_hard"], ["hard=sort"], ["hard=kmeans", "approximator=matched"], ["hard=sort", "seed=1"]]
    one, *same, other = (task_of(config, *row).model.encoder.state_dict() for row in rows)
    for state in same:
        assert all(torch.equal(one[name], value) for name, value in state.items())
    assert not torch.equal(one["0.0.weight"], other["0.0.weight"])
    heads = [task_of(config, *row).model.decoder[-1][-1].weight for row in (rows[0], ["hard=signum"])]
    assert torch.equal(*heads)


def test_how_maps_lie_in_memory_changes_nothing(config) -> None:
    both = [task_of(config, "hard=signum", f"model.channels_last={flag}") for flag in ("true", "false")]
    logits = [task.model(digits()[0])[0] for task in both]
    torch.testing.assert_close(*logits)
    assert both[0].model.encoder[1][0].conv1.weight.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(("option", "kind"), [("model.norm=group", nn.GroupNorm), ("model.activation=relu", nn.ReLU)])
def test_norm_and_activation_are_choices(option: str, kind: type, config) -> None:
    def kinds(*overrides: str) -> list[type]:
        return [type(m) for m in task_of(config, "estimator=no_hard", *overrides).model.modules()]

    assert kind in kinds(option) and kind not in kinds()
    assert {m.momentum for m in task_of(config, "model.norm_momentum=0.3").modules() if hasattr(m, "momentum")} == {0.3}


def test_the_dense_net_reads_out_what_the_hard_function_leaves(config) -> None:
    task = task_of(config, "hard=topk", "hard.k=7", "model.widths=[20,9]", experiment=DENSE)
    assert [m.in_features for m in task.model.modules() if isinstance(m, nn.Linear)][-1] == 7
    assert task.model.encode(digits()[0]).shape == (12, 9)
    with pytest.raises(ConfigError, match=r"widths must be a list .*at least one"):
        task_of(config, "model.widths=[]", experiment=DENSE)


# The task


def test_the_loss_is_the_smoothed_cross_entropy_and_the_penalty(config) -> None:
    x, labels = digits()
    task = task_of(config, "hard=signum", "task.label_smoothing=0.2")
    torch.manual_seed(0)
    loss, logs = task((x, labels))
    logits, penalty = task.model(x)
    target = 0.8 * F.one_hot(labels, 10) + 0.02
    expected = -(target * logits.log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(logs["task_loss"], expected.detach())
    torch.testing.assert_close(loss, expected + penalty.mean())
    soft, _ = task((x, F.one_hot(labels, 10).float()))  # as mixed images have them
    torch.testing.assert_close(soft, loss)


def test_accuracy_and_the_best_five(config) -> None:
    task = task_of(config, "estimator=no_hard").eval()
    x, labels = digits()
    found = task.measure((x, labels))
    ranks = task.model(x)[0].argsort(descending=True).tolist()
    assert found["accuracy"].tolist() == [float(row[0] == label) for row, label in zip(ranks, labels)]
    assert found["top5"].tolist() == [float(label in row[:5]) for row, label in zip(ranks, labels.tolist())]
    torch.testing.assert_close(found["loss"], F.cross_entropy(task.model(x)[0], labels, reduction="none"))


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ([CIFAR, "model.classes=7"], "the data has 10 classes and the model 7: set model.classes=10"),
        ([CIFAR, "data=digits", "~data.crop", "~data.flip"], "classification needs data with labels, given Digits"),
        (["task=classification"], "use model=cifar_resnet18 or model=dense_classifier"),
        ([CIFAR, "task.label_smoothing=1"], r"label_smoothing must be a number in \[0, 1\)"),
    ],
)
def test_what_does_not_go_together_is_told_in_one_line(overrides: list[str], says: str, config) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        build(config(*overrides), Workers())
    assert "\n" not in str(error.value)


def diagnosis(config, *overrides: str) -> dict[str, float]:
    x, labels = digits(8)
    found = task_of(config, *overrides).diagnose((x, labels))
    return {name: value.item() for name, value in found.items()}


def test_a_diagnosis_of_gradients_that_are_known(config) -> None:
    for overrides in (["estimator=no_hard"], ["hard=signum", "estimator=straight_through"]):
        found = diagnosis(config, *overrides)
        assert found["gradient_cosine"] == pytest.approx(1, abs=1e-5)
        assert found["gradient_norm"] == pytest.approx(found["gradient_norm_after"])
    permuted = diagnosis(config, "hard=sort1d", "estimator=true_gradient")
    assert permuted["gradient_norm"] == pytest.approx(permuted["gradient_norm_after"], rel=1e-4)
    assert permuted["gradient_cosine"] < 0.9 and 0 < permuted["inverted_pairs"] < 1 and permuted["emd"] > 0
    assert permuted["true_cosine"] == pytest.approx(1, abs=1e-5)
    matched, bridge = (diagnosis(config, "hard=sort", f"approximator={name}") for name in ("matched", "dense"))
    assert 1 > matched["true_cosine"] > 0.5 > bridge["true_cosine"]
    assert "true_cosine" not in diagnosis(config, "hard=signum", "estimator=straight_through")
    nothing = diagnosis(config, "hard=sort", "estimator=detached")
    assert nothing["true_cosine"] == 0
    assert nothing["gradient_norm"] == 0 < nothing["gradient_norm_after"] and "gradient_cosine" not in nothing
    assert not task_of(config, "task.diagnosis=false").diagnoses


def test_the_diagnosis_sees_the_penalty_where_it_reaches_the_layer_before(config) -> None:
    released, equation = (
        diagnosis(config, "hard=sort", f"estimator.routing={routing}") for routing in ("released", "equation")
    )
    assert equation["gradient_norm"] > 10 * released["gradient_norm"]
    assert equation["gradient_norm_after"] == pytest.approx(released["gradient_norm_after"])


# The recipe


def test_the_modern_recipe_decays_weights_alone(config) -> None:
    job = build(config(CIFAR, "hard=signum"), Workers())
    assert isinstance(job.optimizer, Together)
    weights, others, approximator = job.optimizer.param_groups
    assert weights["weight_decay"] == 5e-4 and others["weight_decay"] == 0
    assert {p.dim() for p in others["params"]} == {1} and 1 not in {p.dim() for p in weights["params"]}
    assert (weights["nesterov"], weights["momentum"], approximator["lr"]) == (True, 0.9, 3e-3)
    bridge = job.task.model.estimator.approximator
    assert {id(p) for p in approximator["params"]} == {id(p) for p in bridge.parameters()}
    assert sum(len(g["params"]) for g in job.optimizer.param_groups) == len(list(job.task.parameters()))
    for plain in (["estimator=no_hard"], ["hard=sort", "approximator.frozen=true"], ["estimator=fitted"]):
        assert isinstance(build(config(CIFAR, *plain), Workers()).optimizer, torch.optim.SGD)


def test_biases_are_clipped_together_with_their_weights(config) -> None:
    made = config(CIFAR, "hard=signum", "trainer.clip_norm=1")
    job = build(made, Workers())
    loop = Loop(job, Run(made), Workers(), Stop(), NoLogger(), Silent(1))
    for p in job.task.parameters():
        p.grad = torch.ones_like(p)
    loop._clip()
    weights, others, approximator = job.optimizer.param_groups
    of_model = torch.cat([p.grad.flatten() for p in [*weights["params"], *others["params"]]])
    assert of_model.norm().item() == pytest.approx(1, rel=1e-3) and len(of_model.unique()) == 1
    of_bridge = torch.cat([p.grad.flatten() for p in approximator["params"]])
    assert of_bridge.norm().item() == pytest.approx(1, rel=1e-3)


def test_two_learning_rates_for_approximators_exclude_each_other(config) -> None:
    with pytest.raises(ConfigError, match="leave one of them at its default"):
        config(CIFAR, "trainer.approximator_lr_scale=2")


def test_one_cycle_rises_and_falls_in_straight_lines(config) -> None:
    schedule = build(config(CIFAR), Workers()).schedule
    assert isinstance(schedule, Linear)
    assert schedule(0.0) < 0.01 and schedule(0.1) == pytest.approx(0.5, abs=0.01)
    assert schedule(0.2) == 1 and schedule(0.6) == pytest.approx(0.5) and schedule(0.999) < 0.01


# Whole runs


def test_a_run_learns_and_leaves_the_gradients_in_its_curve(config, no_curves) -> None:
    pace = ["trainer.steps=120", "trainer.eval_every=60", "model.width=4", "optimizer.lr=0.1"]
    made = config(CIFAR, "hard=sort", "estimator=true_gradient", *pace)
    assert launch(made) == 0
    result = Run(made).result
    assert result["metrics"]["test/accuracy"] > 0.5 and result["metrics"]["test/top5"] > 0.9  # guessing: 0.1 and 0.5
    assert {"train/gradient_norm", "train/emd", "train/inverted_pairs", "valid/accuracy"} <= set(result["curve"])
    assert measure(Run(made).dir) == result["metrics"]


def stopped_and_continued(made, monkeypatch) -> None:
    loss, calls = ClassificationTask.loss, []

    def stop_here(self, batch):
        calls.append(1)
        if len(calls) == 8:
            os.kill(os.getpid(), signal.SIGTERM)
        return loss(self, batch)

    monkeypatch.setattr(ClassificationTask, "loss", stop_here)
    assert launch(made) == 143
    monkeypatch.setattr(ClassificationTask, "loss", loss)
    assert launch(made) == 0


def test_interrupted_equals_uninterrupted(config, tmp_path, monkeypatch, no_curves) -> None:
    """With everything that draws or remembers: crops, cut-outs, mixed images, two optimizers, batch norms."""
    options = [CIFAR, "hard=sort", "data.cutout=3", "data.mixup=0.4", "trainer.steps=14", "trainer.save_every=5"]
    whole, parts = config(*options), config(*options, f"paths.runs={tmp_path}/parts")
    assert launch(whole) == 0
    stopped_and_continued(parts, monkeypatch)
    assert Run(whole).result["metrics"] == Run(parts).result["metrics"]
    a, b = (load_file(Run(made).dir / "model.safetensors") for made in (whole, parts))
    assert a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def test_a_mistake_in_the_classes_ends_a_run_in_one_line(config, capsys) -> None:
    assert launch(config(CIFAR, "model.classes=3")) == BAD_CONFIG
    assert capsys.readouterr().err.strip().endswith("set model.classes=10")
