"""Bounds on log p(x), against enumeration of all latent states; and each known mistake of public code, caught."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
import torch
from torch import nn
from torch.distributions import Bernoulli as TorchBernoulli
from torch.distributions import kl_divergence

import dab.tasks.density as density
from dab import Bridge, NoHard, StraightThrough
from dab.approximators import matched
from dab.estimators import Disarm, Gumbel, Rebar, Relax, ScoreFunction
from dab.estimators.probe import states, statistics_of
from dab.hard import Bernoulli, Signum
from dab.metrics.density import active_units, bernoulli_kl, importance_bounds, log_bernoulli
from dab.models.vae_mlp import VAEMLP
from dab.strip import strip
from dab.tasks.density import DensityTask

LATENTS, SHAPE = 4, (1, 2, 3)


def make(estimator: nn.Module | None = None, layers: int = 1, **task_options) -> tuple[DensityTask, torch.Tensor]:
    """A small model with every switch on and nothing near zero, and three images.  float64"""
    torch.manual_seed(3)
    switches = {"signed": True, "centred": True, "mean_bias": True, "learned_prior": True, "layers": layers}
    model = VAEMLP(estimator or Disarm(), SHAPE, LATENTS, encoder=(5,), decoder=(5,), activation="tanh", **switches)
    x = (torch.rand(3, *SHAPE) < 0.5).double()
    model.double().set_mean(torch.rand(SHAPE).double())
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(0.5 * torch.randn(p.shape)) if p.dim() else None
    return DensityTask(model, **task_options), x


def exact(model: VAEMLP, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """log p(x) and the ELBO by a sum over all states, from torch.distributions alone.  [B], [B]"""
    flat = x.flatten(1)
    all_states = torch.stack(list(states(LATENTS, flat)))  # [S, D]
    q = TorchBernoulli(logits=model.encode(x)).log_prob(all_states[:, None]).sum(-1)  # [S, B]
    if model.above is None:
        log_p = bound = TorchBernoulli(logits=model.prior).log_prob(all_states).sum(-1)  # [S]
    else:
        log_p, bound = exact(model.above, all_states)
    likelihood = TorchBernoulli(logits=model.decode(all_states)[:, None]).log_prob(flat).sum(-1)  # [S, B]
    return (likelihood + log_p[:, None]).logsumexp(0), (q.exp() * (likelihood + bound[:, None] - q)).sum(0)


def check_bounds(draws: int = 20_000, layers: int = 1) -> None:
    """All that must hold of the reported numbers; the false alarms of the z-test are below one in a million."""
    task, x = make(iwae_samples=(1, 4, 1000), layers=layers)
    task.eval()
    log_p, elbo = exact(task.model, x)
    assert (elbo <= log_p).all()
    torch.manual_seed(0)
    many = x.repeat_interleave(draws, 0)
    with torch.no_grad():
        values = {name: v.view(len(x), draws, -1).squeeze(-1) for name, v in task.measure((many,)).items()}
        bounds = task.measure_final((x.repeat(200, 1, 1, 1),), "test")
    error = values["elbo"].std(1) / draws**0.5
    assert ((values["elbo"].mean(1) - elbo) / error).abs().max() < 5.2
    assert torch.allclose(values["elbo"], -(values["reconstruction"] + values["kl"]))
    one, four, most = (bounds[f"iwae_{k}"].view(200, len(x)) for k in (1, 4, 1000))
    assert ((one.mean(0) - elbo) / (one.std(0) / 200**0.5)).abs().max() < 5.2
    assert (four.mean(0) > one.mean(0)).all() and (most.mean(0) > four.mean(0)).all()
    assert ((most.mean(0) - log_p).abs() < 5e-3 + 5.2 * most.std(0) / 200**0.5).all()  # 1,000 samples: nearly tight


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_reported_bounds_agree_with_enumeration(layers: int) -> None:
    check_bounds(layers=layers)


def swapped_axes(b: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """Class probabilities [p..., 1-p...] read as if they were interleaved by latent."""
    both = nn.functional.logsigmoid(torch.cat([logits, -logits], -1)).unflatten(-1, (-1, 2))  # [..., D, 2]
    return (b * both[..., 0] + (1 - b) * both[..., 1]).sum(-1)


def kl_swapped_axes(logits: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
    p = torch.sigmoid(logits)
    entropy = TorchBernoulli(logits=logits).entropy().sum(-1)
    return -entropy - swapped_axes(p, prior)


def kl_wrong_term(logits: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
    q, p = torch.sigmoid(logits), torch.sigmoid(prior)
    return (q * (q / p).log() + (1 - q) * ((1 - q) / p).log()).sum(-1)


def ignores_count(log_weights, counts, at_once=1):
    return {k: importance_bounds(log_weights, [2], at_once)[2] for k in counts}


MUTANTS = {
    "prior axes swapped": ("bernoulli_kl", kl_swapped_axes),
    "log p for log (1 - p)": ("bernoulli_kl", kl_wrong_term),
    "mean for sum": ("bernoulli_kl", lambda q, p: bernoulli_kl(q, p) / LATENTS),
    "number of samples ignored": ("importance_bounds", ignores_count),
    "a scaled log-likelihood": ("log_bernoulli", lambda x, o: 0.9 * log_bernoulli(x, o)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_known_mistakes_of_public_code_are_caught(name: str, monkeypatch) -> None:
    monkeypatch.setattr(density, *MUTANTS[name])
    with pytest.raises(AssertionError):
        check_bounds(draws=5000)


def prior_sums(log_prob) -> torch.Tensor:
    """The mass of every single latent, [D]."""
    logits = torch.tensor([0.3, -2.0, 1.5, 0.0])
    return sum(log_prob(torch.full((4, 1), value), logits.unsqueeze(1)).exp() for value in (0.0, 1.0))


def test_the_prior_of_every_latent_sums_to_one() -> None:
    assert torch.allclose(prior_sums(log_bernoulli), torch.ones(4))
    logits, every = torch.randn(4), torch.stack(list(states(4, torch.zeros(1))))
    assert log_bernoulli(every, logits).exp().sum() == pytest.approx(1)
    assert swapped_axes(every, logits).exp().sum() != pytest.approx(1, abs=1e-2)


def test_kl() -> None:
    q, p = 4 * torch.randn(50, 7), torch.randn(7)
    assert torch.equal(bernoulli_kl(p.expand(3, 7), p), torch.zeros(3))
    expected = kl_divergence(TorchBernoulli(logits=q), TorchBernoulli(logits=p.expand_as(q))).sum(1)
    assert torch.allclose(bernoulli_kl(q, p), expected, atol=1e-5)
    assert bernoulli_kl(torch.tensor([[80.0, -80.0]]), torch.zeros(2)).item() == pytest.approx(2 * 0.693147, rel=1e-5)


def test_more_samples_never_lower_the_expected_bound() -> None:
    """Exactly: the expectation over all K-tuples of the 2^D states, for K = 1 to 4."""
    torch.manual_seed(0)
    log_joint, log_q = -5 * torch.rand(4).double(), torch.randn(4).double().log_softmax(0)
    log_w, expected = log_joint - log_q, []
    for count in range(1, 5):
        tuples = torch.tensor(list(product(range(4), repeat=count))).T  # [K, 4^K]
        rows = iter(log_w[tuples])
        bound = importance_bounds(lambda k, rows=rows: torch.stack([next(rows) for _ in range(k)]), [count], 3)[count]
        expected.append((log_q[tuples].sum(0).exp() * bound).sum())
    assert all(a < b for a, b in pairwise(expected))
    assert expected[-1] < log_joint.logsumexp(0)
    assert expected[0] == pytest.approx(float((log_q.exp() * log_w).sum()))


UNBIASED = {"disarm": Disarm, "score_function": ScoreFunction, "rebar": Rebar}
UNBIASED["relax"] = lambda: Relax(control=(3,), in_shape=(LATENTS,))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", UNBIASED)
def test_the_training_gradient_is_that_of_the_exact_bound(name: str, layers: int) -> None:
    """For every parameter of encoders, decoders and prior, through an unbiased estimator; one false alarm in 10^5."""
    task, x = make(UNBIASED[name](), layers=layers)
    model = task.model
    parameters = [p for part, p in model.named_parameters() if "estimator" not in part]
    assert len(parameters) == 8 * layers + 1
    wanted = torch.cat([g.flatten() for g in torch.autograd.grad(-exact(model, x)[1].mean(), parameters)])
    many, draws = x.repeat(100, 1, 1, 1), []
    torch.manual_seed(1)
    for _ in range(200):
        gradients = torch.autograd.grad(task((many,))[0], parameters)
        draws.append(torch.cat([g.flatten() for g in gradients]))
    found = torch.stack(draws)
    report = statistics_of(found, wanted)
    assert report.z.abs().max() < 5.8 and report.cosine > 0.99


def test_every_layer_of_latents_has_its_own_estimator() -> None:
    task, x = make(Rebar(), layers=2)
    task((x,))[0].backward()
    lower, upper = task.model.estimator, task.model.above.estimator
    assert lower is not upper and lower.eta.grad != 0 and upper.eta.grad != 0
    assert task.model.samples(7).shape == (7, *SHAPE)
    stripped = strip(task.model)
    assert not any("estimator" in name for name, _ in stripped.named_parameters())
    with pytest.raises(ValueError, match="layers=1"):
        make(Bridge(Bernoulli(), matched(Bernoulli(), (LATENTS,))), layers=2, kl="bridge")


def test_a_penalty_above_is_not_in_the_task_loss() -> None:
    """With the penalties weighed a thousandfold the same draws give the same task loss, and another gradient."""
    found = []
    for gamma in (1.0, 1000.0):
        task, x = make(Bridge(Bernoulli(), matched(Bernoulli(), (LATENTS,)), gamma=gamma), layers=2)
        torch.manual_seed(0)
        loss, logs = task((x,))
        loss.backward()
        found.append((logs["task_loss"].item(), task.model.above.estimator.layer.approximator.log_slope.grad.item()))
    assert found[0][0] == pytest.approx(found[1][0]) and found[1][1] == pytest.approx(1000 * found[0][1], rel=1e-3)


def test_layers_above_draw_the_same_for_every_call_of_one_cost() -> None:
    task, x = make(Disarm(), layers=2)
    b = (torch.rand(3, LATENTS) < 0.5).double()
    of, other = density.cost(task.model, x), density.cost(task.model, x)
    assert torch.equal(of(b), of(b)) and not torch.equal(of(b), other(b))


def test_rebar_below_another_layer_still_lowers_the_variance() -> None:
    variances = {}
    for name in ("score_function", "rebar"):
        task, x = make(UNBIASED[name](), layers=2)
        many, draws = x.repeat(100, 1, 1, 1), []
        torch.manual_seed(1)
        for _ in range(60):
            draws.append(torch.autograd.grad(task((many,))[0], task.model.encoder[0].weight)[0].flatten())
        variances[name] = torch.stack(draws).var(0).sum()
    assert variances["rebar"] < variances["score_function"]


def test_the_kl_is_warmed_up_in_the_loss_and_nowhere_else() -> None:
    task, x = make(kl_warmup=0.5)
    weights = []
    for fraction in (0.0, 0.25, 0.5, 1.0):
        task.set_progress(fraction)
        loss, logs = task((x,))
        weights.append(float((loss.detach() - logs["reconstruction"]) / logs["kl"]))
        assert logs["task_loss"] == pytest.approx(float(logs["reconstruction"] + logs["kl"]))
    assert weights == pytest.approx([0.0, 0.5, 1.0, 1.0])
    assert "kl_weight" not in task.state_dict()
    for wrong in ({"kl_warmup": 1.5}, {"kl_warmup": 0.5, "layers": 2}):
        with pytest.raises(ValueError, match="kl_warmup"):
            make(**wrong)


def test_widths_are_the_ones_asked_for() -> None:
    def widths(net: nn.Sequential) -> list[tuple[int, int]]:
        return [(m.in_features, m.out_features) for m in net if isinstance(m, nn.Linear)]

    model = VAEMLP(Disarm(), (1, 28, 28))
    assert widths(model.encoder) == [(784, 200), (200, 200)]
    assert widths(model.decoder) == [(200, 200), (200, 784)]
    deep = VAEMLP(Disarm(), (1, 28, 28), encoder=(200, 200), decoder=(200, 200), activation="tanh")
    assert widths(deep.decoder) == [(200, 200), (200, 200), (200, 784)]
    linear = VAEMLP(Disarm(), (1, 28, 28), encoder=(), decoder=())
    assert widths(linear.encoder) + widths(linear.decoder) == [(784, 200), (200, 784)]


def test_switches() -> None:
    x, mean = torch.ones(2, *SHAPE), torch.full(SHAPE, 0.25)
    plain, switched = (
        VAEMLP(Disarm(), SHAPE, 4, (), (), signed=on, centred=on, mean_bias=on, learned_prior=on)
        for on in (False, True)
    )
    for model in (plain, switched):
        model.set_mean(mean)
    assert torch.equal(plain.encode(x), plain.encoder(x.flatten(1)))
    assert torch.equal(switched.encode(x), switched.encoder(x.flatten(1) - 0.25))
    b = torch.tensor([[0.0, 1.0, 1.0, 0.0]])
    assert torch.equal(switched.decode(b), switched.decoder(2 * b - 1)) and torch.equal(
        plain.decode(b), plain.decoder(b)
    )
    assert torch.allclose(switched.decoder[-1].bias, torch.tensor(0.25).logit())
    assert [isinstance(m.prior, nn.Parameter) for m in (plain, switched)] == [False, True]


@pytest.mark.parametrize("estimator", [NoHard(), StraightThrough(Signum()), Gumbel(categorical=True)])
def test_estimators_of_other_latents_are_refused(estimator: nn.Module) -> None:
    with pytest.raises(ValueError, match=r"Bernoulli latents, given .*hard=bernoulli"):
        VAEMLP(estimator, SHAPE, 4)


def test_the_papers_own_bound_is_named_as_such() -> None:
    hard = Bernoulli()
    bridge = Bridge(hard, matched(hard, (LATENTS,)))  # starts at slope 1: its output is the probability itself
    task, x = make(bridge, kl="bridge")
    bridge.approximator.log_slope.data.zero_()
    assert set(task.measure((x,))) >= {"elbo", "paper_bound", "paper_bound_excess"}
    assert task.measure((x,))["paper_bound_excess"].abs().max() < 1e-3
    bridge.approximator.log_slope.data.fill_(-1.0)  # less peaked: a smaller KL, and a number above the true bound
    values = task.measure((x,))
    assert (values["paper_bound_excess"] > 0).all()
    assert torch.allclose(values["paper_bound"] - values["elbo"], values["paper_bound_excess"])
    assert "paper_bound" not in make(bridge)[0].measure((x,))
    with pytest.raises(ValueError, match="estimator=bridge"):
        make(Disarm(), kl="bridge")


def test_gradient_variance_is_measured_and_leaves_nothing_behind() -> None:
    found = {}
    for estimator in (ScoreFunction(samples=1), Disarm(), Rebar()):
        task, x = make(estimator, variance_draws=150)
        before = {name: value.clone() for name, value in task.state_dict().items()}
        found[type(estimator).__name__] = task.diagnose((x,))["gradient_variance"].item()
        assert all(p.grad is None for p in task.parameters())
        assert all(torch.equal(before[name], value) for name, value in task.state_dict().items())
    assert found["Disarm"] < found["ScoreFunction"] and found["Rebar"] < found["ScoreFunction"]
    alone, x = make(ScoreFunction(samples=1), variance_draws=150)
    many = alone.diagnose((x.repeat(5, 1, 1, 1),))["gradient_variance"].item()
    assert many == pytest.approx(found["ScoreFunction"], rel=0.3)  # of one image: it does not depend on the batch


def test_active_units() -> None:
    p = torch.rand(1000, 5).double() * torch.tensor([1.0, 1.0, 0.1, 0.0, 1.0])
    assert active_units(p.mean(0), p.square().mean(0)) == 3


def test_inference_needs_no_estimator() -> None:
    task, x = make(Rebar())
    bare = strip(task.model)
    assert bare.estimator is None and not [name for name in bare.state_dict() if "estimator" in name]
    torch.manual_seed(0)
    wanted = task.model(x)[0]
    torch.manual_seed(0)
    assert torch.equal(bare(x)[0], wanted)
    assert bare.samples(7).shape == (7, *SHAPE)
