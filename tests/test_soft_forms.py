"""Soft sorting and soft k-means: their limits, their gradients, and what they cost."""

import time

import pytest
import torch
from torch import Tensor

import dab
from dab.approximators import matched, soft_sort
from dab.hard import Argmax, KMeans, Ranks, Sort, Sort1d, TopK, TopKMask

FORMS = [
    (Sort(), (2, 3, 4)),
    (Sort(descending=True), (3, 4)),
    (Sort1d(), (2, 3, 4)),
    (Sort1d(descending=True), (200,)),  # long enough to be summed along
    (TopK(2), (2, 3, 4)),
    (TopK(3), (7,)),
    (TopK(30), (200,)),
    (KMeans(3), (4, 3, 3)),
    (KMeans(3, output="centroids", start="kmeans++"), (4, 3, 3)),
    (KMeans(2, points="channels"), (4, 3, 3)),
    (KMeans(3, iterations=0), (4, 3, 3)),
]
CHOICES = [(Ranks(), (2, 3)), (Argmax(4), (3, 4)), (TopKMask(2), (5,)), (TopKMask(3), (3,))]  # no true gradient


def soft(hard, shape: tuple[int, ...], slope: float):
    return matched(hard, shape, cap=slope, slope=slope).double()


@pytest.mark.parametrize(("hard", "shape"), FORMS + CHOICES, ids=str)
def test_a_steep_form_is_the_hard_function_and_a_shallow_one_is_not(hard, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    z = torch.randn(5, *shape, dtype=torch.double)
    torch.testing.assert_close(soft(hard, shape, 1e7)(z), hard(z), rtol=0, atol=1e-4)
    assert (soft(hard, shape, 1.0)(z) - hard(z)).abs().mean() > 0.01 or z[0].numel() == getattr(hard, "k", 0)


@pytest.mark.parametrize(("hard", "shape"), FORMS, ids=str)
def test_a_steep_form_has_the_true_gradient(hard, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    z = torch.randn(3, *shape, dtype=torch.double, requires_grad=True)
    weights = torch.randn(hard.out_shape(shape), dtype=torch.double)
    true = torch.autograd.grad((dab.TrueGradient(hard)(z)[0] * weights).sum(), z)
    found = torch.autograd.grad((soft(hard, shape, 1e7)(z) * weights).sum(), z)
    torch.testing.assert_close(found, true, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("hard", "shape"), FORMS + CHOICES, ids=str)
def test_the_gradient_is_that_of_the_form_and_finite_where_values_are_equal(hard, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    net = soft(hard, shape, 2.0)
    z = torch.randn(2, *shape, dtype=torch.double, requires_grad=True)
    if not getattr(hard, "iterations", 0):  # the centres before k-means' last step count as constants
        assert torch.autograd.gradcheck(net, z, fast_mode=True)
    for value in (0.0, 1e4):
        equal = torch.full((2, *shape), value, dtype=torch.double, requires_grad=True)
        net(equal).sin().sum().backward()
        assert equal.grad.isfinite().all() and (net.log_slope.grad is None or net.log_slope.grad.isfinite())


@pytest.mark.parametrize("hard", [Sort1d(), TopK(3), TopK(30)], ids=str)
def test_the_order_of_the_input_does_not_matter(hard) -> None:
    """And gradients go with their units."""
    torch.manual_seed(0)
    net, order = soft(hard, (200,), 3.0), torch.randperm(200)
    z, weights = torch.randn(4, 200, dtype=torch.double), torch.randn(hard.out_shape((200,)), dtype=torch.double)
    gradients = []
    for given in (z, z[:, order]):
        given = given.clone().requires_grad_()
        (net(given) * weights).sum().backward()
        gradients.append(given.grad)
    torch.testing.assert_close(net(z), net(z[:, order]))
    torch.testing.assert_close(gradients[0][:, order], gradients[1])


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("slope", [0.5, 20.0])
def test_the_sums_along_a_line_are_those_over_all_pairs(descending: bool, slope: float, monkeypatch) -> None:
    """Values and gradients, in single precision, for values far from zero as well."""
    torch.manual_seed(0)
    results = []
    z, weights = 3 * torch.randn(3, 150) + 50, torch.randn(3, 150)
    for square in (10**9, 0):
        monkeypatch.setattr(soft_sort, "SQUARE", square)
        given, steep = z.clone().requires_grad_(), torch.tensor(slope, requires_grad=True)
        out = soft_sort.soft_sort(given, steep, descending)
        (out * weights).sum().backward()
        results.append((out.detach(), given.grad, steep.grad))
    for by_pairs, by_sums in zip(*results):
        torch.testing.assert_close(by_sums, by_pairs, rtol=1e-3, atol=1e-3)


def test_a_long_sort_takes_no_square() -> None:
    """All 512·4·4 units of a Resnet's last block: 67 million pairs a sample would take 34 GB."""
    z = torch.randn(8, 512, 4, 4, requires_grad=True)
    start = time.process_time()
    y, penalty = dab.Bridge(Sort1d(), matched(Sort1d(), (512, 4, 4)))(z)
    (y.sin().sum() + penalty.sum()).backward()
    assert z.grad.isfinite().all() and time.process_time() - start < 5


def test_the_slope_runs_to_its_cap_for_these_as_well() -> None:
    torch.manual_seed(0)
    z = torch.randn(64, 2, 3, 3)
    for hard in (Sort(), TopK(2), KMeans(3)):
        net = matched(hard, (2, 3, 3), cap=3.0)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
        for _ in range(60):
            optimizer.zero_grad()
            dab.Bridge(hard, net)(z)[1].mean().backward()
            optimizer.step()
        assert net.slope.item() == pytest.approx(3.0), hard


def test_blurred_over_values_that_are_near() -> None:
    """By hand: of (0, 1), the first output is (0·e⁰ + 1·e⁻¹) / (e⁰ + e⁻¹) at slope 1."""
    e = torch.exp(torch.tensor(-1.0, dtype=torch.double))
    found = soft(Sort1d(), (2,), 1.0)(torch.tensor([[1.0, 0.0]], dtype=torch.double))
    torch.testing.assert_close(found, torch.stack([e, torch.ones_like(e)])[None] / (1 + e))


def test_soft_shares_of_two_centres_by_hand() -> None:
    """Four points on a line, two centres at 0.1 and 9.2 after Lloyd's last step; a slope of 0 shares them evenly."""
    z = torch.tensor([[[0.0, 0.2, 9.0, 9.4]]], dtype=torch.double)
    assert soft(KMeans(2), (1, 4), 5.0)(z)[0, 0].tolist() == pytest.approx([0.1, 0.1, 9.2, 9.2], abs=1e-4)
    even: Tensor = soft(KMeans(2), (1, 4), 1e-9)(z)
    torch.testing.assert_close(even, torch.full_like(even, z.mean().item()))


def test_a_cluster_without_points_keeps_its_centre() -> None:
    """Two distinct points and three centres."""
    hard = KMeans(3, output="centroids")
    z = torch.tensor([[[0.0, 0.0, 4.0, 4.0]]], dtype=torch.double)
    torch.testing.assert_close(soft(hard, (1, 4), 1e6)(z).sort().values, hard(z).sort().values, rtol=0, atol=1e-4)
