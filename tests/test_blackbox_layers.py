"""Layers for black boxes and solvers: how often they call, what they leave alone, where they run."""

import pytest
import torch
from smoothed import above_mean, one_hot
from torch import Tensor
from torch.func import grad, vmap

from dab.estimators import IMLE, SPSA, Identity, Interpolation, NoHard, Perturbed, Relaxed, Smoothing, StraightThrough
from dab.estimators.traits import Calls, calls_of, hard_forward
from dab.estimators.why_not import why_not
from dab.hard import Binary, Ranks, ShortestPath, Signum, Sort1d, TopK

LAYERS = {
    "smoothing": lambda hard: Smoothing(hard, samples=6),
    "leave one out": lambda hard: Smoothing(hard, samples=3, baseline="leave_one_out", relative=True),
    "centre": lambda hard: Smoothing(hard, samples=2, baseline="centre"),
    "spsa": lambda hard: SPSA(hard, pairs=2),
    "perturbed": lambda hard: Perturbed(hard, samples=5),
    "perturbed, smoothed": lambda hard: Perturbed(hard, samples=5, noise="gumbel", smoothed=True),
    "interpolation": lambda hard: Interpolation(hard, 0.5, relative=True),
    "imle": lambda hard: IMLE(hard, samples=3, noise="gumbel"),
    "imle, smoothed": lambda hard: IMLE(hard, samples=3, smoothed=True),
    "identity": Identity,
}


class Counted:
    """A hard function that knows how many rows it has seen, in how many calls."""

    def __init__(self, row_wise: bool) -> None:
        self.row_wise, self.rows, self.calls = row_wise, 0, 0

    def __call__(self, z: Tensor) -> Tensor:
        self.rows, self.calls = self.rows + len(z), self.calls + 1
        return z.sign()


@pytest.mark.parametrize("row_wise", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_calls_are_counted_exactly_and_made_together(name: str, row_wise: bool) -> None:
    hard = Counted(row_wise)
    layer, z = LAYERS[name](hard), torch.randn(7, 4, requires_grad=True)
    told = calls_of(layer)
    y, _ = layer(z)
    assert hard.rows == 7 * told.forward
    forward = hard.calls
    y.sum().backward()
    assert hard.rows == 7 * sum(told)
    assert forward <= 2 and hard.calls - forward <= 1 if row_wise else hard.calls == sum(told)
    hard.rows = 0
    layer.eval()(z)
    assert hard.rows == 7
    with torch.no_grad():
        layer(z)
    assert hard.rows == 14


def test_what_the_layers_tell() -> None:
    assert calls_of(StraightThrough(Signum())) == Calls(1) and calls_of(NoHard()) == Calls(0)
    assert calls_of(Smoothing(Signum(), samples=4)) == Calls(5) and calls_of(IMLE(Signum(), samples=3)) == Calls(1, 6)
    soft = {name for name, make in LAYERS.items() if not hard_forward(make(Signum()))}
    assert soft == {"perturbed, smoothed", "imle, smoothed"}
    assert hard_forward(StraightThrough(Signum())) and not hard_forward(NoHard())


@pytest.mark.parametrize("name", LAYERS)
def test_the_value_does_not_depend_on_whether_a_gradient_is_wanted(name: str) -> None:
    layer, z, values = LAYERS[name](one_hot), torch.randn(5, 4, requires_grad=True), []
    for wanted in (True, False):
        torch.manual_seed(0)
        with torch.set_grad_enabled(wanted):
            values.append(layer(z)[0].detach())
    assert torch.equal(*values) and torch.equal(values[0], one_hot(z.detach())) == hard_forward(layer)


@pytest.mark.parametrize("name", LAYERS)
def test_the_same_seed_gives_the_same_gradient_and_the_backward_pass_draws_nothing(name: str) -> None:
    """So a resumed run, whose steps are seeded, goes on as it would have."""
    gradients, z = [], torch.randn(5, 4)
    for _ in range(2):
        torch.manual_seed(0)
        given = z.clone().requires_grad_()
        y, _ = LAYERS[name](one_hot)(given)
        before = torch.get_rng_state()
        y.sin().sum().backward()
        assert torch.equal(before, torch.get_rng_state())
        gradients.append(given.grad)
    assert torch.equal(*gradients)


def shifted_by_a_constant(kind: type[Smoothing], baseline: str) -> bool:
    """Whether a constant added to the hard function changes the gradient."""
    gradients = []
    for constant in (0.0, 100.0):
        torch.manual_seed(0)
        z = torch.zeros(50, 3, dtype=torch.double, requires_grad=True)
        kind(lambda t, c=constant: t.sign() + c, 0.5, 4, baseline)(z)[0].sum().backward()
        gradients.append(z.grad)
    return not torch.allclose(*gradients, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("baseline", ["antithetic", "leave_one_out", "centre"])
def test_a_constant_in_the_hard_function_does_not_matter(baseline: str) -> None:
    assert not shifted_by_a_constant(Smoothing, baseline)
    assert shifted_by_a_constant(Smoothing, "none")


def test_sigma_in_standard_deviations_of_z() -> None:
    z = torch.randn(6, 4, 2, dtype=torch.double) * torch.tensor([1.0, 3.0]) + torch.tensor([5.0, -2.0])
    std = z.var(0, correction=0).mean().sqrt().item()
    gradients = []
    for layer in (Smoothing(torch.sign, 0.3, relative=True), Smoothing(torch.sign, 0.3 * std)):
        torch.manual_seed(0)
        given = z.clone().requires_grad_()
        layer(given)[0].sum().backward()
        gradients.append(given.grad)
    torch.testing.assert_close(*gradients)
    one = z[:1].clone().requires_grad_()  # has no deviation: sigma as it is
    Smoothing(torch.sign, 9.0, relative=True)(one)[0].sum().backward()
    assert one.grad.isfinite().all() and one.grad.any()


def total(z: Tensor) -> Tensor:
    return z.flatten(1).sum(1).sign()


def four_of_each(z: Tensor) -> Tensor:
    return z[..., None].repeat(1, 1, 1, 4)


def test_any_output_shape() -> None:
    z = torch.randn(5, 2, 3, requires_grad=True)
    for hard, shape in ((total, (5,)), (four_of_each, (5, 2, 3, 4))):
        for layer in (Smoothing(hard, 2.0), SPSA(hard, 2.0, pairs=4), Perturbed(hard, 2.0)):
            y, penalty = layer(z)
            assert y.shape == shape and torch.equal(y, hard(z.detach())) and penalty.shape == (5,)
            assert torch.autograd.grad(y.sum(), z)[0].any()
    scalar = torch.randn(5, requires_grad=True)  # one unit a sample
    for make in LAYERS.values():
        assert torch.autograd.grad(make(torch.sign)(scalar)[0].sum(), scalar)[0].shape == (5,)


def test_running_means_belong_to_the_data() -> None:
    """They move once, by the batch itself, however often the function is called around it."""
    z = torch.randn(6, 3, requires_grad=True)
    wanted = Binary("batch")
    wanted(z)
    for make in (Smoothing, SPSA, Interpolation, IMLE):
        hard = Binary("batch")
        make(hard)(z)[0].sum().backward()
        assert torch.equal(hard.running_mean, wanted.running_mean)


@pytest.mark.parametrize("name", LAYERS)
def test_compiled_in_one_graph_and_under_vmap(name: str) -> None:
    layer, z = LAYERS[name](one_hot), torch.randn(5, 4, dtype=torch.double)

    def loss(z: Tensor) -> Tensor:
        return layer(z)[0].sin().sum()

    torch.compiler.reset()
    found = []
    for function in (torch.compile(loss, backend="aot_eager", fullgraph=True), loss, grad(loss)):
        torch.manual_seed(0)
        given = z.clone().requires_grad_()
        found.append(function(given) if len(found) == 2 else torch.autograd.grad(function(given), given)[0])
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[2], found[1])
    each = vmap(grad(lambda row: loss(row[None])), randomness="different")(z)
    assert each.shape == z.shape and each.isfinite().all()
    if name in ("interpolation", "identity"):
        torch.testing.assert_close(each, found[1])


@pytest.mark.parametrize("name", LAYERS)
def test_half_precision(name: str) -> None:
    z = torch.randn(5, 4).bfloat16().requires_grad_()
    with torch.autocast("cpu"):
        y, penalty = LAYERS[name](torch.sign)(z)
    y.float().sum().backward()
    assert y.dtype == z.grad.dtype == torch.bfloat16 and penalty.dtype == torch.float32


def test_why_not() -> None:
    for kind in (Interpolation, IMLE, Identity):
        assert "keeps the shape, but TopK turns [5] into [2]" in str(why_not(kind, TopK(2), (5,)))
        assert why_not(kind, Signum(), (5,)) is None
        with pytest.raises(ValueError, match=r"turns \[2, 6\] into \[2, 3\].*Smoothing"):
            kind(TopK(3))(torch.randn(2, 6))
    for kind in (Smoothing, SPSA, Perturbed):
        assert why_not(kind, TopK(2), (5,)) is None
    assert "knows the soft form of" in str(why_not(Relaxed, ShortestPath))
    assert why_not(Relaxed, Ranks()) is None and why_not(Relaxed, Sort1d) is None


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Smoothing(torch.sign, sigma=0.0), "sigma must be a number > 0"),
        (lambda: Smoothing(torch.sign, samples=3), "samples must be even and >= 2 with baseline=antithetic, given 3"),
        (lambda: Smoothing(torch.sign, samples=1, baseline="leave_one_out"), "samples must be >= 2"),
        (lambda: Smoothing(torch.sign, baseline="mean"), "antithetic, leave_one_out, centre, none"),
        (lambda: Perturbed(torch.sign, noise="cauchy"), "noise must be one of gaussian, gumbel"),
        (lambda: Perturbed(torch.sign, baseline="antithetic"), "baseline must be one of leave_one_out, none"),
        (lambda: IMLE(torch.sign, samples=0), "samples must be a whole number"),
        (lambda: Interpolation(torch.sign, -1.0), "strength must be a number > 0"),
        (lambda: Identity(torch.sign, "unit"), "none, mean, norm, both"),
        (lambda: Relaxed(ShortestPath()), "knows the form of"),
    ],
)
def test_mistakes_are_told(make, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


@pytest.mark.parametrize("smooth", [False, True])
def test_relaxed_has_the_gradient_of_the_soft_form(smooth: bool) -> None:
    """Two units: the rank of the first is a sigmoid of their difference over the temperature."""
    layer = Relaxed(Ranks(), temperature=0.5, smoothed=smooth)
    z = torch.tensor([[0.3, 0.1]], dtype=torch.double, requires_grad=True)
    y, _ = layer(z)
    soft = torch.sigmoid((z[0, 0] - z[0, 1]) / 0.5)
    assert y[0, 0].item() == pytest.approx(soft.item() if smooth else 1.0)
    wanted = torch.autograd.grad(soft, z)[0]
    torch.testing.assert_close(torch.autograd.grad(y[0, 0], z)[0], wanted)
    assert torch.equal(layer.eval()(z)[0], Ranks()(z))


def test_clipped_straight_through() -> None:
    z = torch.tensor([[-1.5, -0.5, 0.0, 0.9, 1.1]], requires_grad=True)
    y, _ = StraightThrough(Signum(), "clipped")(z)
    assert torch.equal(y, Signum()(z))
    y.sum().backward()
    assert z.grad.tolist() == [[0, 1, 1, 1, 0]]


def test_rows_that_see_each_other_pass_gradients_to_each_other() -> None:
    z = torch.randn(4, 3, requires_grad=True)
    only_the_first = torch.zeros(4, 3).index_fill(0, torch.tensor([0]), 1.0)
    g = torch.autograd.grad((Smoothing(above_mean, 1.0, 200)(z)[0] * only_the_first).sum(), z)[0]
    assert g[1:].any()  # the others move the mean that the first is compared with
