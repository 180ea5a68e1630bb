"""A fitted bridge that is corrected by differences of the hard function."""

from __future__ import annotations

import copy
import io
from statistics import NormalDist

import numpy as np
import pytest
import torch
from exactness import FALSE_ALARM, Z_POWER
from test_fitted import counts, large, recovered, trained
from torch import Tensor, nn

import dab
from dab.approximators import Dense
from dab.corrected import half_difference

# Every coordinate of the mean gradient is z-tested as in exactness.py, here for biases of 5 % of the norm.
COORDINATES = 100  # of all tests in this file
Z_ALARM = NormalDist().inv_cdf(1 - FALSE_ALARM / COORDINATES / 2)
RELATIVE_ERROR = 0.05 / (Z_ALARM + Z_POWER)
POINTS = torch.tensor([[0.3, -0.8], [-0.6, 1.1], [0.9, 0.5]], dtype=torch.double)
ROWS = 12_000  # copies of each point: one draw each, and one forward pass, because the next one would have another s
EDGES, JUMPS = torch.tensor([[-0.7, 0.1, 0.5], [1.0, -0.5, 1.5]], dtype=torch.double)


def hard(z: Tensor) -> Tensor:
    """Parity, a staircase that goes up and down, a curve.  [B, 2] → [B, 3]"""
    stairs = ((z[:, :1] > EDGES) * JUMPS).sum(1)
    return torch.stack([z.sign().prod(1), stairs, z[:, 0].square() * z[:, 1]], 1)


def smoothed(z: Tensor, step: Tensor) -> Tensor:
    """The mean of hard(z + step · noise).  [2], [2] → [3]"""
    parity = (2 * torch.special.ndtr(z / step) - 1).prod()
    stairs = (torch.special.ndtr((z[0] - EDGES) / step[0]) * JUMPS).sum()
    return torch.stack([parity, stairs, (z[0].square() + step[0].square()) * z[1]])


class Observed(dab.CorrectedBridge):
    """Keeps the approximator of the last step as that step saw it: afterwards its outputs are standardised anew."""

    def _imitation(self):
        self.imitation = super()._imitation()
        return self.imitation


def smoothed_imitation(layer: Observed, z: Tensor) -> Tensor:
    """By quadrature.  [2] → [3]"""
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.hermite_e.hermegauss(40))
    grid, weight = torch.cartesian_prod(nodes, nodes), torch.outer(weights, weights).flatten()
    return (weight / weight.sum()) @ layer.imitation(z + layer._step() * grid)


def draws(kind: type[Observed] = Observed, **options) -> tuple[Observed, Tensor, Tensor]:
    """A layer with a poor s, the gradient g that arrived, and many gradients at each point.  [points, ROWS, 2]"""
    torch.manual_seed(0)
    options = {"weight": 1.0, "sigma": 0.7, "pairs": 8, "lr": 0.1, "fits": 5, "past": 17} | options
    net = Dense((2,), (3,), (8,))
    net.net[0].weight.data.mul_(3)  # curved
    layer = kind(hard, net, **options).double()
    z = POINTS.repeat_interleave(ROWS, 0).requires_grad_()
    g = torch.tensor([-0.5, 1.0, -0.7], dtype=torch.double)
    (found,) = torch.autograd.grad(layer(z)[0], z, g.expand(len(z), 3))
    return layer, g, found.reshape(len(POINTS), ROWS, 2)


def worst_z(expected: Tensor, found: Tensor, mutant: bool = False) -> float:
    """The largest |z| of any coordinate and of the projection on the expected gradient."""
    worst = 0.0
    for wanted, rows in zip(expected, found):
        rows = torch.cat([rows, rows @ wanted[:, None] / wanted.norm()], 1)
        error = rows.std(0) / len(rows) ** 0.5
        assert mutant or (error / wanted.norm()).max() < RELATIVE_ERROR  # or the test could not see a bias
        worst = max(worst, ((rows.mean(0) - torch.cat([wanted, wanted.norm()[None]])) / error).abs().max().item())
    return worst


def jacobian_products(function, layer: Observed, g: Tensor) -> Tensor:
    """J'g at each point, for function(layer, z).  [points, 2]"""
    return torch.stack([torch.func.vjp(lambda z: function(layer, z), z)[1](g)[0].detach() for z in POINTS])


def of_smoothed_hard(layer: Observed, g: Tensor) -> Tensor:
    return jacobian_products(lambda layer, z: smoothed(z, layer._step()), layer, g)


def bias_of_here(layer: Observed, g: Tensor) -> Tensor:
    """J_s(z) - mean of J_s(z + e), by quadrature."""
    at_z = jacobian_products(lambda layer, z: layer.imitation(z[None])[0], layer, g)
    return at_z - jacobian_products(smoothed_imitation, layer, g)


@pytest.mark.parametrize("form", ["lax", "linear"])
def test_two_forms_are_unbiased_for_the_smoothed_function(form) -> None:
    layer, g, found = draws(form=form)
    assert worst_z(of_smoothed_hard(layer, g), found) < Z_ALARM
    assert layer.unexplained > 0.1  # s is a poor one


def test_the_default_form_is_biased_by_what_its_docstring_says() -> None:
    layer, g, found = draws(form="here")
    expected, bias = of_smoothed_hard(layer, g), bias_of_here(layer, g)
    assert bias.norm() > 0.1 * expected.norm()
    assert worst_z(expected + bias, found) < Z_ALARM


def test_weights_below_one_mix_both_functions() -> None:
    layer, g, found = draws(form="lax", weight=0.6)
    expected = 0.6 * of_smoothed_hard(layer, g) + 0.4 * jacobian_products(smoothed_imitation, layer, g)
    assert worst_z(expected, found) < Z_ALARM


class ForgottenHalf(Observed):
    def _hard_at(self, around: Tensor) -> Tensor:
        return 2 * super()._hard_at(around)


class OtherSigma(Observed):
    """The deviation by which differences are divided is not the one of the noise."""

    def _hard_at(self, around: Tensor) -> Tensor:
        middle = around.mean(0)
        return super()._hard_at(middle + 0.8 * (around - middle))


@pytest.mark.parametrize("kind", [ForgottenHalf, OtherSigma])
@pytest.mark.parametrize("form", ["lax", "linear"])
def test_a_wrong_scale_is_noticed(kind, form) -> None:
    layer, g, found = draws(kind, form=form)
    assert worst_z(of_smoothed_hard(layer, g), found, mutant=True) > Z_ALARM


@pytest.mark.parametrize("options", [{"form": "here"}, {"form": "lax", "weight": 0.5}, {"form": "lax", "pairs": 0}])
def test_a_biased_form_does_not_pass_for_an_unbiased_one(options) -> None:
    layer, g, found = draws(**options)
    found = found + 1e-9 * torch.randn_like(found)  # without pairs it is the same in every draw
    assert worst_z(of_smoothed_hard(layer, g), found, mutant=True) > Z_ALARM


def test_a_step_at_zero_has_the_slope_of_its_smoothed_form() -> None:
    """Heaviside at 0, noise of variance 0.25: 1 / (0.5 sqrt(2 pi)) = 0.7979."""
    torch.manual_seed(0)
    z = torch.tensor([0.0, 1.0, -1.0]).repeat(20_000)[:, None].double().requires_grad_()
    layer = dab.CorrectedBridge(
        lambda z: (z > 0).to(z.dtype), Dense((1,), (1,), (8,)), weight=1.0, form="lax", sigma=0.5 / (2 / 3) ** 0.5
    ).double()
    layer(z)[0].sum().backward()
    torch.testing.assert_close(z.grad[::3].mean().item(), 0.7979, atol=0.02, rtol=0)


# ---- as a layer


def corrected(**options) -> dab.CorrectedBridge:
    torch.manual_seed(0)
    return dab.CorrectedBridge(counts, Dense((16,), (8,), (32,)), **options)


def test_the_value_is_the_hard_one_and_the_penalty_zero() -> None:
    layer, z = corrected(), torch.randn(5, 16, requires_grad=True)
    for mode in (True, False):
        y, penalty = layer.train(mode)(z)
        assert torch.equal(y, counts(z)) and torch.equal(penalty, torch.zeros(5))


def test_without_pairs_it_is_the_fitted_bridge() -> None:
    torch.manual_seed(0)
    fitted = dab.FittedBridge(counts, Dense((16,), (8,), (32,)), fits=8, past=40)
    (first, _), (second, _) = trained(fitted, 5), trained(corrected(pairs=0), 5)
    assert torch.equal(first.weight, second.weight)
    _, loss = trained(corrected(pairs=1), 5)
    assert loss.isfinite() and not torch.equal(trained(corrected(pairs=1), 5)[0].weight, first.weight)


def test_each_sample_is_corrected_by_its_own_pairs_in_any_shape() -> None:
    """Maps to a number of maps: the backward by hand from the calls that the layer made."""
    calls = []

    def halves(z: Tensor) -> Tensor:  # [B, 2, 4] → [B, 4, 1, 2]
        calls.append(z.clone())
        return z.sign().reshape(-1, 4, 1, 2).cumsum(1)

    torch.manual_seed(0)
    layer = Observed(halves, Dense((2, 4), (4, 1, 2), (8,)), pairs=3, weight=0.5).double()
    z = torch.randn(5, 2, 4, dtype=torch.double, requires_grad=True)
    y, _ = layer(z)
    g = torch.randn_like(y)
    (found,) = torch.autograd.grad(y, z, g)
    rows = calls[-1]
    assert [len(c) for c in calls] == [5, 30, 1, 1, 1, 1, 30]  # the batch, once the trial, the pairs
    (expected,) = torch.autograd.grad(layer.imitation(z), z, g)
    residual = half_difference((halves(rows) - layer.imitation(rows)).unflatten(0, (6, 5)))
    noise = (rows.unflatten(0, (6, 5))[:3] - z) / layer._step()
    inner = (residual * g).flatten(2).sum(2)  # [3, 5]
    expected = expected + 0.5 * (noise / layer._step() * inner[..., None, None]).mean(0)
    torch.testing.assert_close(found, expected.detach())


def test_a_function_of_the_whole_batch_is_called_with_whole_batches() -> None:
    sizes = []

    def above_average(z: Tensor) -> Tensor:
        sizes.append(len(z))
        return (z > z.mean(0)).to(z.dtype)

    layer = dab.CorrectedBridge(above_average, Dense((4,), (4,), (8,)), pairs=2)
    layer(torch.randn(6, 4)), sizes.clear(), layer(torch.randn(6, 4))
    assert sizes == [6] * 5
    assert torch.equal(layer.past_h[30:36], above_average(layer.past_z[30:36]))  # a batch, and each of its pairs
    assert torch.equal(layer.past_h[36:42], above_average(layer.past_z[36:42]))


def test_a_numpy_function_and_a_drawn_one() -> None:
    layer = dab.CorrectedBridge(
        lambda z: torch.from_numpy(np.sort(z.numpy(), 1)[:, ::2].copy()), Dense((4,), (2,), (8,))
    )
    drawn = dab.CorrectedBridge(dab.hard.Bernoulli(), Dense((4,), (4,), (8,)))
    for each in (layer, drawn):
        z = torch.randn(6, 4, requires_grad=True)
        each(z)[0].sum().backward()
        assert z.grad.isfinite().all() and z.grad.abs().sum() > 0


def test_the_weight_is_what_the_approximator_leaves_unexplained() -> None:
    """A function that the approximator can learn needs no correction; one that it cannot, all of it."""
    torch.manual_seed(0)
    matrix = torch.randn(4, 2)
    linear = dab.CorrectedBridge(lambda z: z @ matrix, nn.Linear(4, 2), lr=0.1)
    noise = dab.CorrectedBridge(lambda z: torch.sin(100 * z[:, :2]), nn.Linear(4, 2), lr=0.1)
    for _ in range(60):
        z = torch.randn(64, 4)
        linear(z), noise(z)
    assert linear.unexplained < 0.2 and noise.unexplained > 0.9


def test_without_weight_the_pairs_serve_the_fits_alone() -> None:
    torch.manual_seed(0)
    layer = Observed(counts, Dense((16,), (8,), (32,)), weight=0.0)
    z = torch.randn(5, 16, requires_grad=True)
    (found,) = torch.autograd.grad(layer(z)[0].sum(), z)
    (uncorrected,) = torch.autograd.grad(layer.imitation(z).sum(), z)
    torch.testing.assert_close(found, uncorrected)
    assert layer.seen == 5 * 5 and torch.equal(layer.past_h[:25], counts(layer.past_z[:25]))


def test_a_function_that_is_constant_at_first_leaves_no_trace_in_the_weight() -> None:
    torch.manual_seed(0)
    layer = dab.CorrectedBridge(torch.round, nn.Linear(4, 4), lr=0.1, sigma=2.0)
    for step in range(60):
        layer(torch.randn(64, 4) * (0.1 if step < 10 else 3))
    assert layer.unexplained < 0.5


@pytest.mark.parametrize("pairs", [0, 2])
def test_a_unit_that_never_moves_is_left_in_peace(pairs) -> None:
    layer, z = corrected(weight=1.0, pairs=pairs), torch.randn(64, 16)
    z[:, 3] = 1.5
    z.requires_grad_()
    layer(z)[0].sum().backward()
    size = z.grad.abs().mean(0)
    assert size[3] < 100 * size.median()


def test_it_learns_through_a_function_of_another_shape() -> None:
    torch.manual_seed(0)
    assert recovered(dab.CorrectedBridge(large, Dense((8,), (4,), (32,)))) > 0.7


def test_a_checkpoint_goes_on_bit_for_bit() -> None:
    options = {"fits": 3, "past": 6}
    whole, half, resumed = (corrected(**options) for _ in range(3))
    _, loss = trained(whole, 12)
    first, _ = trained(half, 7)
    file = io.BytesIO()
    torch.save([half.state_dict(), first.state_dict()], file)
    states = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    encoder = nn.Linear(4, 16)
    resumed.load_state_dict(states[0]), encoder.load_state_dict(states[1])
    _, last = trained(resumed, 5, start=7, model=encoder)
    assert torch.equal(loss, last)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_two_calls_before_one_backward_are_two_layers() -> None:
    layer, z = corrected(), torch.randn(5, 16, requires_grad=True)
    twin = copy.deepcopy(layer)
    torch.manual_seed(3)
    (layer(z)[0].sum() + layer(2 * z)[0].sum()).backward()
    torch.manual_seed(3)
    one, other = z.detach().clone().requires_grad_(), z.detach().clone().requires_grad_()
    twin(one)[0].sum().backward(), twin(2 * other)[0].sum().backward()
    torch.testing.assert_close(z.grad, one.grad + other.grad)


def test_evaluation_no_grad_and_a_stripped_copy() -> None:
    layer = corrected()
    layer(torch.randn(5, 16))
    state = copy.deepcopy(layer.state_dict())
    with torch.no_grad():
        layer(torch.randn(5, 16))
    layer.eval()(torch.randn(5, 16))
    assert all(torch.equal(t, state[name]) for name, t in layer.state_dict().items())
    assert dab.strip(layer).state_dict() == {}


@pytest.mark.parametrize(
    "options", [{"pairs": -1}, {"sigma": 0}, {"past": 4}, {"weight": "learned"}, {"weight": -1}, {"form": "laxe"}]
)
def test_senseless_options_are_refused(options) -> None:
    with pytest.raises(ValueError, match="must be"):
        corrected(**options)
