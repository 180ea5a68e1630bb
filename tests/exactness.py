"""Small problems whose gradient is known by enumeration, and the z-test of an estimator against it.

One draw is one row: logits and decoder parameters are copied to N rows, so a single backward pass yields N independent
gradients of everything. All in float64.

The test and its power. Every coordinate of the mean gradient is compared with the exact one, and so is its projection
on the exact gradient (a wrong scale shows there first). FALSE_ALARM is shared by all COORDINATES of the suite
(Bonferroni), which gives the critical |z|. To see a bias of BIAS times the norm of the gradient in one coordinate with
probability POWER, the standard error must be at most BIAS / (z_alarm + z_power) of that norm: 0.21 % for 2 %. A pilot
run says how many rows that takes, other rows are then drawn, and the standard error reached is asserted.

A logit of ±8 changes its state once in 3000 draws: too rare for the normal law. So a standard error below a tenth of
the one that is needed counts as that tenth.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from statistics import NormalDist

import torch
from torch import Tensor, nn

from dab.estimators.probe import GradientStatistics, exact_gradient, flat_gradient

FALSE_ALARM = 1e-6
COORDINATES = 2500
BIAS = 0.02
POWER = 0.999
Z_ALARM = NormalDist().inv_cdf(1 - FALSE_ALARM / COORDINATES / 2)
Z_POWER = NormalDist().inv_cdf(POWER)
RELATIVE_ERROR = BIAS / (Z_ALARM + Z_POWER)  # of the mean, as a share of the norm of the exact gradient
PILOT, CHUNK, MOST = 4_000, 25_000, 3_000_000  # rows

Parameters = dict[str, Tensor]  # each [N, ...]: one copy a row
Cost = Callable[[Tensor, Tensor, Parameters], Tensor]  # sample [N, D], logits [N, D], parameters → [N]


@dataclass(frozen=True)
class Problem:
    cost: Cost
    logits: tuple[float, ...]
    seed: int = 1  # of the decoder; chosen so that the gradient is large beside its noise
    groups: int | None = None  # for categorical latents: the logits are [groups, classes]

    def rows(self, n: int) -> tuple[Tensor, Parameters]:
        """Logits and decoder, the same in every row, each row a leaf of its own."""
        g = torch.Generator().manual_seed(self.seed)
        d, hidden, outputs = len(self.logits), 3, 2
        shapes = {"w": (hidden, d), "a": (hidden,), "v": (outputs, hidden), "c": (outputs,)}
        one = {k: torch.randn(s, generator=g, dtype=torch.double) * 0.7 for k, s in shapes.items()}
        logits = torch.tensor(self.logits, dtype=torch.double)
        logits = logits if self.groups is None else logits.reshape(self.groups, -1)
        return _copies(logits, n), {k: _copies(p, n) for k, p in one.items()}

    def draw(self, estimator: nn.Module, n: int) -> Tensor:
        """n gradients of logits and parameters.  [n, D + P]"""
        logits, parameters = self.rows(n)
        loss, _ = estimator(logits, lambda b: self.cost(b, logits, parameters))
        wanted = [logits, *parameters.values()]
        gradients = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)
        return torch.cat([n * g.flatten(1) for g in gradients], 1).detach()


@cache
def exact(problem: Problem) -> tuple[Tensor, Tensor]:
    """The exact gradients of logits [D] and parameters [P]."""
    logits, parameters = problem.rows(1)
    enumerated = exact_gradient if problem.groups is None else exact_categorical_gradient
    both = enumerated(logits, lambda b: problem.cost(b, logits, parameters), list(parameters.values()))
    return both[: len(problem.logits)], both[len(problem.logits) :]


def exact_categorical_gradient(
    logits: Tensor, objective: Callable[[Tensor], Tensor], parameters: list[Tensor]
) -> Tensor:
    """Like exact_gradient, for one-hot samples.  logits: [1, G, K]"""
    _, groups, classes = logits.shape
    states = [torch.eye(classes, dtype=logits.dtype)[list(s)][None] for s in product(range(classes), repeat=groups)]
    log_p = logits.log_softmax(-1)
    mean = torch.stack([(b * log_p).sum((1, 2)).exp() * objective(b) for b in states]).sum()
    return flat_gradient(mean, [logits, *parameters])


def _copies(t: Tensor, n: int) -> Tensor:
    return t.expand(n, *t.shape).contiguous().requires_grad_()


def linear_layers(b: Tensor, p: Parameters) -> Tensor:
    hidden = torch.einsum("nhd,nd->nh", p["w"], b.flatten(1)) + p["a"]
    return torch.einsum("noh,nh->no", p["v"], hidden) + p["c"]


def decoder(b: Tensor, p: Parameters) -> Tensor:
    hidden = torch.tanh(torch.einsum("nhd,nd->nh", p["w"], b.flatten(1)) + p["a"])
    return torch.einsum("noh,nh->no", p["v"], hidden) + p["c"]


def log_q(b: Tensor, logits: Tensor) -> Tensor:
    return (b * logits - nn.functional.softplus(logits)).sum(1)


def kl_to_half(logits: Tensor) -> Tensor:
    """KL(Bern(sigmoid(logits)) || Bern(1/2))."""
    p = torch.sigmoid(logits)
    return (p * logits - nn.functional.softplus(logits) + 0.6931471805599453).sum(1)


def constant(b: Tensor, logits: Tensor, p: Parameters) -> Tensor:
    return 100 + p["c"].sum(1)


def linear(b: Tensor, logits: Tensor, p: Parameters) -> Tensor:
    return linear_layers(b, p).sum(1)


def quadratic(b: Tensor, logits: Tensor, p: Parameters) -> Tensor:
    return (linear_layers(b, p) - 0.5).square().sum(1)


def parity(b: Tensor, logits: Tensor, p: Parameters) -> Tensor:
    return (1 + p["c"].sum(1)) * (1 - 2 * b).prod(1)


def network(b: Tensor, logits: Tensor, p: Parameters) -> Tensor:
    return (decoder(b, p) - 1).square().sum(1)


def elbo(b: Tensor, logits: Tensor, p: Parameters) -> Tensor:
    """Contains the logits twice: in a sampled and in an analytic term."""
    return network(b, logits, p) + 0.3 * log_q(b, logits) + 0.2 * kl_to_half(logits)


PROBLEMS = {
    "constant": Problem(constant, (-1.0, 0.5, 2.0)),
    "linear": Problem(linear, (-8.0, -1.0, 0.3, 1.5), seed=13),
    "quadratic": Problem(quadratic, (-2.0, -0.7, 0.2, 1.0, 8.0), seed=42),
    "parity": Problem(parity, (-4.0, 8.0, -3.5, 1.0, -8.0, 5.0), seed=38),
    "network": Problem(network, (-8.0, -2.0, -1.0, 0.0, 0.6, 1.2, 8.0), seed=50),
    "elbo": Problem(elbo, (-1.5, -1.0, -0.5, 0.0, 0.4, 0.8, 1.2, 2.0), seed=31),
}
CATEGORICAL = Problem(network, (-8.0, 0.0, 1.0, 0.5, -0.5, 0.0), seed=26, groups=2)


@dataclass(frozen=True)
class Verdict:
    z: float  # the largest, over coordinates and projections
    relative_error: float  # the largest standard error of a mean, as a share of the yardstick
    rows: int

    @property
    def unbiased(self) -> bool:
        return self.z <= Z_ALARM

    @property
    def powerful(self) -> bool:
        return self.relative_error <= RELATIVE_ERROR


def verdict(problem: Problem, estimator: nn.Module, most: int = MOST) -> Verdict:
    """The z-test of one estimator on one problem, with as many rows as its power needs (at most `most`)."""
    return tested(Target(problem), estimator, most)


def tested(target: "Target", estimator: nn.Module, most: int = MOST) -> Verdict:
    deviation = target.statistics(estimator, PILOT).variance.sqrt()
    # A tenth more, because the pilot's standard deviation is itself a guess.
    needed = 1.1 * (deviation / target.yardstick / RELATIVE_ERROR).square().max().item()
    s = target.statistics(estimator, min(max(int(needed), 2 * PILOT), most))
    floor = 0.1 * RELATIVE_ERROR * target.yardstick
    z = s.bias.abs() / torch.maximum(s.standard_error, floor)
    return Verdict(z.max().item(), (s.standard_error / target.yardstick).max().item(), s.draws)


class Target:
    """What the mean must be: the exact gradient [C], then its projections on itself (logits, parameters)."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.groups = exact(problem)
        self.norms = torch.stack([g.norm() for g in self.groups])
        self.exact = torch.cat([*self.groups, self.norms])
        scale = self.norms.clone()
        if (
            self.norms[0] < 1e-9
        ):  # the constant cost: what its value would be worth, had a term of the estimator got lost
            p = torch.sigmoid(torch.tensor(problem.logits, dtype=torch.double))
            scale[0] = (100 * p * (1 - p)).norm()
        sizes = torch.tensor([len(g) for g in self.groups])
        self.yardstick = torch.cat([scale.repeat_interleave(sizes), scale])  # like exact

    def statistics(self, estimator: nn.Module, rows: int) -> GradientStatistics:
        total, squares = torch.zeros_like(self.exact), torch.zeros_like(self.exact)
        for start in range(0, rows, CHUNK):
            error = self.with_projections(self.problem.draw(estimator, min(CHUNK, rows - start))) - self.exact
            total, squares = total + error.sum(0), squares + error.square().sum(0)
        variance = (squares - total.square() / rows) / (rows - 1)
        return GradientStatistics(
            rows, self.exact + total / rows, variance.clamp(min=0), (variance.clamp(min=0) / rows).sqrt(), self.exact
        )

    def with_projections(self, gradients: Tensor) -> Tensor:
        parts = gradients.split([len(g) for g in self.groups], 1)
        along = [part @ (g / g.norm().clamp(min=1e-300)) for part, g in zip(parts, self.groups)]
        return torch.cat([gradients, torch.stack(along, 1)], 1)


def model_gradient(estimator: nn.Module, problem: Problem, rows: int = 64) -> Tensor:
    """All gradients of the model, the same noise every time.  [rows, D + P]"""
    torch.manual_seed(3)
    return problem.draw(estimator, rows)


def control_gradient(estimator: nn.Module, problem: Problem, rows: int = 64) -> Tensor:
    """What the loss deposits in the estimator's own parameters.  [C]"""
    torch.manual_seed(3)
    logits, parameters = problem.rows(rows)
    loss, _ = estimator(logits, lambda b: problem.cost(b, logits, parameters))
    return flat_gradient(loss, [p for p in estimator.parameters() if p.requires_grad])


def slope_of_square(estimator: nn.Module, problem: Problem, step: float = 1e-5) -> Tensor:
    """The same by central differences of the mean squared gradient of the logits, moving each parameter.  [C]"""
    slopes = []
    for p in filter(lambda p: p.requires_grad, estimator.parameters()):
        for entry in p.data.view(-1):
            start = entry.item()
            squares = []
            for moved in (start + step, start - step):
                entry.fill_(moved)
                squares.append(model_gradient(estimator, problem)[:, : len(problem.logits)].square().sum(1).mean())
            entry.fill_(start)
            slopes.append((squares[0] - squares[1]) / (2 * step))
    return torch.stack(slopes)
