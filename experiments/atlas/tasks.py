"""What is done with a function and an estimator: recover a teacher, be of use, match a reference, a yardstick."""

from __future__ import annotations

import math
import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dab import estimators
from dab.advise.candidates import BY_NAME, Candidate, Setting
from dab.advise.recover import BATCH, Counted, Encoder, Recover, Trained
from dab.advise.traits import seconds_of_a_call
from dab.data.digits import CLASSES, digits, split
from dab.keys import generator, key
from dab.nets import mlp
from experiments.atlas.functions import MAKE
from experiments.atlas.plan import FREE, FROZEN, Function

SIGMA = 0.3  # of the reference that `match` compares with
SHARE = 4  # a try of a search is a fourth of a training
HEAD = 64

Numbers = dict[str, Any]


def recover(row: str, function: Function, seed: int, budget: Numbers) -> Numbers:
    """The search, the training it chooses, one with as many calls as steps, and what its gradients are like."""
    hard, candidate = MAKE[function.name](), BY_NAME[row]
    task = Recover(hard, function.in_shape, seed, pool=budget["pool"], held=budget["held"])

    def train(setting: Setting, steps: int) -> Trained:
        torch.manual_seed(key("layer", seed))
        return task.train(candidate.layer(hard, function.in_shape, setting), setting.rate, max(steps, 1))

    tries = [
        (setting, task.score(train(setting, budget["steps"] // SHARE).encoder, "valid"))
        for setting in candidate.settings
    ]
    chosen = max(tries, key=lambda one: one[1])[0]
    trained = train(chosen, budget["steps"])
    frugal = trained if trained.calls < 1.5 else train(chosen, round(budget["steps"] / trained.calls))
    metrics = {
        "valid/score": task.score(trained.encoder, "valid"),
        "test/score": task.score(trained.encoder, "test"),
        "test/explained": task.explained(trained.encoder, "test"),
        "test/score_at_equal_calls": task.score(frugal.encoder, "test"),
        **match(hard, trained, task, budget["pairs"]),
    }
    cost = {"call_seconds": seconds_of_a_call(hard, task.start(task.x["test"][:BATCH]).detach())}
    return {"metrics": metrics, **_search(tries, chosen, candidate), **_spent(trained), **cost}


def match(hard: nn.Module, trained: Trained, task: Recover, pairs: int) -> dict[str, float]:
    """Cosine with the gradient of the function smoothed by noise, and length in its terms: in the mean over samples.

    At random points the gradient that arrives is random too; at trained ones it is the loss's.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(key("match", task.seed))
        x, y = task.x["test"][:BATCH], task.y["test"][:BATCH]
        at = {"random": torch.randn(BATCH, *task.in_shape), "trained": trained.encoder(x)}
        arrives = {"random": torch.randn_like(y), "trained": task.hard(at["trained"]) - y}
        reference = estimators.Smoothing(hard, SIGMA, 2 * pairs).train()
        found = {}
        for where, z in at.items():
            if z.isfinite().all():
                ours, theirs = (_gradient(layer, z, arrives[where]) for layer in (trained.layer, reference))
                found[f"match/{where}_cosine"] = float(F.cosine_similarity(ours, theirs).mean())
                lengths = ours.norm(dim=1).mean() / theirs.norm(dim=1).mean().clamp(min=1e-12)
                found[f"match/{where}_length"] = float(lengths)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _gradient(layer: nn.Module, z: Tensor, arrives: Tensor) -> Tensor:
    """What an estimator sends back for what arrives.  → [B, units]"""
    with torch.enable_grad():
        z = z.clone().requires_grad_()
        y, _ = layer.train()(z)
        if not y.requires_grad:
            return torch.zeros_like(z).flatten(1)
        return torch.autograd.grad(y, z, arrives, allow_unused=True, materialize_grads=True)[0].flatten(1)


class Classifier(nn.Module):
    """Digits [B, 64] → encoder → the estimator's layer → standardised → one hidden layer → classes."""

    def __init__(self, x: Tensor, function: Function, layer: nn.Module, free: bool) -> None:
        super().__init__()
        units = math.prod(function.in_shape if free else function.out_shape)
        self.encoder, self.layer = Encoder(x, function.in_shape, 1.0), layer
        self.standard = nn.BatchNorm1d(units, affine=False)
        self.head = mlp((units, HEAD, CLASSES), "relu")

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, penalty = self.layer(self.encoder(x))
        return self.head(self.standard(y.flatten(1))), penalty


def use(row: str, function: Function, seed: int, budget: Numbers) -> Numbers:
    """The function as the bottleneck of a small classifier of digits: the search, and the training it chooses."""
    hard = MAKE[function.name]()
    candidate = {
        FROZEN: Candidate(FROZEN, estimators.Detached),
        FREE: Candidate(FREE, estimators.NoHard, takes="nothing"),
    }.get(row) or BY_NAME[row]
    grey, labels = digits()
    images = torch.as_tensor(grey).flatten(1) / 255
    x = {part: torch.as_tensor(rows) for part, rows in split(images.numpy()).items()}
    y = {part: torch.as_tensor(rows) for part, rows in split(labels).items()}

    def train(setting: Setting, steps: int) -> tuple[Classifier, float, float]:
        torch.manual_seed(key("use", seed))
        layer = candidate.layer(hard, function.in_shape, setting)
        model = Classifier(x["train"], function, layer, row == FREE).train()
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=setting.rate, fused=True)
        draw, before = generator("use", seed), time.thread_time()
        with Counted(hard) as counted:
            for step in range(max(steps, 1)):
                optimizer.param_groups[0]["lr"] = setting.rate * (1 + math.cos(math.pi * step / steps)) / 2
                rows = torch.randint(len(x["train"]), (BATCH,), generator=draw)
                scores, penalty = model(x["train"][rows])
                loss = F.cross_entropy(scores, y["train"][rows]) + penalty.mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return model.eval(), counted.rows / (max(steps, 1) * BATCH), time.thread_time() - before

    @torch.no_grad()
    def accuracy(model: Classifier, part: str) -> float:
        if row not in (FROZEN, FREE):
            model.layer = estimators.Detached(hard)  # the function itself, whatever the estimator does in evaluation
        return float((model(x[part])[0].argmax(1) == y[part]).float().mean())

    tries = [
        (setting, accuracy(train(setting, budget["use_steps"] // SHARE)[0], "valid")) for setting in candidate.settings
    ]
    chosen = max(tries, key=lambda one: one[1])[0]
    model, calls, seconds = train(chosen, budget["use_steps"])
    metrics = {f"{part}/accuracy": accuracy(model.eval(), part) for part in ("valid", "test")}
    spent = {"steps": budget["use_steps"], "calls": calls, "cpu_seconds": seconds}
    return {"metrics": metrics, **_search(tries, chosen, candidate), **spent}


def yardstick(row: str, function: Function, seed: int, budget: Numbers) -> Numbers:
    """Somebody else's protocol: 200 points in [0, 1], target 2 (x - 0.5), a net 1-64-64-1 with tanh before an actuator,
    Adam 0.01, 800 epochs of all points; the error of the actuator's true output. No search: they had none."""
    hard, candidate = MAKE[function.name](), BY_NAME[row]
    x = torch.linspace(0, 1, 200)[:, None]
    target = 2 * (x - 0.5)
    torch.manual_seed(seed)
    net = mlp((1, 64, 64, 1), "tanh")
    layer = candidate.layer(hard, (1,), candidate.settings[0]).train()
    optimizer = torch.optim.Adam([p for p in (*net.parameters(), *layer.parameters()) if p.requires_grad], lr=0.01)
    before = time.thread_time()
    with Counted(hard) as counted:
        for _ in range(budget["yardstick_steps"]):
            y, penalty = layer(net(x))
            optimizer.zero_grad()
            (F.mse_loss(y, target) + penalty.mean()).backward()
            optimizer.step()
    with torch.no_grad():
        error = float(F.mse_loss(hard(net(x)), target))
    calls = counted.rows / (budget["yardstick_steps"] * len(x))
    metrics = {"test/error": error if math.isfinite(error) else 1e6}
    spent = {"steps": budget["yardstick_steps"], "calls": calls, "cpu_seconds": time.thread_time() - before}
    return {"metrics": metrics, "chosen": _written(candidate.settings[0], candidate), **spent}


def _search(tries: list[tuple[Setting, float]], chosen: Setting, candidate: Candidate) -> Numbers:
    tried = [{**_written(setting, candidate), "valid": value} for setting, value in tries]
    return {"search": tried, "chosen": _written(chosen, candidate)}


def _written(setting: Setting, candidate: Candidate) -> dict[str, float]:
    knob = {} if candidate.knob is None or setting.knob is None else {candidate.knob.name: setting.knob}
    return {"rate": setting.rate, **knob}


def _spent(trained: Trained) -> Numbers:
    return {"steps": trained.steps, "calls": trained.calls, "cpu_seconds": trained.seconds}


TASKS = {"recover": recover, "use": use, "mse": yardstick}
