"""Layer estimators: one interface, each with its own gradient."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dab
from dab import NoHard, StraightThrough, TrueGradient
from dab.estimators import (
    IMLE,
    SPSA,
    Gumbel,
    GumbelRao,
    Identity,
    Interpolation,
    Perturbed,
    ReinMax,
    Relaxed,
    Smoothing,
    VectorQuantization,
)
from dab.hard import Bernoulli, Nearest, Signum, Sort1d, TopK

LAYERS = [
    StraightThrough(Signum()),
    StraightThrough(lambda z: z.round()),
    TrueGradient(Sort1d()),
    NoHard(),
    dab.Bridge(Signum(), nn.Tanh()),
    Smoothing(Signum(), baseline="leave_one_out"),
    SPSA(Signum(), relative=True),
    Perturbed(Signum(), noise="gumbel"),
    Interpolation(Signum()),
    IMLE(Signum()),
    Identity(Signum()),
    Relaxed(Sort1d()),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
@pytest.mark.parametrize("training", [True, False])
def test_one_interface(layer: nn.Module, training: bool) -> None:
    z = torch.randn(3, 4, 5, requires_grad=True)
    y, penalty = layer.train(training)(z)
    hard = getattr(layer, "hard", lambda z: z)
    assert torch.equal(y, hard(z.detach()))
    assert penalty.shape == (3,) and penalty.dtype == torch.float32
    if not isinstance(layer, dab.Bridge):
        assert not penalty.any() and not penalty.requires_grad


def gradient(layer: nn.Module, z: Tensor, g: Tensor) -> Tensor:
    return torch.autograd.grad((layer(z)[0] * g).sum(), z)[0]


def test_straight_through_is_the_identity_backward() -> None:
    z, g = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    assert torch.equal(gradient(StraightThrough(Signum()), z, g), g)


def test_straight_through_a_bernoulli_passes_the_sigmoid() -> None:
    z, g = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    p = torch.sigmoid(z.detach())
    through_p = g * p * (1 - p)
    torch.testing.assert_close(gradient(StraightThrough(Bernoulli()), z, g), through_p)
    torch.testing.assert_close(gradient(StraightThrough(Signum(), through="probability"), z, g), through_p)
    assert torch.equal(gradient(StraightThrough(Bernoulli(), through="logit"), z, g), g)


def test_straight_through_is_bitwise_hard() -> None:
    z = torch.tensor([[1e8, -1e8, float("inf"), 0.1]])
    y, _ = StraightThrough(lambda t: torch.full_like(t, 0.1))(z)
    assert torch.equal(y, torch.full_like(z, 0.1))  # 0.1 + z - z would not be


def test_straight_through_refuses_functions_that_change_the_shape() -> None:
    with pytest.raises(ValueError, match=r"\[2, 6\] into \[2, 3\].*Bridge"):
        StraightThrough(TopK(3))(torch.randn(2, 6))
    with pytest.raises(ValueError, match="auto, logit, probability"):
        StraightThrough(Signum(), through="mean")


def test_the_true_gradient_of_topk() -> None:
    z = torch.tensor([[3.0, 1.0, 2.0]], requires_grad=True)
    y, _ = TrueGradient(TopK(2))(z)
    (y * torch.tensor([[10.0, 20.0]])).sum().backward()
    assert z.grad.tolist() == [[10.0, 0.0, 20.0]]


def test_the_true_gradient_of_kmeans_averages_within_clusters() -> None:
    z = torch.tensor([[[0.0, 0.2, 9.0, 9.4]]], dtype=torch.double, requires_grad=True)  # one channel, four positions
    y, _ = TrueGradient(dab.hard.KMeans(2))(z)
    (y * torch.tensor([1.0, 3.0, 5.0, 9.0])).sum().backward()
    torch.testing.assert_close(z.grad, torch.tensor([[[2.0, 2.0, 7.0, 7.0]]], dtype=torch.double))


# What holds for all of them

WORDS = [VectorQuantization(Nearest(4, 5)), VectorQuantization(Nearest(4, 5), "rotation", "loss")]
ALL = [*LAYERS, Gumbel(), Gumbel(straight_through=True), GumbelRao(2), ReinMax(), *WORDS]


@pytest.mark.parametrize("layer", ALL, ids=lambda layer: type(layer).__name__)
def test_no_gradient_passes_in_evaluation(layer: nn.Module) -> None:
    """Alike for all: y is a constant there, but for NoHard, which has nothing hard."""
    layer = copy.deepcopy(layer).eval()
    y, penalty = layer(torch.randn(3, 4, 5, requires_grad=True))
    assert y.requires_grad == isinstance(layer, NoHard)
    assert not penalty.requires_grad and not penalty.any()


@pytest.mark.parametrize("layer", ALL, ids=lambda layer: type(layer).__name__)
@pytest.mark.parametrize("training", [True, False])
def test_an_empty_batch(layer: nn.Module, training: bool) -> None:
    y, penalty = copy.deepcopy(layer).train(training)(torch.randn(0, 4, 5, requires_grad=True))
    assert y.shape == (0, 4, 5) and penalty.shape == (0,)


def with_a_hard_function(hard) -> list[nn.Module]:
    called_often = [Smoothing(hard), Interpolation(hard), IMLE(hard), Identity(hard)]
    return [dab.Bridge(hard, nn.Tanh()), StraightThrough(hard), TrueGradient(hard), *called_often]


def writes_in_place(z: Tensor) -> Tensor:
    return z.mul_(2).round_()


def writes_through_numpy(z: Tensor) -> Tensor:
    values = z.detach().numpy()
    np.sign(values, out=values)
    return z


@pytest.mark.parametrize("hard", [writes_in_place, writes_through_numpy, lambda z: z, lambda z: z.flip(0)[:, :]])
@pytest.mark.parametrize("training", [True, False])
def test_z_stays_what_it_is(hard, training: bool) -> None:
    """Whatever the function does with its input, and the caller with the output."""
    for layer in (*with_a_hard_function(hard), NoHard()):
        z = torch.randn(3, 4, requires_grad=True)
        before = z.detach().clone()
        y, _ = layer.train(training)(z)
        y.mul_(3).add_(1)
        assert torch.equal(z, before)


@pytest.mark.parametrize("other", [torch.double, torch.bfloat16, torch.half], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.double, torch.bfloat16], ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_y_has_the_dtype_of_z(other: torch.dtype, dtype: torch.dtype, training: bool) -> None:
    for layer in with_a_hard_function(lambda z: z.sign().to(other)):
        z = torch.randn(3, 4, dtype=dtype, requires_grad=True)
        y, penalty = layer.train(training)(z)
        assert y.dtype == dtype and torch.equal(y, z.sign())
        assert penalty.dtype == (torch.double if dtype == torch.double else torch.float32)


@pytest.mark.parametrize("training", [True, False])
def test_a_broken_encoder_shows(training: bool) -> None:
    z = torch.randn(3, 4)
    z[1, 2] = torch.nan
    for layer in with_a_hard_function(Signum()):
        y, _ = layer.train(training)(z)
        assert y[1, 2].isnan() and y.isnan().sum() == 1
