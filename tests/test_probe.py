"""The linear probe against scikit-learn's, both readers on codes whose classes are known, and what they refuse."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from dab.data.digits import digits
from dab.metrics.probe import Split, knn, linear_probe

TOLERANCE = 0.005  # of accuracy, between our probe and scikit-learn's at the strength that ours has chosen


def thirds(codes: Tensor, labels: Tensor) -> tuple[Split, Split, Split]:
    """train (half), valid, test (a quarter each)"""
    parts = [len(codes) // 2, len(codes) // 4, len(codes) - len(codes) // 2 - len(codes) // 4]
    train, valid, test = zip(codes.split(parts), labels.split(parts))
    return train, valid, test


def digit_codes(units: int) -> tuple[Split, Split, Split]:
    """Signs of random projections."""
    grey, labels = digits()
    x = torch.from_numpy(grey).flatten(1).float()
    torch.manual_seed(0)
    return thirds(((x - x.mean(0)) @ torch.randn(64, units)).sign(), torch.from_numpy(labels))


def overlapping() -> tuple[Split, Split, Split]:
    """Trits that are correlated and of very different use, in four classes that no plane can tell apart for sure."""
    torch.manual_seed(0)
    labels = torch.randint(4, (8000,))
    z = torch.randn(4, 30)[labels] + 3 * torch.randn(8000, 5) @ torch.randn(5, 30) + torch.randn(8000, 30)
    codes = (z / 2).round().clamp(-1, 1)
    codes[:, 0] = 7.0  # says nothing
    codes[:, 1] *= 1000
    return thirds(codes, labels)


def separable(classes: int = 3) -> tuple[Split, Split, Split]:
    torch.manual_seed(0)
    labels = torch.randint(classes, (400,))
    code_words = torch.tensor([[0.0, 0, 1, 1, 0, 0], [1.0, 1, 0, 0, 0, 1], [0.0, 1, 0, 1, 1, 1]])
    return thirds(torch.cat([code_words[labels], (torch.rand(400, 4) < 0.5).float()], 1), labels)


@pytest.mark.parametrize(
    "splits", [digit_codes(30), digit_codes(100), overlapping()], ids=["digits-30", "digits-100", "trits"]
)
def test_it_agrees_with_scikit_learn(splits: tuple[Split, Split, Split]) -> None:
    found = linear_probe(*splits, classes=10)
    (train, labels), *others = splits
    deviation = train.std(0, correction=0)
    scale = torch.where(deviation > 1e-4, 1 / deviation, 0.0)
    theirs = LogisticRegression(C=1 / (found.strength * len(train)), max_iter=5000, tol=1e-6)
    theirs.fit((train - train.mean(0)) * scale, labels)
    for ours, (codes, of) in zip((found.valid, found.test), others):
        assert ours == pytest.approx(theirs.score((codes - train.mean(0)) * scale, of), abs=TOLERANCE)
        assert 0.5 < ours < 0.97
    assert linear_probe(*splits, classes=10) == found  # to the last bit


def test_the_penalty_is_what_the_held_out_split_likes_best() -> None:
    """With few codes of many units a weak penalty fits noise; with many codes of few units there is none to fit."""
    torch.manual_seed(0)
    labels = torch.randint(2, (4000,))
    codes = (torch.randn(4000, 200) + 0.6 * (2 * labels[:, None] - 1) * (torch.arange(200) < 5)).sign()
    few = linear_probe((codes[:100], labels[:100]), *thirds(codes, labels)[1:], classes=2)
    many = linear_probe(*((c[:, :5], of) for c, of in thirds(codes, labels)), classes=2)
    assert few.strength > many.strength and few.test < many.test
    (train, of_train), valid, test = thirds(codes, labels)
    other_test = (-test[0], test[1])
    assert (
        linear_probe((train, of_train), valid, other_test, 2).strength
        == linear_probe((train, of_train), valid, test, 2).strength
    )


def test_separable_codes_are_read_without_an_error() -> None:
    train, valid, test = separable()
    found = linear_probe(train, valid, test, classes=3)
    assert (found.valid, found.test) == (1.0, 1.0) and knn(train, test, k=5) == 1.0


def test_labels_that_codes_know_nothing_of_are_read_at_chance() -> None:
    torch.manual_seed(0)
    splits = thirds((torch.rand(8000, 20) < 0.5).float(), torch.randint(10, (8000,)))
    assert linear_probe(*splits, classes=10).test == pytest.approx(0.1, abs=0.03)
    assert knn(splits[0], splits[2]) == pytest.approx(0.1, abs=0.03)


def test_units_and_samples_that_differ_in_form_only() -> None:
    """Whatever the values of the levels, with constant units beside them, in several dimensions: one reading."""
    train, valid, test = overlapping()

    def like(change) -> float:
        return linear_probe(*((change(codes), labels) for codes, labels in (train, valid, test)), classes=4).test

    wanted = like(lambda codes: codes)
    assert like(lambda codes: 100 - 3 * codes) == pytest.approx(wanted, abs=TOLERANCE)
    assert like(lambda codes: torch.cat([codes, torch.full((len(codes), 2), 0.1)], 1)) == wanted
    assert like(lambda codes: codes.view(-1, 5, 6).long()) == wanted
    assert like(torch.zeros_like) == pytest.approx(0.25, abs=0.04)


def test_a_unit_that_only_lives_in_test_is_not_read() -> None:
    train, valid, (codes, labels) = separable()
    dead = [
        (torch.cat([c, torch.full((len(c), 1), v)], 1), of)
        for c, of, v in ((*train, 1.0), (*valid, 1.0), (codes, labels, 1e6))
    ]
    assert linear_probe(*dead, classes=3).test == 1.0


def test_a_class_that_training_lacks_costs_its_own_samples_and_no_others() -> None:
    train, valid, test = separable()
    seen = train[1] != 2
    found = linear_probe((train[0][seen], train[1][seen]), valid, test, classes=3)
    for accuracy, (_, labels) in ((found.valid, valid), (found.test, test)):
        assert accuracy == pytest.approx(float((labels != 2).float().mean()))
    with pytest.raises(ValueError, match="valid has no code of a class that train has"):
        linear_probe(
            (train[0][seen], train[1][seen]), (valid[0][valid[1] == 2], valid[1][valid[1] == 2]), test, classes=3
        )


def test_neighbours_are_those_of_a_plain_loop() -> None:
    """Ties at the k-th distance all vote, and the smallest label wins a tie of votes, in whatever order they stand."""
    torch.manual_seed(0)
    codes, labels = torch.randint(-1, 2, (300, 6)).float(), torch.randint(4, (300,))
    queries, wanted = torch.randint(-1, 2, (50, 6)).float(), torch.randint(4, (50,))
    right, ties = 0, 0
    for query, label in zip(queries, wanted):
        distances = (codes - query).square().sum(1)
        voters = labels[distances <= distances.sort().values[6]]
        ties += len(voters) > 7
        right += int(voters.bincount(minlength=4).argmax() == label)
    order = torch.randperm(300)
    for train in ((codes, labels), (codes[order], labels[order])):
        assert knn(train, (queries, wanted), k=7) == right / 50
    assert ties > 25
    assert knn((codes / 3 + 0.1, labels), (queries / 3 + 0.1, wanted), k=7) == right / 50  # rounded distances tie too
    with pytest.raises(ValueError, match="k must be from 1 to the 300 codes of train, given 301"):
        knn((codes, labels), (queries, wanted), k=301)


def test_chunks_change_nothing(monkeypatch) -> None:
    train, valid, test = digit_codes(30)
    together = linear_probe(train, valid, test, 10), knn(train, test)
    monkeypatch.setattr("dab.metrics.probe.CHUNK", 5000)
    apart = linear_probe(train, valid, test, 10)
    assert apart.strength == together[0].strength and apart.test == pytest.approx(together[0].test, abs=TOLERANCE)
    assert knn(train, test) == together[1]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_no_split_is_refused(place: int) -> None:
    name = ("train", "valid", "test")[place]
    codes, labels = separable()[place]
    broken = codes.clone()
    broken[3, 2], broken[4, :2] = torch.nan, torch.inf
    for wrong, message in (
        ((broken, labels), f"2 of {len(codes)} codes of {name} are not finite: has the model diverged"),
        ((codes, labels[:-1]), f"{name} needs codes .* as many labels"),
        ((codes[:0], labels[:0]), f"{name} needs codes"),
        ((codes, labels + 1), f"{name} has labels from 1 to 3, allowed are 0 to 2"),
    ):
        splits = list(separable())
        splits[place] = wrong
        with pytest.raises(ValueError, match=message):
            linear_probe(*splits, classes=3)
        if place != 1 and "allowed" not in message:
            with pytest.raises(ValueError, match=message):
                knn(splits[0], splits[2])


def test_codes_made_without_gradients_can_be_read() -> None:
    """As a task makes them, and from within its evaluation."""
    with torch.inference_mode():
        splits = separable()
        assert linear_probe(*splits, classes=3).test == 1.0
    assert linear_probe(*splits, classes=3).test == 1.0
    assert linear_probe(*((codes.requires_grad_(), labels) for codes, labels in separable()), classes=3).test == 1.0
