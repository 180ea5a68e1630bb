"""Each gradient of the bridge goes where its routing says, by closed forms in float64."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dab

ROUTINGS = ("released", "equation", "additive")
LOSSES = ("l2", "l1", "huber", "cosine", "cross_entropy")
GAMMA = 3.0


def signs_and_steps(z: Tensor) -> Tensor:
    """A hard function that doubles the units: [B, N] → [B, 2N]."""
    return torch.cat([torch.sign(z), torch.round(z)], 1)


class Linear(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(after, before, dtype=torch.double))

    def forward(self, z: Tensor) -> Tensor:
        return z @ self.w.T

    def pull(self, z: Tensor, e: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """By hand: J'e and A'e for a gradient e at the output."""
        return e @ self.w, {"w": e.T @ z}


class Curved(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(5, before, dtype=torch.double))
        self.v = nn.Parameter(torch.randn(after, 5, dtype=torch.double))

    def forward(self, z: Tensor) -> Tensor:
        return torch.tanh(z @ self.w.T) @ self.v.T

    def pull(self, z: Tensor, e: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        t = torch.tanh(z @ self.w.T)
        inner = (e @ self.v) * (1 - t**2)
        return inner @ self.w, {"w": inner.T @ z, "v": e.T @ t}


def expected(net: Linear | Curved, z: Tensor, h: Tensor, g: Tensor, routing: str) -> tuple[Tensor, dict[str, Tensor]]:
    """The table of the three routings, for the loss (y * g).sum() + penalty.mean()."""
    d = 2 * GAMMA * (net(z) - h) / len(z)
    into_z = g if routing == "released" else g + d
    into_phi = g + d if routing == "additive" else d
    return net.pull(z, into_z)[0], net.pull(z, into_phi)[1]


def close(a: Tensor | None, b: Tensor) -> None:
    assert a is not None
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", [Linear, Curved])
@pytest.mark.parametrize("hard", [torch.sign, signs_and_steps, dab.hard.TopK(2)])
@pytest.mark.parametrize("routing", ROUTINGS)
def test_gradients_equal_the_closed_form(routing: str, hard, kind) -> None:
    torch.manual_seed(0)
    z = torch.randn(7, 4, dtype=torch.double, requires_grad=True)
    h = hard(z.detach())
    net = kind(4, h.shape[1])
    g = torch.randn_like(h)
    y, penalty = dab.Bridge(hard, net, GAMMA, routing)(z)
    ((y * g).sum() + penalty.mean()).backward()
    with torch.no_grad():
        into_z, into_phi = expected(net, z, h, g, routing)
    assert torch.equal(y, h)
    close(penalty.detach(), GAMMA * (net(z) - h).square().sum(1).detach())
    close(z.grad, into_z)
    for name, p in net.named_parameters():
        close(p.grad, into_phi[name])


@pytest.mark.parametrize("routing", ROUTINGS)
def test_two_bridges_in_one_model_do_not_mix(routing: str) -> None:
    torch.manual_seed(0)
    z = torch.randn(6, 3, dtype=torch.double, requires_grad=True)
    mix, g = torch.randn(4, 6, dtype=torch.double), torch.randn(6, 4, dtype=torch.double)
    first, second = Curved(3, 6), Curved(4, 4)
    y1, p1 = dab.Bridge(signs_and_steps, first, GAMMA, routing)(z)
    y2, p2 = dab.Bridge(torch.round, second, GAMMA, routing)(y1 @ mix.T)
    ((y2 * g).sum() + p1.mean() + p2.mean()).backward()
    with torch.no_grad():
        h1 = signs_and_steps(z)
        z2 = h1 @ mix.T
        into_z2, into_second = expected(second, z2, torch.round(z2), g, routing)
        into_z, into_first = expected(first, z, h1, into_z2 @ mix, routing)
    close(z.grad, into_z)
    close(first.w.grad, into_first["w"])
    close(second.w.grad, into_second["w"])


@pytest.mark.parametrize("routing", ROUTINGS)
def test_one_bridge_may_be_used_twice_in_a_forward(routing: str) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(2, 5, 3, dtype=torch.double).requires_grad_().unbind()
    bridge = dab.Bridge(torch.sign, Curved(3, 3), GAMMA, routing)
    g = torch.randn(5, 3, dtype=torch.double)
    (ya, pa), (yb, pb) = bridge(a), bridge(b)
    grad_a, grad_b = torch.autograd.grad((ya * g + yb * g).sum() + (pa + pb).mean(), [a, b])
    for z, grad in ((a, grad_a), (b, grad_b)):
        with torch.no_grad():
            close(grad, expected(bridge.approximator, z, torch.sign(z), g, routing)[0])


TABLE = {  # who moves whom: (task → z, task → phi, penalty → z, penalty → phi)
    "released": (True, False, False, True),
    "equation": (True, False, True, True),
    "additive": (True, True, True, True),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("routing", ROUTINGS)
def test_who_receives_a_gradient(routing: str, loss: str) -> None:
    torch.manual_seed(0)
    z = torch.randn(7, 4, requires_grad=True)
    hard = dab.hard.Signum()
    bridge = dab.Bridge(hard, dab.approximators.dense(hard, (4,), hidden=(8,)), routing=routing, loss=loss)
    y, penalty = bridge(z)
    leaves = [z, *bridge.parameters()]
    seen: list[bool] = []
    for target in ((y * torch.randn_like(y)).sum(), penalty.mean()):
        into_z, *into_phi = torch.autograd.grad(target, leaves, retain_graph=True, allow_unused=True)
        seen += [into_z is not None and bool(into_z.any()), any(g is not None and bool(g.any()) for g in into_phi)]
    assert tuple(seen) == TABLE[routing]


def test_released_equals_the_code_printed_with_the_paper() -> None:
    """There the hard side of the penalty is not detached, and its pull on z cancels."""
    torch.manual_seed(0)
    net = Curved(4, 4)

    class Printed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z, s):
            ctx.save_for_backward(z)
            return torch.sign(z)

        @staticmethod
        def backward(ctx, grad):
            (z,) = ctx.saved_tensors
            with torch.enable_grad():
                x = z.detach().requires_grad_()
                return torch.autograd.grad(net(x), x, grad)[0], None

    z = torch.randn(7, 4, dtype=torch.double, requires_grad=True)
    g = torch.randn_like(z)
    s = net(z)
    h = Printed.apply(z, s)
    printed = torch.autograd.grad((h * g).sum() + GAMMA * (s - h).square().sum(1).mean(), [z, net.w, net.v])
    y, penalty = dab.Bridge(torch.sign, net, GAMMA)(z)
    ours = torch.autograd.grad((y * g).sum() + penalty.mean(), [z, net.w, net.v])
    for a, b in zip(ours, printed, strict=True):
        close(a, b)


def test_a_perfect_approximator_gives_the_true_gradient() -> None:
    torch.manual_seed(0)
    net = Linear(4, 3)
    z = torch.randn(5, 4, dtype=torch.double, requires_grad=True)
    for routing in ROUTINGS:
        y, penalty = dab.Bridge(lambda x: x @ net.w.T, net, routing=routing)(z)
        (bridged,) = torch.autograd.grad(y.sin().sum() + penalty.mean(), z)
        (true,) = torch.autograd.grad((z @ net.w.T).sin().sum(), z)
        close(bridged, true)
        assert penalty.max() < 1e-25


def reference_loss(name: str, s: Tensor, h: Tensor) -> Tensor:
    """One sample, by torch's own losses where it has them."""
    return {
        "l2": lambda: F.mse_loss(s, h, reduction="sum"),
        "l1": lambda: F.l1_loss(s, h, reduction="sum"),
        "huber": lambda: F.smooth_l1_loss(s, h, reduction="sum"),
        "cosine": lambda: 1 - s @ h / (s.norm() * h.norm()),
        "cross_entropy": lambda: F.cross_entropy(s[None], h.softmax(0)[None]),
    }[name]()


@pytest.mark.parametrize("loss", LOSSES)
def test_each_loss_per_sample_and_its_gradient(loss: str) -> None:
    torch.manual_seed(0)
    z = torch.randn(4, 2, 3, dtype=torch.double)
    hard = dab.hard.Signum(0.1)
    net = dab.approximators.dense(hard, (2, 3), hidden=(5,)).double()
    bridge = dab.Bridge(hard, net, GAMMA, loss=loss)
    s, h = net(z).flatten(1), hard(z).flatten(1)
    _, penalty = bridge(z)
    close(penalty, torch.stack([GAMMA * reference_loss(loss, a, b) for a, b in zip(s, h, strict=True)]))
    names, values = zip(*bridge.named_parameters(), strict=True)

    def of_parameters(*params: Tensor) -> Tensor:
        return torch.func.functional_call(bridge, dict(zip(names, params, strict=True)), (z,))[1]

    assert torch.autograd.gradcheck(of_parameters, values)
