"""Approximators: shapes, forms, caps, and that they learn what they imitate."""

import copy
import math
import pickle
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import dab
from dab.approximators import Dense, Elementwise, Matched, auto, conv, dense, elementwise, lines, matched
from dab.hard import Argmax, Bernoulli, Binary, Categorical, KMeans, Levels, Signum, Sort, Sort1d, Threshold, TopK


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def fitted(hard, net: nn.Module, z: Tensor, steps: int = 200, lr: float = 1e-2) -> list[float]:
    """The penalty while the bridge learns its hard function."""
    bridge = dab.Bridge(hard, net, gamma=1.0)
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    seen = []
    for _ in range(steps):
        loss = bridge(z)[1].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen


BUILT = [
    (dense, Signum(), (6,)),
    (dense, Sort(), (2, 3, 3)),
    (dense, TopK(2), (2, 3, 4)),
    (dense, lambda z: z.flatten(1).sum(1), (2, 3)),
    (elementwise, Signum(), (2, 3, 3)),
    (conv, Sort(), (2, 3, 3)),
    (conv, KMeans(2), (4, 3, 3)),
    (matched, Binary(), (2, 3, 3)),
    (matched, Sort(), (2, 3, 4)),
    (matched, Sort1d(descending=True), (2, 3, 4)),
    (matched, TopK(2), (2, 3, 4)),
    (matched, KMeans(3), (4, 2, 3)),
    (matched, KMeans(3, output="centroids"), (4, 2, 3)),
    (lines, Sort(), (2, 3, 4)),
    (lines, TopK(2), (2, 3, 3)),
    (auto, Bernoulli(), (6,)),
    (auto, TopK(2), (6,)),
]


@pytest.mark.parametrize(("build", "hard", "shape"), BUILT)
def test_built_for_the_shape_of_the_hard_function(build, hard, shape: tuple[int, ...]) -> None:
    z = torch.randn(3, *shape, requires_grad=True)
    y, penalty = dab.Bridge(hard, build(hard, shape))(z)
    assert torch.equal(y, hard(z.detach())) or isinstance(hard, Bernoulli)
    (y.sin().sum() + penalty.mean()).backward()
    assert z.grad is not None and z.grad.any()


@pytest.mark.parametrize(("build", "hard", "shape"), BUILT)
def test_an_empty_batch(build, hard, shape: tuple[int, ...]) -> None:
    z = torch.randn(0, *shape, requires_grad=True)
    bridge = dab.Bridge(hard, build(hard, shape))
    y, penalty = bridge(z)
    (y.sum() + penalty.sum()).backward()
    assert len(y) == len(penalty) == 0 and z.grad is not None
    assert all(p.grad is not None and not p.grad.any() for p in bridge.parameters())


def test_the_dense_net_of_the_paper() -> None:
    net = dense(Signum(), (256,))
    sizes = [(layer.in_features, layer.out_features) for layer in net.modules() if isinstance(layer, nn.Linear)]
    assert sizes == [(256, 128), (128, 128), (128, 256)]
    assert [type(layer) for layer in net.net][1::2] == [nn.Tanh, nn.Tanh]


@pytest.mark.parametrize(
    ("build", "hard", "shape"),
    [
        (dense, Signum(), (6,)),
        (elementwise, Signum(), (6,)),
        (conv, Sort(), (1, 3, 3)),
        (dense, TopK(2), (6,)),
        (lines, Sort(), (2, 3, 4)),
        (lines, TopK(1), (2, 3, 3)),
    ],
)
def test_learns_its_hard_function(build, hard, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    seen = fitted(hard, build(hard, shape), torch.randn(256, *shape))
    assert seen[-1] < seen[0] / 2


def test_elementwise_treats_units_alike_and_alone() -> None:
    net = elementwise(Signum(), (4,))
    z = torch.randn(5, 4)
    torch.testing.assert_close(net(z)[:, [2, 0]], net(z[:, [2, 0]]))


@pytest.mark.parametrize(
    ("hard", "closed"),
    [
        (Signum(0.3), lambda z, k: (torch.tanh(k * (z - 0.3)) + torch.tanh(k * (z + 0.3))) / 2),
        (Binary(), lambda z, k: torch.sigmoid(k * (z - z.mean(1, keepdim=True)))),
        (Binary("batch"), lambda z, k: torch.sigmoid(k * (z - z.mean(0)))),
        (Binary("zero"), lambda z, k: torch.sigmoid(k * z)),
        (Bernoulli(), lambda z, k: torch.sigmoid(k * z)),
        (Threshold(0.2), lambda z, k: torch.sigmoid(k * (z - 0.2))),
        (Levels(2), lambda z, k: torch.tanh(k * z)),
        (Levels(3), lambda z, k: matched(Signum(math.atanh(0.5)), (4,), slope=k)(z)),
        (Argmax(4), lambda z, k: torch.softmax(k * z, 1)),
        (Categorical(4), lambda z, k: torch.softmax(k * z, 1)),
        (Levels(8), lambda z, k: sum(torch.tanh(k * (z - edge)) for edge in Levels(8).edges) / 7),
    ],
    ids=lambda value: "" if type(value).__name__ == "function" else str(value),
)
def test_matched_forms(hard: nn.Module, closed) -> None:
    z = torch.randn(5, 4)
    torch.testing.assert_close(matched(hard, (4,), slope=2.0)(z), closed(z, 2.0))
    assert count(matched(hard, (4,))) == 1
    # As the slope grows, the form becomes the function.
    if not isinstance(hard, Bernoulli | Categorical):
        torch.testing.assert_close(matched(hard, (4,), cap=1e6, slope=1e6)(z), hard(z), atol=1e-3, rtol=0)


def test_the_slope_runs_to_its_cap_and_stops_there() -> None:
    torch.manual_seed(0)
    net = matched(Signum(), (6,), cap=3.0)
    fitted(Signum(), net, torch.randn(256, 6), lr=0.05)
    assert net.slope.item() == pytest.approx(3.0)
    assert net.log_slope.exp().item() < 6.0  # it does not run on behind the cap


def test_a_slope_above_the_cap_comes_back_when_pulled() -> None:
    net = matched(Bernoulli(), (6,), cap=4.0, slope=6.0)
    net.slope.backward()  # descent lowers the slope
    assert net.log_slope.grad.item() > 0
    net.log_slope.grad = None
    (-net.slope).backward()  # descent would raise it
    assert net.log_slope.grad.item() == 0
    below = matched(Bernoulli(), (6,), cap=4.0, slope=2.0)
    (-below.slope).backward()
    assert below.log_slope.grad.item() < 0


def test_a_bernoulli_bridge_finds_the_conditional_mean() -> None:
    torch.manual_seed(0)
    net = matched(Bernoulli(), (64,), slope=3.0)
    fitted(Bernoulli(), net, 2 * torch.randn(512, 64), lr=0.05)
    assert net.slope.item() == pytest.approx(1.0, abs=0.05)


def test_a_cap_over_time() -> None:
    net = matched(Signum(), (6,), cap=8.0, cap_start=1.0, slope=100.0)
    buffer = net.cap
    for fraction, cap in ((0.0, 1.0), (0.5, 4.5), (1.0, 8.0), (1.1, 8.0), (-0.1, 1.0)):
        net.set_progress(fraction)
        assert net.slope.item() == pytest.approx(cap)
    assert net.cap is buffer
    constant = matched(Signum(), (6,), cap=8.0)
    constant.set_progress(0.0)
    assert constant.cap.item() == 8.0


def test_the_cap_is_saved() -> None:
    net = matched(Signum(), (6,), cap=8.0, cap_start=1.0)
    net.set_progress(0.5)
    fresh = matched(Signum(), (6,), cap=8.0, cap_start=1.0)
    fresh.load_state_dict(net.state_dict())
    assert fresh.cap.item() == 4.5


def test_a_slope_for_every_unit() -> None:
    net = matched(Signum(), (2, 3), per_unit=True)
    assert net.slope.shape == (2, 3)
    net(torch.randn(4, 2, 3)).square().sum().backward()
    assert len(net.log_slope.grad.unique()) == 6


def test_a_residual_starts_at_zero_and_learns() -> None:
    torch.manual_seed(0)
    z = torch.randn(256, 4)
    net = matched(Signum(), (4,), residual=(16,))
    assert torch.equal(net(z), matched(Signum(), (4,))(z))
    alone = fitted(Signum(), matched(Signum(), (4,), cap=1.0), z)
    helped = fitted(Signum(), matched(Signum(), (4,), cap=1.0, residual=(16,)), z)
    assert helped[-1] < 0.8 * alone[-1]


def test_frozen() -> None:
    assert not any(p.requires_grad for p in dense(Signum(), (6,), frozen=True).parameters())


@pytest.mark.parametrize(
    ("hard", "kind"),
    [
        (Signum(), Matched),
        (Binary("batch"), Matched),
        (torch.sign, Elementwise),
        (lambda z: torch.bernoulli(torch.sigmoid(z)), Elementwise),
        (lambda z: z.sort(1).values, Dense),
        (lambda z: z[:, :3].sign(), Dense),
        (TopK(2), Matched),
        (Sort1d(), Matched),
    ],
)
def test_auto_takes_the_most_structure_that_fits(hard, kind: type) -> None:
    assert type(auto(hard, (6,))) is kind


def test_a_skip_starts_at_nothing_and_carries_what_is_linear_in_more_units_than_the_layers_have() -> None:
    torch.manual_seed(0)
    plain = dense(Signum(), (8,), hidden=(2,))
    torch.manual_seed(0)
    with_skip, z = dense(Signum(), (8,), hidden=(2,), skip=True), torch.randn(64, 8)
    assert torch.equal(with_skip(z), plain(z))
    left = []
    for net in (plain, with_skip):
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
        for _ in range(200):
            optimizer.zero_grad()
            loss = (net(z) - z.flip(1)).square().mean()
            loss.backward()
            optimizer.step()
        left.append(loss.item())
    assert left[0] > 0.5 and left[1] < 0.01


def test_auto_takes_no_skip_that_is_larger_than_what_it_helps() -> None:
    def flipped(z: Tensor) -> Tensor:
        return z.flip(1)

    assert auto(flipped, (8,)).skip is not None
    assert auto(flipped, (2048,)).skip is None


def test_auto_leaves_the_random_numbers_alone() -> None:
    torch.manual_seed(0)
    chosen = auto(torch.sign, (6,))
    torch.manual_seed(0)
    assert torch.equal(chosen.net[0].weight, elementwise(torch.sign, (6,)).net[0].weight)


@pytest.mark.parametrize(
    ("build", "hard", "shape"),
    [(dense, Signum(), (4,)), (elementwise, Signum(), (4,)), (matched, Signum(), (4,)), (matched, KMeans(2), (4, 3))],
)
def test_copies_and_pickles(build, hard, shape: tuple[int, ...]) -> None:
    net = build(hard, shape)
    z = torch.randn(3, *shape)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(twin(z), net(z))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: matched(nn.Identity(), (2, 3)), "Signum, Binary, Bernoulli, Threshold.*KMeans, given Identity"),
        (lambda: matched(Sort(), (1, 3, 3), per_unit=True), "Sort compares units"),
        (lambda: lines(Signum(), (1, 3, 3)), r"Sort and TopK of maps.*given Signum of \[1, 3, 3\]: use dense"),
        (lambda: lines(TopK(2), (6,)), r"given TopK of \[6\]"),
        (lambda: lines(TopK(4), (2, 3, 3)), "k = 4 is more than"),
        (lambda: matched(Signum(), (3,), cap=0.0), "> 0"),
        (lambda: matched(Signum(), (3,), cap=float("inf")), "cap must be a number > 0, given inf"),
        (lambda: elementwise(TopK(2), (6,)), r"\[6\] into \[2\]"),
        (lambda: conv(TopK(2), (2, 3, 4)), r"\[2, 3, 4\] into \[2, 7, 2\]"),
        (lambda: conv(Signum(), (6,)), r"\[C, H, W\]"),
        (lambda: conv(Signum(), (2, 3, 3), kernel=2), "odd"),
        (lambda: dense(Signum(), (6,), activation="swish"), "tanh, relu, elu, gelu, leaky_relu, identity"),
        (lambda: dense(Signum(), (6,))(torch.randn(2, 8)), r"built for samples \[6\], given \[8\].*build another"),
        (lambda: dense(Signum(), (6,))(torch.randn(0, 8)), r"built for samples \[6\], given \[8\]"),
    ],
)
def test_impossible_requests_say_why(call, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize(
    ("build", "misfit", "low", "high"),
    [
        pytest.param(dense, 0.05, -0.15, 0.15, id="dense"),
        pytest.param(partial(dense, skip=True), 0.05, -0.15, 0.15, id="with skip"),
        pytest.param(lines, 0.4, 0.35, 1.0, id="lines"),
    ],
)
def test_a_dense_net_may_imitate_the_values_and_not_the_gradient(build, misfit, low: float, high: float) -> None:
    """On inputs of 3 directions out of 64 values say little of the Jacobian, unless a small net is shared by all."""
    torch.manual_seed(0)
    hard, directions = Sort(), torch.randn(3, 64)
    bridge = dab.FittedBridge(hard, build(hard, (4, 4, 4)))
    for _ in range(250):
        bridge((torch.randn(128, 3) @ directions).reshape(-1, 4, 4, 4))
    z = (torch.randn(128, 3) @ directions).reshape(-1, 4, 4, 4).requires_grad_()
    g = torch.randn(128, 8, 4, 4)
    (passed_on,), (true,) = (torch.autograd.grad(y, z, g) for y in (bridge(z)[0], hard(z)))
    assert bridge.misfit < misfit
    assert low < torch.cosine_similarity(passed_on.flatten(1), true.flatten(1)).mean() < high
