"""Estimators for discrete latents: what a caller may rely on, and what their control variates are worth."""

import copy
import inspect
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from exactness import PROBLEMS, log_q
from torch import Tensor, nn

import dab
from dab.estimators.disarm import Arm, Disarm
from dab.estimators.discrete import Binary, Categorical
from dab.estimators.gumbel import Gumbel
from dab.estimators.gumbel_rao import GumbelRao
from dab.estimators.lift import Lift
from dab.estimators.objective import ObjectiveEstimator
from dab.estimators.rebar import Rebar
from dab.estimators.reinmax import ReinMax
from dab.estimators.relax import Relax
from dab.estimators.score_function import ScoreFunction
from dab.hard import Bernoulli, Sort1d

OBJECTIVE_ESTIMATORS = [ScoreFunction(1), ScoreFunction(3), Rebar(), Relax((8,), (4,)), Arm(), Disarm()]


@pytest.mark.parametrize("estimator", OBJECTIVE_ESTIMATORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("size", [8.0, 30.0, 1e4])
def test_finite_at_large_logits_in_float32(estimator: nn.Module, size: float) -> None:
    logits = (size * torch.tensor([[-1.0, -0.1, 0.1, 1.0]])).expand(512, 4).contiguous().requires_grad_()
    loss, logs = estimator(logits, lambda b: log_q(b, logits) + (b - 0.3).square().sum(1))
    wanted = [logits, *estimator.parameters()]
    gradients = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)
    assert all(g.isfinite().all() for g in [loss, *gradients, *logs.values()])


@pytest.mark.parametrize("estimator", OBJECTIVE_ESTIMATORS, ids=lambda e: type(e).__name__)
def test_the_loss_is_the_objective_at_hard_samples(estimator: nn.Module) -> None:
    logits, seen = torch.randn(5, 4, requires_grad=True), []

    def objective(b: Tensor) -> Tensor:
        value = (b * torch.arange(1.0, 5)).sum(1)
        seen.extend([value.detach()] if ((b == 0) | (b == 1)).all() else [])
        return value

    loss, _ = estimator(logits, objective)
    torch.testing.assert_close(loss.detach(), torch.stack(seen).mean(), rtol=1e-6, atol=0)
    with torch.no_grad():
        value, _ = estimator(logits, objective)
    assert not value.requires_grad and value == seen[-1].mean()


CALLS = [(ScoreFunction(3), 3), (Rebar(), 3), (Relax((8,), (4,)), 3), (Relax((8,), (4,), eta=None), 1), (Disarm(), 2)]


@pytest.mark.parametrize(("estimator", "calls"), CALLS, ids=lambda part: type(part).__name__)
def test_half_precision_and_graphs_from_outside(estimator: nn.Module, calls: int) -> None:
    """Logits may be bfloat16, and every call of the objective may use one graph that was built before."""
    encoder = nn.Linear(3, 4).bfloat16()
    logits, seen = encoder(torch.randn(6, 3, dtype=torch.bfloat16)), []
    outside = logits.float().square().sum(1).exp()  # [B], its backward needs what it saved

    def objective(b: Tensor) -> Tensor:
        seen.append(b.dtype)
        return outside + b.float().sum(1) * outside

    loss, _ = estimator(logits, objective)
    loss.backward()
    assert seen == [torch.bfloat16] * calls and loss.dtype == torch.float32
    assert encoder.weight.grad.isfinite().all() and encoder.weight.grad.abs().sum() > 0


def lifted_layers() -> dict[str, nn.Module]:
    layers = {
        "Bridge": dab.Bridge(Bernoulli(), in_shape=(4,)),
        "StraightThrough": dab.StraightThrough(Bernoulli()),
        "TrueGradient": dab.TrueGradient(Sort1d()),
        "NoHard": dab.NoHard(),
        "Gumbel": Gumbel(),
        "straight-through Gumbel": Gumbel(straight_through=True),
        "GumbelRao": GumbelRao(3),
        "ReinMax": ReinMax(),
    }
    return {name: Lift(layer) for name, layer in layers.items()}


EVERY = lifted_layers() | {
    "ScoreFunction": ScoreFunction(2),
    "Arm": Arm(),
    "Disarm": Disarm(),
    "Rebar": Rebar(),
    "Rebar, not learned": Rebar(learn=False),
    "Relax": Relax((8,), (4,)),
    "Relax, network alone": Relax((8,), (4,), eta=None),
}


class Step(nn.Module):
    """An encoder, an estimator and a decoder."""

    def __init__(self, estimator: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder, self.estimator = nn.Linear(3, 4), nn.Linear(4, 3), estimator
        for p in estimator.parameters():  # where they start nothing of the network would be seen
            p.data.add_(0.1 * torch.randn_like(p))

    def forward(self, x: Tensor) -> Tensor:
        return self.estimator(self.encoder(x), lambda b: (self.decoder(b) - x).square().sum(1))[0]

    def trained(self) -> dict[str, Tensor]:
        return {name: p for name, p in self.named_parameters() if p.requires_grad}


def step_gradients(step: nn.Module, call: Callable[[Tensor], Tensor], x: Tensor) -> dict[str, Tensor]:
    trained = step.trained()
    torch.manual_seed(0)
    gradients = torch.autograd.grad(call(x), list(trained.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(trained, gradients))


@pytest.mark.parametrize("name", EVERY)
def test_every_estimator_compiles_in_one_graph(name: str) -> None:
    torch.compiler.reset()
    step, x = Step(copy.deepcopy(EVERY[name])), torch.randn(16, 3)
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)  # which draws as eager code does
    torch.testing.assert_close(step_gradients(step, compiled, x), step_gradients(step, step, x))


def test_an_objective_that_breaks_the_graph_compiles_in_pieces() -> None:
    step, x = Step(Rebar()), torch.randn(16, 3)
    step.decoder.register_forward_hook(lambda *_: torch._dynamo.graph_break())
    compiled = torch.compile(step, backend="aot_eager")
    torch.testing.assert_close(step_gradients(step, compiled, x), step_gradients(step, step, x))


@pytest.mark.parametrize("name", EVERY)
def test_every_estimator_works_under_torch_func(name: str) -> None:
    step, x = Step(copy.deepcopy(EVERY[name])), torch.randn(16, 3)
    plain = step_gradients(step, step, x)
    before = list(step.parameters())
    parameters = {name: p.detach() for name, p in step.trained().items()}

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(step, parameters, (x,))

    torch.manual_seed(0)
    torch.testing.assert_close(torch.func.grad(loss)(parameters, x), plain)
    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0), randomness="different")(parameters, x[:, None])
    assert all(g.shape == (16, *plain[name].shape) and g.isfinite().all() for name, g in each.items())
    assert all(p is q for p, q in zip(step.parameters(), before, strict=True))  # all were put back


@pytest.mark.parametrize("estimator", OBJECTIVE_ESTIMATORS, ids=lambda e: type(e).__name__)
def test_an_objective_that_changes_its_sample_changes_nothing_else(estimator: nn.Module) -> None:
    """The sample is the objective's own: a copy, so that writing into it does not bias the estimate."""
    estimator, weight = copy.deepcopy(estimator), torch.arange(1.0, 5)

    def gradients(objective: Callable[[Tensor], Tensor]) -> list[Tensor]:
        torch.manual_seed(0)
        logits = torch.linspace(-2, 2, 24).view(6, 4).requires_grad_()
        wanted = [logits, *estimator.parameters()]
        return list(
            torch.autograd.grad(estimator(logits, objective)[0], wanted, allow_unused=True, materialize_grads=True)
        )

    pure = gradients(lambda b: ((b - 0.3) * weight).square().sum(1))
    writing = gradients(lambda b: b.sub_(0.3).mul_(weight).square().sum(1))
    assert pure[0].any()
    torch.testing.assert_close(writing, pure, rtol=0, atol=0)


@pytest.mark.parametrize("estimator", OBJECTIVE_ESTIMATORS, ids=lambda e: type(e).__name__)
def test_an_empty_batch_teaches_nothing(estimator: nn.Module) -> None:
    logits = torch.randn(0, 4, requires_grad=True)
    each, _ = estimator.each(logits, lambda b: b.sum(1))
    wanted = [logits, *estimator.parameters()]
    gradients = torch.autograd.grad(each.sum(), wanted, allow_unused=True, materialize_grads=True)
    assert each.shape == (0,) and not any(g.any() for g in gradients)


@pytest.mark.parametrize("categorical", [False, True])
def test_the_estimators_that_draw_pass_nan_on(categorical: bool) -> None:
    z = torch.zeros(5, 3, 4)
    z[0, 1, 2] = torch.nan
    for layer in (Gumbel(1.0, True, categorical), GumbelRao(2, categorical=categorical), ReinMax(1.0, categorical)):
        for training in (True, False):
            y, _ = layer.train(training)(z)
            assert y[0, 1, 2].isnan() and not y[1:].isnan().any() and not y[0, 0].isnan().any()
    for estimator in (ScoreFunction(1, categorical), Rebar(categorical=categorical)):
        loss, _ = estimator(z, lambda b: b.flatten(1).sum(1))
        assert loss.isnan()
    assert categorical or Disarm()(z, lambda b: b.flatten(1).sum(1))[0].isnan()


def test_bfloat16_control_variates_stay_float32() -> None:
    estimator = Relax((8,), (4,)).bfloat16()
    logits = torch.randn(6, 4, dtype=torch.bfloat16, requires_grad=True)
    estimator(logits, lambda b: b.float().sum(1))[0].backward()
    assert {p.dtype for p in estimator.parameters()} == {torch.float32} and logits.grad is not None


HARD_LAYERS = [lambda c: Gumbel(0.7, True, c), lambda c: ReinMax(1.2, c), lambda c: GumbelRao(4, 0.7, c)]


@pytest.mark.parametrize("make", HARD_LAYERS, ids=["straight-through Gumbel", "ReinMax", "Gumbel-Rao"])
@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_layers_are_hard_bit_for_bit_and_finite(
    make: Callable[[bool], nn.Module], categorical: bool, dtype: torch.dtype
) -> None:
    z = (torch.randn(64, 3, 5) * torch.tensor([1.0, 10.0, 1e4])[:, None]).to(dtype).requires_grad_()
    layer = make(categorical)
    y, penalty = layer(z)
    assert y.dtype == dtype and ((y == 0) | (y == 1)).all() and torch.equal(penalty, torch.zeros(64))
    assert not categorical or (y.sum(-1) == 1).all()
    (gradient,) = torch.autograd.grad((y * torch.randn_like(y)).sum(), z)
    assert gradient.isfinite().all() and gradient.abs().sum() > 0
    y, _ = layer.eval()(z)
    assert ((y == 0) | (y == 1)).all() and not y.requires_grad


def test_soft_gumbel_is_soft_in_training_and_hard_in_evaluation() -> None:
    layer, z = Gumbel(1.0), torch.randn(64, 5)
    assert ((layer(z)[0] > 0) & (layer(z)[0] < 1)).all()
    hard = layer.eval()(z)[0]
    assert ((hard == 0) | (hard == 1)).all()


@pytest.mark.parametrize("family", [Binary(), Categorical()], ids=["binary", "categorical"])
def test_a_conditional_sample_has_the_state_and_the_law_it_should(family: Binary | Categorical) -> None:
    """It relaxes to the given state, and over random states it is distributed like an unconditional one."""
    torch.manual_seed(0)
    logits = torch.tensor([[-8.0, 0.5, 1.0]], dtype=torch.double).expand(100_000, 3)
    z = family.perturbed(logits)
    again = family.conditional(logits, family.hard(z))
    assert torch.equal(family.hard(again), family.hard(z))
    quantiles = torch.linspace(0.05, 0.95, 10, dtype=torch.double)
    torch.testing.assert_close(again.quantile(quantiles, 0), z.quantile(quantiles, 0), rtol=0, atol=0.06)


def test_gumbel_temperature_moves_exponentially() -> None:
    layer = Gumbel(2.0, temperature_end=0.5)
    seen = []
    for fraction in (0.0, 0.5, 1.0, 7.0):
        layer.set_progress(fraction)
        seen.append(layer.temperature.item())
    assert seen == pytest.approx([2.0, 1.0, 0.5, 0.5])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Rebar(temperature=0.0), "temperature must be a number > 0, given 0.0"),
        (lambda: ScoreFunction(samples=0), "samples must be a whole number"),
        (lambda: Relax((8,)), "give in_shape too"),
        (lambda: Arm()(torch.zeros(3), lambda b: b), r"must be a floating-point tensor \[B, D\]"),
        (lambda: ReinMax(categorical=True)(torch.zeros(3, 4)), r"must be a floating-point tensor \[B, G, K\]"),
        (
            lambda: Arm()(torch.zeros(3, 2), lambda b: b.sum()),
            r"returned \[\], but must return one number a sample, \[3\]",
        ),
    ],
)
def test_errors_say_what_to_do(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong()


@pytest.mark.parametrize("kind", [*(type(e) for e in OBJECTIVE_ESTIMATORS[1:]), Lift, Gumbel, GumbelRao, ReinMax])
def test_the_example_in_the_docstring_runs(kind: type) -> None:
    names = {"encoder": nn.Linear(9, 200), "decoder": nn.Linear(200, 9), "x": torch.rand(4, 9), "F": F}
    exec((inspect.getdoc(kind) or "").split("\n\n")[1], names | vars(dab.estimators) | {"Bernoulli": Bernoulli})
    assert names["encoder"].weight.grad.abs().sum() > 0


# Variance


def toy(b: Tensor) -> Tensor:
    return (b - 0.45).square().sum(1)


def variance(estimator: ObjectiveEstimator, logit: float) -> float:
    """Of the gradient of one sample of the toy."""
    logits = torch.full((20_000, 1), logit, requires_grad=True)
    (gradient,) = torch.autograd.grad(estimator(logits, toy)[0], logits)
    return (20_000 * gradient).var().item()


def trained(estimator: ObjectiveEstimator, logit: float, lr: float, steps: int) -> ObjectiveEstimator:
    """The control variate fitted at a fixed logit."""
    optimizer = torch.optim.Adam(estimator.control_parameters(), lr)
    for _ in range(steps):
        logits = torch.full((64, 1), logit, requires_grad=True)
        optimizer.zero_grad()
        estimator(logits, toy)[0].backward()
        optimizer.step()
    return estimator


@pytest.mark.parametrize("logit", [0.0, -1.5])
def test_learned_control_variates_lower_the_variance_of_the_toy(logit: float) -> None:
    """REBAR by a quarter: its relaxed cost resembles this cost little. RELAX by two orders of magnitude."""
    torch.manual_seed(0)
    plain = variance(ScoreFunction(1), logit)
    assert variance(trained(Rebar(2.0), logit, 0.1, 600), logit) < 0.75 * plain
    assert variance(trained(Relax((16,), (1,)), logit, 0.02, 300), logit) < 0.01 * plain


def test_rebar_and_relax_lower_the_variance_through_a_decoder() -> None:
    """Where the relaxation does resemble the cost, REBAR helps as it is."""
    torch.manual_seed(0)
    problem = PROBLEMS["network"]
    units = len(problem.logits)

    def total(estimator: ObjectiveEstimator) -> float:
        return problem.draw(estimator, 20_000)[:, :units].var(0).sum().item()

    plain = total(ScoreFunction(1))
    assert total(Rebar(0.5)) < 0.4 * plain
    assert total(Relax((8,), (units,), 0.5).double()) < 0.4 * plain
    assert total(Disarm()) < total(Arm())


def test_gumbel_rao_lowers_the_variance_of_straight_through_gumbel_at_the_same_mean() -> None:
    torch.manual_seed(0)
    logits = torch.tensor([-1.0, 0.5], dtype=torch.double).expand(40_000, 2).contiguous().requires_grad_()

    def gradients(layer: nn.Module) -> Tensor:
        return torch.autograd.grad(((layer(logits)[0] - 0.3) ** 3).sum(), logits)[0]

    plain, averaged = gradients(Gumbel(0.5, straight_through=True)), gradients(GumbelRao(20, 0.5))
    torch.testing.assert_close(averaged.mean(0), plain.mean(0), rtol=0.05, atol=0.005)
    assert (averaged.var(0) < plain.var(0)).all()
