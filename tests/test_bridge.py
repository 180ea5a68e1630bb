"""The bridge: the hard value forward, once, whatever the approximator does; wrong uses refused."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dab

ROUTINGS = ("released", "equation", "additive")


@pytest.mark.parametrize("routing", ROUTINGS)
def test_forward_is_the_hard_value_even_if_the_approximator_is_not_finite(routing: str) -> None:
    class Broken(nn.Linear):
        def forward(self, z: Tensor) -> Tensor:
            return super().forward(z) / 0

    z = torch.randn(3, 4)
    y, _ = dab.Bridge(torch.sign, Broken(4, 4), routing=routing)(z)
    assert torch.equal(y, torch.sign(z))


@pytest.mark.parametrize("routing", ROUTINGS)
def test_a_function_that_samples_is_called_once(routing: str) -> None:
    drawn: list[Tensor] = []

    def noisy(z: Tensor) -> Tensor:
        drawn.append(torch.bernoulli(torch.sigmoid(z)))
        return drawn[-1]

    bridge = dab.Bridge(noisy, nn.Linear(4, 4), routing=routing)
    y, _ = bridge(torch.randn(3, 4))
    assert len(drawn) == 1 and torch.equal(y, drawn[0])
    y, penalty = bridge.eval()(torch.randn(3, 4))
    assert len(drawn) == 2 and torch.equal(y, drawn[1]) and torch.equal(penalty, torch.zeros(3))


@pytest.mark.parametrize("routing", ROUTINGS)
def test_running_statistics_move_once(routing: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    alone = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    alone.load_state_dict(net.state_dict())
    z = torch.randn(9, 4, requires_grad=True)
    y, penalty = dab.Bridge(torch.sign, net, routing=routing)(z)
    (y.sum() + penalty.mean()).backward()
    alone(z)
    for ours, theirs in zip(net.buffers(), alone.buffers(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_frozen_and_parameterless_approximators(routing: str) -> None:
    hard = dab.hard.Signum()
    for net in (dab.approximators.dense(hard, (4,), frozen=True), nn.Tanh()):
        z = torch.randn(3, 4, requires_grad=True)
        y, penalty = dab.Bridge(hard, net, routing=routing)(z)
        (y.sum() + penalty.mean()).backward()
        assert z.grad is not None and z.grad.any()
        assert all(p.grad is None for p in net.parameters())


class Twice(nn.Module):
    """One layer used in two places, and another whose weight two layers share."""

    def __init__(self) -> None:
        super().__init__()
        self.again = self.layer = nn.Linear(4, 4)
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.last.weight = self.first.weight
        self.scale = self.size = nn.Parameter(torch.ones(4))

    def forward(self, z: Tensor) -> Tensor:
        inside = self.again(torch.tanh(self.layer(z)))
        return self.last(torch.tanh(self.first(torch.tanh(inside)))) * self.size * self.scale


@pytest.mark.parametrize("routing", ROUTINGS)
def test_an_approximator_may_use_its_parts_twice(routing: str) -> None:
    """Its parameters stay what they were, learn, and get of the task what the routing says."""
    torch.manual_seed(0)
    net = Twice()
    before = list(net.parameters())
    bridge = dab.Bridge(torch.sign, net, gamma=1.0, routing=routing)
    optimizer = torch.optim.Adam(bridge.parameters(), lr=1e-2)
    z = torch.randn(64, 4)
    seen = []
    for _ in range(60):
        _, penalty = bridge(z)
        optimizer.zero_grad()
        penalty.mean().backward()
        optimizer.step()
        seen.append(penalty.mean().item())
    assert all(p is q for p, q in zip(net.parameters(), before, strict=True)) and net.again is net.layer
    assert seen[-1] < 0.7 * seen[0]
    of_task = torch.autograd.grad(bridge(z.requires_grad_())[0].sum(), [z, *before], allow_unused=True)
    assert of_task[0] is not None and of_task[0].any()
    assert all((g is not None) == (routing == "additive") for g in of_task[1:])


def test_the_output_may_be_changed_in_place() -> None:
    z = torch.randn(3, 4, requires_grad=True)
    y, penalty = dab.Bridge(lambda x: x, nn.Tanh())(z)
    before = z.detach().clone()
    (y.relu_().sum() + penalty.mean()).backward()
    assert torch.equal(z, before)


def test_samples_may_have_any_shape() -> None:
    for shape in ((5,), (5, 1), (5, 2, 3), (5, 2, 3, 4)):
        y, penalty = dab.Bridge(torch.sign, nn.Tanh())(torch.randn(shape))
        assert y.shape == shape and penalty.shape == (5,)


def test_a_module_is_registered_and_a_function_is_not() -> None:
    bridge = dab.Bridge(nn.BatchNorm1d(4), nn.Linear(4, 4))
    assert "hard.running_mean" in bridge.state_dict()
    assert not any(key.startswith("hard") for key in dab.Bridge(torch.sign, nn.Linear(4, 4)).state_dict())


def accuracy_on_quadrants(build, train_before: bool) -> float:
    """Learn whether x0 * x1 > 0 from eight sign units."""
    torch.manual_seed(0)
    hard = dab.hard.Signum(0.0)
    before = nn.Linear(2, 8).requires_grad_(train_before)
    after = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    bridge = dab.Bridge(hard, build(hard, (8,)))
    optimizer = torch.optim.Adam([*before.parameters(), *after.parameters(), *bridge.parameters()], lr=2e-2)
    x = torch.rand(512, 2) * 2 - 1
    target = (x.prod(1) > 0).float()
    for _ in range(300):
        y, penalty = bridge(before(x))
        loss = F.binary_cross_entropy_with_logits(after(y).squeeze(1), target) + penalty.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    y, _ = bridge.eval()(before(x))
    return ((after(y).squeeze(1) > 0) == (target > 0)).float().mean().item()


@pytest.mark.parametrize("build", [dab.approximators.dense, dab.approximators.matched])
def test_a_bridge_trains_the_layer_before_it(build) -> None:
    assert accuracy_on_quadrants(build, train_before=True) > 0.93
    assert accuracy_on_quadrants(build, train_before=False) < 0.85


def test_a_bridge_builds_its_approximator() -> None:
    assert isinstance(dab.Bridge(dab.hard.Signum(), in_shape=(4,)).approximator, dab.approximators.Matched)
    assert isinstance(dab.Bridge(torch.sign, in_shape=(4,)).approximator, dab.approximators.Elementwise)
    bridge = dab.Bridge(lambda z: z.sort(1).values[:, :2], in_shape=(4,), gamma=2.0, routing="additive", loss="l1")
    assert bridge(torch.randn(3, 4))[0].shape == (3, 2)
    assert (bridge.gamma, bridge.routing, bridge.loss) == (2.0, "additive", "l1")


@pytest.mark.parametrize("half", ["bfloat16", "half"])
def test_a_model_in_half_precision_trains(half: str) -> None:
    """`.bfloat16()` reaches the approximator too, which goes on in float32."""
    hard = dab.hard.Signum()
    model = nn.ModuleList([nn.Linear(3, 4), dab.Bridge(hard, dab.approximators.dense(hard, (4,)))])
    getattr(model, half)()
    z = model[0](torch.randn(5, 3).to(model[0].weight.dtype))
    y, penalty = model[1](z)
    (y.float().sum() + penalty.mean()).backward()
    assert y.dtype == z.dtype and penalty.dtype == torch.float32
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert model.double()[1].approximator.net[0].weight.dtype == torch.double


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"approximator": None}, ValueError, "either an approximator or in_shape.*given neither"),
        ({"in_shape": (4,)}, ValueError, "either an approximator or in_shape.*given both"),
        ({"approximator": nn.LazyLinear(4)}, ValueError, "lazy .*call it once"),
        ({"routing": "both"}, ValueError, "released, equation, additive"),
        ({"loss": "mse"}, ValueError, "l2, l1, huber, cosine, cross_entropy"),
        ({"gamma": -1.0}, ValueError, "gamma .*-1"),
        ({"gamma": float("inf")}, ValueError, "gamma .*inf"),
        ({"approximator": torch.tanh}, TypeError, "approximators.auto"),
        ({"hard": 3}, TypeError, "hard .*3"),
    ],
)
def test_wrong_options_are_refused(options, error, says: str) -> None:
    with pytest.raises(error, match=says):
        dab.Bridge(**({"hard": torch.sign, "approximator": nn.Tanh()} | options))


@pytest.mark.parametrize(
    ("hard", "z", "says"),
    [
        (lambda z: z.argmax(1), torch.randn(3, 4), "int64"),
        (lambda z: (z, z), torch.randn(3, 4), "tuple"),
        (lambda z: z[:1], torch.randn(3, 4), r"\[3, 4\] into \[1, 4\]"),
        (lambda z: z.mean(), torch.randn(3, 4), "batch dimension"),
        (lambda z: z[:, :2], torch.randn(3, 4), r"\[3, 4\] and the hard function \[3, 2\]"),
        (torch.sign, torch.tensor(1.0), "batch dimension"),
        (torch.sign, torch.arange(3), "int64"),
        (torch.sign, [1.0], "list"),
    ],
)
def test_wrong_tensors_are_refused(hard, z, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        dab.Bridge(hard, nn.Tanh())(z)
