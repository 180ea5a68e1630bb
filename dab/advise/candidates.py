"""The estimators one would try: what each needs of a function, its knob, and the code that makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from torch import nn

import dab
from dab import approximators, estimators
from dab.advise.traits import Traits
from dab.approximators.matched import KNOWN
from dab.hard import Argmax

RATES = (5e-3, 2e-3)  # of the encoder; the first is what one would try first
MORE_RATES = (5e-3, 2e-3, 1e-3, 1e-2)  # for who has no knob: as many tries for all

OFTEN = {"fits": 8, "past": 40}  # costs no call: as in conf/estimator/auto.yaml
AROUND = {"samples": 4, "relative": True}

Why = Callable[[nn.Module, Traits], str]  # the reason why it does not fit, or nothing


@dataclass(frozen=True)
class Knob:
    """An option worth a search; the first value is the default here."""

    name: str
    values: tuple[float, float]


@dataclass(frozen=True)
class Setting:
    """What a search chooses: the encoder's learning rate, and the value of the knob where there is one."""

    rate: float
    knob: float | None = None


def _always(hard: nn.Module, traits: Traits) -> str:
    return ""


def _same_shape(hard: nn.Module, traits: Traits) -> str:
    return "" if traits.keeps_shape else "needs a function that keeps the shape"


def _has_gradient(hard: nn.Module, traits: Traits) -> str:
    return {"some": "", "zero": "the gradient that autograd finds is zero"}.get(
        traits.gradient, "autograd cannot look inside"
    )


def _has_form(hard: nn.Module, traits: Traits) -> str:
    return "" if isinstance(hard, KNOWN) else "no soft form of this function is known"


def _is_choice(hard: nn.Module, traits: Traits) -> str:
    return "" if isinstance(hard, Argmax) and len(traits.in_shape) == 2 else "only for a choice between classes"


def _is_solver(hard: nn.Module, traits: Traits) -> str:
    if reason := _same_shape(hard, traits):
        return reason
    choice = traits.pieces == "constant" and traits.bounded and not traits.alike
    return "" if choice else "only for solvers: a choice between solutions that depends on all units"


@dataclass(frozen=True)
class Candidate:
    """A layer estimator as one would write it: `kind(hard, [approximator,] **options)`.

    approximator    the name of a builder in dab.approximators; None for who needs none, or builds it from `in_shape`
    takes           hard | in_shape (hard, and the shape of a sample) | nothing
    """

    name: str
    kind: type[nn.Module]
    why_not: Why = _always
    knob: Knob | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    approximator: str | None = None
    approximator_options: Mapping[str, Any] = field(default_factory=dict)
    takes: str = "hard"

    @property
    def settings(self) -> list[Setting]:
        """What a search tries, equally many for all; the first is the default."""
        if self.knob is None:
            return [Setting(rate) for rate in MORE_RATES]
        return [Setting(rate, value) for value, rate in product(self.knob.values, RATES)]

    def layer(self, hard: nn.Module, in_shape: Sequence[int], setting: Setting) -> nn.Module:
        options, of_approximator = self._options(setting)
        if self.takes == "nothing":
            return self.kind(**options)
        if self.takes == "in_shape":
            return self.kind(hard, in_shape=tuple(in_shape), **options)
        if self.approximator is None:
            return self.kind(hard, **options)
        build = getattr(approximators, self.approximator)
        return self.kind(hard, build(hard, tuple(in_shape), **of_approximator), **options)

    def code(self, in_shape: Sequence[int], setting: Setting) -> str:
        """The expression that makes it, of `hard`."""
        options, of_approximator = self._options(setting)
        given = [] if self.takes == "nothing" else ["hard"]
        if self.takes == "in_shape":
            given.append(f"in_shape={tuple(in_shape)}")
        if self.approximator is not None:
            inner = ", ".join(["hard", str(tuple(in_shape)), *_written(of_approximator)])
            given.append(f"dab.approximators.{self.approximator}({inner})")
        where = "dab" if hasattr(dab, self.kind.__name__) else "dab.estimators"
        return f"{where}.{self.kind.__name__}({', '.join([*given, *_written(options)])})"

    def _options(self, setting: Setting) -> tuple[dict[str, Any], dict[str, Any]]:
        """Of the layer and of its approximator; the knob belongs to whoever has an option of that name."""
        turned = {} if self.knob is None or setting.knob is None else {self.knob.name: setting.knob}
        if self.approximator is not None and self.knob is not None and self.knob.name in self.approximator_options:
            return dict(self.options), {**self.approximator_options, **turned}
        return {**self.options, **turned}, dict(self.approximator_options)


def _written(options: Mapping[str, Any]) -> list[str]:
    return [f"{name}={value!r}" for name, value in options.items()]


# In the order in which one would try them where time is short. Those that draw around z count in its deviations
# (relative), and have as many calls: five for a sample and step.
CANDIDATES = (
    Candidate("fitted bridge", dab.FittedBridge, knob=Knob("lr", (3e-3, 1e-3)), options=OFTEN, takes="in_shape"),
    Candidate("corrected bridge", dab.CorrectedBridge, knob=Knob("sigma", (0.3, 0.6)), takes="in_shape"),
    Candidate("straight-through", dab.StraightThrough, _same_shape),
    Candidate("true gradient", dab.TrueGradient, _has_gradient),
    Candidate(
        "matched bridge",
        dab.Bridge,
        _has_form,
        Knob("cap", (4.0, 2.0)),
        approximator="matched",
        approximator_options={"cap": 4.0},
    ),
    Candidate("relaxation", estimators.Relaxed, _has_form, Knob("temperature", (0.25, 1.0))),
    Candidate("smoothing, antithetic", estimators.Smoothing, knob=Knob("sigma", (0.3, 1.0)), options=AROUND),
    Candidate("identity with projection", estimators.Identity, _is_solver),
    Candidate(
        "interpolation", estimators.Interpolation, _is_solver, Knob("strength", (0.3, 1.0)), options={"relative": True}
    ),
    Candidate("I-MLE", estimators.IMLE, _is_solver, Knob("strength", (0.3, 1.0)), options={"relative": True}),
    Candidate(
        "perturbed optimizer",
        estimators.Perturbed,
        _is_solver,
        Knob("sigma", (0.3, 1.0)),
        options={**AROUND, "noise": "gumbel"},
    ),
    Candidate(
        "Gumbel, straight-through",
        estimators.Gumbel,
        _is_choice,
        Knob("temperature", (1.0, 0.5)),
        options={"straight_through": True, "categorical": True},
        takes="nothing",
    ),
    Candidate("straight-through, clipped", dab.StraightThrough, _same_shape, options={"through": "clipped"}),
    Candidate(
        "smoothing, leave one out",
        estimators.Smoothing,
        knob=Knob("sigma", (0.3, 1.0)),
        options={**AROUND, "baseline": "leave_one_out"},
    ),
    Candidate("SPSA", estimators.SPSA, knob=Knob("step", (0.3, 1.0)), options={"pairs": 2, "relative": True}),
    Candidate("dense bridge, as printed", dab.Bridge, knob=Knob("gamma", (10.0, 1.0)), approximator="dense"),
)
# Not to be advised, but rows of the atlas: is the *learned* gradient what helps, is a correction without bias better?
CONTROLS = (
    Candidate(
        "corrected bridge, unbiased",
        dab.CorrectedBridge,
        knob=Knob("sigma", (0.3, 0.6)),
        options={"form": "lax", "weight": 1.0},
        takes="in_shape",
    ),
    Candidate("frozen random bridge", dab.Bridge, approximator="dense", approximator_options={"frozen": True}),
)
BY_NAME = {candidate.name: candidate for candidate in (*CANDIDATES, *CONTROLS)}
