"""dab.inline: one tensor in and out, and the gradients of a loss with the penalty in it."""

import inspect

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad

import dab
from dab.estimators import Gumbel, ReinMax

ROUTINGS = ("released", "equation", "additive")


def model_with(routing: str, dtype: torch.dtype = torch.double) -> nn.Sequential:
    """Two bridges, the first one before any layer that is trained."""
    torch.manual_seed(0)
    signum, topk = dab.hard.Signum(), dab.hard.TopK(3)
    first = dab.Bridge(signum, dab.approximators.dense(signum, (4,), (5,)), 3.0, routing)
    second = dab.Bridge(topk, dab.approximators.dense(topk, (6,), (5,)), 2.0, routing, "l1")
    return nn.Sequential(dab.inline(first), nn.Linear(4, 6), dab.inline(second), nn.Linear(3, 2)).to(dtype)


def inputs(count: int = 9) -> Tensor:
    return torch.randn(count, 4, dtype=torch.double)


def explicit_parts(model: nn.Sequential, x: Tensor) -> tuple[Tensor, Tensor]:
    """The task's loss and the penalties of the same model, by hand."""
    y, first = model[0].layer(x)
    y, second = model[2].layer(model[1](y))
    return model[3](y).sin().sum(1).mean(), first.mean() + second.mean()


def explicit_loss(model: nn.Sequential, x: Tensor) -> Tensor:
    return sum(explicit_parts(model, x))


def inline_loss(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).sin().sum(1).mean()


def gradients(loss: Tensor, model: nn.Module) -> list[Tensor]:
    options = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    return list(torch.autograd.grad(loss, list(model.parameters()), **options))


def close(ours: list[Tensor], wanted: list[Tensor]) -> None:
    torch.testing.assert_close(ours, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_gradients_are_those_of_the_explicit_penalty(routing: str) -> None:
    model, x = model_with(routing), inputs()
    wanted = gradients(explicit_loss(model, x), model)
    close(gradients(inline_loss(model, x), model), wanted)
    state = {name: p.detach() for name, p in model.named_parameters()}
    by_func = grad(lambda state: functional_call(model, state, (x,)).sin().sum(1).mean())(state)
    close(list(by_func.values()), wanted)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_gradients_of_the_input(routing: str) -> None:
    model, x = model_with(routing), inputs().requires_grad_()
    (ours,), (wanted,) = (torch.autograd.grad(f(model, x), x) for f in (inline_loss, explicit_loss))
    close([ours], [wanted])


def test_compiled_in_one_graph() -> None:
    model, x = model_with("equation"), inputs()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    close(gradients(inline_loss(compiled, x), model), gradients(explicit_loss(model, x), model))


@pytest.mark.parametrize("scale", [1 / 4, 2.0**16], ids=["accumulation", "loss scaling"])
def test_a_scaled_loss_takes_the_same_weight(scale: float) -> None:
    """What the penalty adds does not depend on what arrives from the loss."""
    model, x = model_with("released"), inputs()
    wanted = gradients(explicit_loss(model, x), model)
    for layer in (model[0], model[2]):
        layer.weight = scale
    close([g / scale for g in gradients(scale * inline_loss(model, x), model)], wanted)


def test_every_backward_brings_the_penalty_once() -> None:
    model, x = model_with("released"), inputs()
    out = model(x).sin().mean(0)
    both = zip(gradients(out[0], model), gradients(out[1], model))
    task, penalty = (gradients(part, model) for part in explicit_parts(model, x))
    close([first + second for first, second in both], [t + 2 * p for t, p in zip(task, penalty)])


def test_nothing_is_added_without_gradients() -> None:
    model, x = model_with("equation"), inputs()
    with torch.no_grad():
        y = model(x)
    assert torch.equal(y, model(x)) and not y.requires_grad
    model.eval().requires_grad_(False)
    assert torch.equal(model(x), y) and not model(x.requires_grad_()).requires_grad


def test_stripped() -> None:
    model, x = model_with("released"), inputs()
    stripped = dab.strip(model)
    assert torch.equal(stripped(x), model.eval()(x))
    assert {name.split(".")[0] for name, _ in stripped.named_parameters()} == {"1", "3"}


def test_autocast_changes_nothing() -> None:
    model, x = model_with("released", torch.float32), torch.randn(9, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, wanted = inline_loss(model, x), explicit_loss(model, x)
    torch.testing.assert_close(gradients(loss, model), gradients(wanted, model))


def test_an_empty_batch_adds_nothing() -> None:
    model = model_with("equation")
    assert not any(g.any() for g in gradients(model(inputs(0)).sum(), model))


def test_a_second_derivative_is_refused() -> None:
    model = model_with("equation")
    first = torch.autograd.grad(inline_loss(model, inputs()), list(model.parameters()), create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        sum(g.square().sum() for g in first).backward()


def test_the_example_in_the_docstring_runs() -> None:
    names = {"hard": dab.hard.Signum(), "x": torch.randn(5, 2), "loss_of": Tensor.sum, "nn": nn, "dab": dab}
    exec((inspect.getdoc(dab.inline) or "").split("\n\n")[1], names)
    assert all(p.grad is not None for p in names["model"].parameters())


@pytest.mark.parametrize("layer", [dab.StraightThrough(torch.sign), dab.NoHard(), Gumbel(), ReinMax()], ids=str)
def test_estimators_without_penalty_go_through_as_they_are(layer: nn.Module) -> None:
    z, g = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    both = []
    for call in (lambda z: layer(z)[0], dab.inline(layer)):
        torch.manual_seed(0)
        y = call(z)
        both.append((y.detach(), *torch.autograd.grad((y * g).sum(), z)))
    torch.testing.assert_close(both[0], both[1], rtol=0, atol=0)
