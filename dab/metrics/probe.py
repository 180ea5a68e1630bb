"""What simple readers find in frozen codes: a linear classifier, and the nearest neighbours.

A split is (codes [N, ...], labels [N]). Both readers are functions of the codes alone: they draw no random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Split = tuple[Tensor, Tensor]

STRENGTHS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # of the penalty; each starts where the stronger one before it ended
ROUND, ROUNDS = 10, 20  # iterations between two looks at the held-out split, and how many looks at most
ENOUGH = 1e-4  # a round that lowers the held-out loss by a smaller share is the last one
BLOCK = 2048  # rows at a time in training
CHUNK = 2**24  # logits or distances at a time


class ProbeResult(NamedTuple):
    """Accuracies, and the strength of the penalty that the held-out split has chosen."""

    valid: float
    test: float
    strength: float


@torch.no_grad()
def linear_probe(train: Split, valid: Split, test: Split, classes: int) -> ProbeResult:
    """Multinomial logistic regression on all of `train`, penalised and stopped as `valid` likes best.

    L-BFGS on mean cross-entropy + strength / 2 · |W|², biases free: LogisticRegression(C=1 / (strength · N)) of
    scikit-learn. Units are standardised by what they are in `train`; one with a single value there is 0 everywhere.
    `valid` judges by its mean cross-entropy, without the classes that `train` does not have.
    """
    splits = {name: checked(name, split) for name, split in (("train", train), ("valid", valid), ("test", test))}
    for name, (_, labels) in splits.items():
        if labels.min() < 0 or labels.max() >= classes:
            raise ValueError(f"{name} has labels from {labels.min()} to {labels.max()}, allowed are 0 to {classes - 1}")
    mean, scale = standardisation(splits["train"][0])
    splits = {name: (F.pad((codes - mean) * scale, (0, 1), value=1.0), of) for name, (codes, of) in splits.items()}
    known = torch.isin(splits["valid"][1], splits["train"][1])
    if not known.any():
        raise ValueError("valid has no code of a class that train has: is one of the two not shuffled?")
    held_out = (splits["valid"][0][known], splits["valid"][1][known])

    weights = mean.new_zeros(classes, len(mean) + 1)  # the last column is the bias
    best, chosen, strength = math.inf, weights, STRENGTHS[0]
    for penalty in STRENGTHS:
        for loss in rounds(weights, splits["train"], held_out, penalty):
            if loss < best:
                best, chosen, strength = loss, weights.clone(), penalty
    return ProbeResult(accuracy(chosen, splits["valid"]), accuracy(chosen, splits["test"]), strength)


@torch.no_grad()
def knn(train: Split, test: Split, k: int = 20) -> float:
    """The share of `test` whose nearest codes in `train` are mostly of its class.

    Nearest in Euclidean distance, which for binary codes counts the bits in which they differ. Such distances tie
    often: all codes as near as the k-th have a vote, so that the order of `train` does not matter, and of classes with
    as many votes the smallest label wins.
    """
    (codes, labels), (queries, wanted) = checked("train", train), checked("test", test)
    if not 1 <= k <= len(codes):
        raise ValueError(f"k must be from 1 to the {len(codes)} codes of train, given {k}")
    lengths, right = codes.square().sum(1), 0
    one_hot = F.one_hot(labels).to(codes.dtype)  # [N, classes]
    for some, of in zip(queries.split(rows := max(1, CHUNK // len(codes))), wanted.split(rows)):
        distances = torch.addmm(lengths, some, codes.T, alpha=-2)  # [rows, N], but for the query's own length
        kth = distances.topk(k, largest=False).values[:, -1:]
        rounding = 1e-6 * (lengths.max() + some.square().sum(1, keepdim=True))
        votes = (distances <= kth + rounding).to(codes.dtype) @ one_hot
        right += int((votes.argmax(1) == of).sum())
    return right / len(queries)


def checked(name: str, split: Split) -> Split:
    """Codes as rows of float32, labels as integers; or why this is no split."""
    codes, labels = split
    if len(codes) == 0 or labels.shape != codes.shape[:1]:
        raise ValueError(
            f"{name} needs codes [N, ...] and as many labels [N], given {list(codes.shape)}, {list(labels.shape)}"
        )
    codes = codes.flatten(1).float()
    if broken := int((~codes.isfinite()).any(1).sum()):
        raise ValueError(f"{broken} of {len(codes)} codes of {name} are not finite: has the model diverged?")
    return codes, labels.long()


def standardisation(codes: Tensor) -> tuple[Tensor, Tensor]:
    """What to take off every unit, and what to multiply it by then.  [N, D] → [D], [D]"""
    deviation, mean = torch.std_mean(codes, 0, correction=0)
    dead = deviation <= 1e-6 * codes.abs().amax(0)  # not 0: the mean of equal numbers is rounded
    return mean, torch.where(dead, 0.0, 1 / deviation)


def rounds(weights: Tensor, train: Split, held_out: Split, strength: float) -> Iterator[float]:
    """Moves the weights by rounds of L-BFGS: after each their loss on the held-out split, until that stops falling."""
    optimizer = torch.optim.LBFGS([weights], max_iter=ROUND, line_search_fn="strong_wolfe")

    def closure() -> float:
        loss, weights.grad = cross_entropy(weights, train)
        kept = weights.clone()
        kept[:, -1] = 0  # the bias is free
        weights.grad += strength * kept
        return loss + strength / 2 * float(kept.square().sum())

    before = math.inf
    for _ in range(ROUNDS):
        optimizer.step(closure)
        loss = cross_entropy(weights, held_out)[0]
        yield loss
        if not loss < before * (1 - ENOUGH):
            break
        before = loss


def cross_entropy(weights: Tensor, split: Split) -> tuple[float, Tensor]:
    """Its mean and its gradient.  weights: [classes, D]

    By blocks that stay in the cache from the first product to the second, classes first: twice as fast as whole rows.
    """
    total, gradient = 0.0, torch.zeros_like(weights)
    minus_one = weights.new_full((1, 1), -1)
    for x, labels in zip(*(t.split(BLOCK) for t in split)):
        log_p = (weights @ x.T).log_softmax(0)  # [classes, rows]
        total -= float(log_p.gather(0, labels[None]).sum(dtype=torch.float64))
        error = log_p.exp_().scatter_add_(0, labels[None], minus_one.expand(1, len(x)))
        gradient.addmm_(error, x)
    return total / len(split[0]), gradient / len(split[0])


def accuracy(weights: Tensor, split: Split) -> float:
    rows = max(1, CHUNK // len(weights))
    right = [(x @ weights.T).argmax(1) == labels for x, labels in zip(*(t.split(rows) for t in split))]
    return float(torch.cat(right).double().mean())
