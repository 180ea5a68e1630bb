"""A bridge that fits its approximator itself."""

from __future__ import annotations

import copy
import io
import os
import signal
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

import dab
from dab.approximators import Dense
from dab.engine.build import build, parameter_groups
from dab.engine.distributed import Workers
from dab.engine.launch import launch
from dab.engine.loop import Loop
from dab.engine.run import Run


def counts(z: Tensor) -> Tensor:
    """A histogram: black box, another shape, unbounded."""
    edges = torch.linspace(-2, 2, 9).tolist()
    return torch.stack([((z > a) & (z <= b)).to(z.dtype).sum(1) for a, b in pairwise(edges)], 1)


def bridge(**options) -> dab.FittedBridge:
    torch.manual_seed(0)
    return dab.FittedBridge(counts, Dense((16,), (8,), (32,)), **options)


def trained(layer: nn.Module, steps: int, start: int = 0, model: nn.Module | None = None) -> tuple[nn.Module, Tensor]:
    """An encoder trained through the layer for some steps, and its last loss."""
    torch.manual_seed(1)
    model = nn.Linear(4, 16) if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for step in range(start, start + steps):
        torch.manual_seed(step)
        x = torch.randn(32, 4)
        y, penalty = layer(model(x))
        loss = (y - counts(3 * torch.cat([x] * 4, 1))).square().mean() + penalty.mean()
        optimizer.zero_grad(), loss.backward(), optimizer.step()
    return model, loss.detach()


def test_the_value_is_the_hard_one_and_the_penalty_zero() -> None:
    layer, z = bridge(), torch.randn(5, 16, requires_grad=True)
    for mode in (True, False):
        y, penalty = layer.train(mode)(z)
        assert torch.equal(y, counts(z)) and torch.equal(penalty, torch.zeros(5))


def test_the_gradient_is_that_of_the_standardised_approximator() -> None:
    layer = bridge(lr=1e-2).double()
    z = torch.randn(6, 16, dtype=torch.float64, requires_grad=True)
    y, _ = layer(z)
    g = torch.randn_like(y)
    (found,) = torch.autograd.grad(y, z, g)
    std_z, std_h = layer._std("z"), layer._std("h")
    soft = layer.approximator((z - layer.mean_z) / std_z) * std_h + layer.mean_h
    (expected,) = torch.autograd.grad(soft, z, g)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(layer.mean_z, z.mean(0).detach())
    torch.testing.assert_close(std_z, z.detach().std(0, correction=0))


def large(z: Tensor) -> Tensor:
    return 100 + 100 * torch.sign(z[:, :4] + z[:, 4:])


def recovered(layer: nn.Module, steps: int = 100) -> float:
    """Share of a hidden teacher's outputs that an encoder before the layer explains."""
    torch.manual_seed(2)
    teacher, model = nn.Linear(4, 8), nn.Linear(4, 8)
    parameters = [p for p in [*model.parameters(), *layer.parameters()] if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=1e-2)
    for _ in range(steps):
        x = torch.randn(64, 4)
        target = large(teacher(x))
        y, penalty = layer(model(x))
        error = (y - target).square().mean()
        optimizer.zero_grad(), (error + penalty.mean()).backward(), optimizer.step()
    return 1 - error.item() / (target - target.mean(0)).square().mean().item()


def test_it_learns_where_the_printed_bridge_does_not() -> None:
    """Large outputs of another shape: with the printed bridge the encoder ends worse than a constant."""
    torch.manual_seed(0)
    assert recovered(dab.Bridge(large, Dense((8,), (4,), (32,)))) < 0
    torch.manual_seed(0)
    layer = dab.FittedBridge(large, Dense((8,), (4,), (32,)))
    assert recovered(layer) > 0.7
    assert layer.misfit < 0.4  # of the variance of the outputs


def test_nothing_is_left_for_another_optimizer() -> None:
    layer = bridge()
    assert not [p for p in layer.parameters() if p.requires_grad]
    before = copy.deepcopy(layer.approximator.state_dict())
    layer(torch.randn(5, 16))
    assert any(not torch.equal(before[name], p) for name, p in layer.approximator.state_dict().items())


def test_a_checkpoint_goes_on_bit_for_bit() -> None:
    options = {"fits": 3, "past": 2, "perturbed": 1}
    whole = bridge(**options)
    _, loss = trained(whole, 12)
    half = bridge(**options)
    first, _ = trained(half, 7)
    file = io.BytesIO()
    torch.save([half.state_dict(), first.state_dict()], file)
    states = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    resumed, encoder = bridge(**options), nn.Linear(4, 16)
    resumed.load_state_dict(states[0]), encoder.load_state_dict(states[1])
    encoder, last = trained(resumed, 5, start=7, model=encoder)
    assert torch.equal(loss, last)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_two_calls_before_one_backward_and_no_random_number_used_up() -> None:
    layer, z = bridge(), torch.randn(5, 16, requires_grad=True)
    torch.manual_seed(3)
    (layer(z)[0].sum() + layer(2 * z)[0].sum()).backward()
    drawn = torch.rand(())
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(())) and z.grad.abs().sum() > 0


def test_past_pairs_are_the_last_ones() -> None:
    layer = bridge(past=2)
    batches = [torch.randn(4, 16) for _ in range(5)]
    for z in batches:
        layer(z)
    assert torch.equal(layer.past_z.sort(0).values, torch.cat(batches[-2:]).sort(0).values)
    assert torch.equal(layer.past_h, counts(layer.past_z))


def test_evaluation_and_a_stripped_copy_keep_nothing() -> None:
    layer = bridge()
    layer(torch.randn(5, 16))
    state = copy.deepcopy(layer.state_dict())
    layer.eval()(torch.randn(5, 16))
    assert all(torch.equal(t, state[name]) for name, t in layer.state_dict().items())
    assert dab.strip(layer).state_dict() == {}


@pytest.mark.parametrize("options", [{"fits": 0}, {"lr": 0}, {"momentum": 2}, {"past": 0}, {"spread": 0}])
def test_senseless_options_are_refused(options) -> None:
    with pytest.raises(ValueError, match="must be"):
        bridge(**options)
    with pytest.raises(ValueError, match="give the approximator the output shape"):
        dab.FittedBridge(counts, Dense((16,), (1,)))(torch.randn(4, 16))
    with pytest.raises(ValueError, match="no parameter to train"):
        dab.FittedBridge(counts, Dense((16,), (8,)).requires_grad_(False))


@pytest.mark.parametrize("estimator", ["fitted", "corrected"])
def test_the_engine_trains_it_and_resumes_exactly(estimator, config, tmp_path) -> None:
    """Through the engine: not in the model's optimizer, and an interrupted run ends where a whole one does."""
    common = [
        f"estimator={estimator}",
        "data.valid_size=64",
        "data.test_size=64",
        "trainer.steps=10",
        "trainer.save_every=5",
        "trainer.eval_every=5",
    ]
    made = config(*common)
    job = build(made, Workers())
    (group,) = parameter_groups(made, job.task)
    fitted = {id(p) for p in job.task.model.estimator.parameters()}
    assert fitted and not fitted & {id(p) for p in group["params"]}
    assert launch(made) == 0
    cut = config(*common, f"paths.runs={tmp_path}/cut")
    stop_after(cut, 6)
    assert launch(cut) == 0
    results = [Run(c).result for c in (made, cut)]
    assert results[0]["metrics"] == results[1]["metrics"]


def stop_after(config: dict, steps: int) -> None:
    """Train the run until it is asked to stop after some steps."""
    original = Loop._train_step

    def step(self, forward) -> None:
        original(self, forward)
        if self.step == steps:
            os.kill(os.getpid(), signal.SIGTERM)

    Loop._train_step = step  # type: ignore[method-assign]
    try:
        assert launch(config) == 128 + signal.SIGTERM
    finally:
        Loop._train_step = original  # type: ignore[method-assign]
