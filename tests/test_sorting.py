"""The sorting task: data, metrics, model and prediction."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from dab import NoHard
from dab.data.sorting import Sorting
from dab.engine.exits import BAD_CONFIG
from dab.engine.launch import launch
from dab.engine.run import Run
from dab.hard import Signum
from dab.metrics.sorting import all_or_none, per_element, right_places
from dab.models.dense_sorter import DenseSorter
from dab.predict import main
from dab.tasks.sorting import SortingTask, place_loss

COMMON = {"batch_size": 8, "eval_batch_size": 5, "valid_size": 7, "test_size": 3}


def test_order_sorts_the_numbers() -> None:
    x, order = Sorting(length=6, low=-2.0, high=3.0, seed=0, **COMMON).batch(3)
    assert x.shape == order.shape == (8, 6)
    assert x.min() >= -2 and x.max() <= 3
    assert torch.equal(x.gather(1, order), x.sort(dim=1).values)


def test_batches_are_functions_of_seed_and_step() -> None:
    for size in (None, 32):
        one, two = (Sorting(length=4, seed=1, train_size=size, **COMMON) for _ in range(2))
        two.batch(9)  # another history
        assert torch.equal(one.batch(5)[0], two.batch(5)[0])
        assert not torch.equal(one.batch(5)[0], one.batch(6)[0])
        assert not torch.equal(one.batch(5)[0], Sorting(length=4, seed=2, train_size=size, **COMMON).batch(5)[0])


def test_an_epoch_of_a_fixed_set_shows_every_sample_once_in_another_order_each_time() -> None:
    data = Sorting(length=3, seed=0, train_size=32, **COMMON)
    first, second = (torch.cat([data.batch(4 * epoch + i)[0] for i in range(4)]) for epoch in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(first[first[:, 0].argsort()], second[second[:, 0].argsort()])


def test_the_test_set_does_not_depend_on_the_seed() -> None:
    one, two = (torch.cat([x for x, _ in Sorting(length=4, seed=s, **COMMON).batches("test")]) for s in (0, 1))
    assert torch.equal(one, two)


def test_metrics_count_sequences_and_places() -> None:
    order = torch.tensor([[0, 1, 2], [2, 0, 1]])
    logits = torch.nn.functional.one_hot(order, 3).transpose(1, 2).float()  # [B, element, place]
    right = right_places(logits, order)
    assert all_or_none(right).tolist() == [1, 1]
    logits[1] = logits[1][:, [1, 0, 2]]  # two places of the second sequence exchanged
    right = right_places(logits, order)
    assert all_or_none(right).tolist() == [1, 0]
    assert per_element(right).tolist() == pytest.approx([1, 1 / 3])


def test_loss_is_the_sum_over_places_of_the_cross_entropy_over_elements() -> None:
    logits, order = torch.randn(4, 3, 3), torch.stack([torch.randperm(3) for _ in range(4)])
    by_hand = [-sum(logits[b, :, p].log_softmax(0)[order[b, p]] for p in range(3)) for b in range(4)]
    assert torch.allclose(place_loss(logits, order), torch.stack(by_hand))


def test_model_shapes_and_input_scaling() -> None:
    model = DenseSorter(NoHard(), (4,), widths=(8, 16), input_shift=0.5, input_scale=2.0)
    logits, penalty = model(torch.rand(5, 4))
    assert logits.shape == (5, 4, 4) and penalty.shape == (5,)
    assert model.code_shape((4,), Signum(), widths=(8, 16)) == (16,)
    seen = []
    model.encoder[0].register_forward_pre_hook(lambda _m, inputs: seen.append(inputs[0]))
    model(torch.full((1, 4), 1.5))
    assert seen[0].tolist() == [[2.0] * 4]


def test_a_hard_function_may_change_the_number_of_units(config, no_curves) -> None:
    assert launch(config("hard=topk", "hard.k=7")) == 0
    assert Run(config("hard=topk", "hard.k=7")).result["parameters"]["inference"] < 56_729


def test_predict_from_the_command_line(config, no_curves, monkeypatch, capsys) -> None:
    made = config(
        "trainer.steps=300", "optimizer.lr=5e-3", "data.length=3", "trainer.batch_size=256", "data.test_size=9"
    )
    assert launch(made) == 0
    hint = re.search(r"python -m dab\.predict \S+ (.*)", capsys.readouterr().out)
    assert hint and len(hint[1].split()) == 3  # what the run suggests can be pasted

    def predict(*words: str | Path) -> str:
        monkeypatch.setattr("sys.argv", ["dab.predict", *map(str, words)])
        try:
            main()
        except SystemExit as error:
            assert error.code == BAD_CONFIG
            return capsys.readouterr().err
        return capsys.readouterr().out

    folder = Run(made).dir
    assert predict(folder, "0.9", "0.1", "0.5").splitlines()[0].split() == ["0.1", "0.5", "0.9"]
    assert "(order" in predict(folder, *hint[1].split())
    assert "this network sorts 3 numbers, got 2" in predict(folder, "0.9", "0.1")
    assert "give numbers" in predict(folder, "a", "b", "c")
    assert "give finite numbers" in predict(folder, "nan", "0.1", "0.5")
    assert "finished run" in predict(folder.parent, "1")
    assert "is no directory: give the directory of a finished run" in predict(folder / "result.json", "1")


def test_an_element_chosen_twice_is_not_right() -> None:
    """Not even where it equals the one that was left out."""

    class Same(nn.Module):
        length = 2

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.tensor([[[1.0, 1.0], [0.0, 0.0]]]), torch.zeros(1)

    assert "(order 0 0; wrong)" in SortingTask(Same()).predict(["0.5", "0.5"])


def test_close_pairs_are_close_and_the_rest_is_uniform() -> None:
    options = {"close_share": 0.5, "close_start": 1e-2, "close_low": 1e-4, "close_high": 0.1}
    data = Sorting(length=8, seed=0, steps=100, **options, **{**COMMON, "batch_size": 4000})

    def smallest_gaps(step: int) -> torch.Tensor:
        x, order = data.batch(step)
        assert torch.equal(order, x.argsort(dim=1))
        return x.sort(dim=1).values.diff(dim=1).min(dim=1).values

    early, late = smallest_gaps(0), smallest_gaps(99)
    plain = Sorting(length=8, seed=0, **{**COMMON, "batch_size": 4000}).batch(0)[0]
    uniform = plain.sort(dim=1).values.diff(dim=1).min(dim=1).values
    assert late.median() < early.median() and late.median() < uniform.median() / 2
    with pytest.raises(ValueError, match="fixed train_size"):
        Sorting(length=4, seed=0, train_size=10, close_share=0.5, **COMMON)
    with pytest.raises(ValueError, match="close_low <= close_start"):
        Sorting(length=4, seed=0, close_low=1.0, close_start=0.1, **COMMON)


def test_evaluation_never_sees_close_pairs() -> None:
    hard, plain = (Sorting(length=4, seed=0, close_share=s, **COMMON) for s in (0.5, 0.0))
    assert torch.equal(next(iter(hard.batches("test")))[0], next(iter(plain.batches("test")))[0])
