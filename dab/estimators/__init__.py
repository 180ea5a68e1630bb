"""Estimators: ways to train through a hard function. Two kinds.

A *layer estimator* is a module that stands where the hard function stands:

    y, penalty = estimator(z)           # z: [B, ...] → y: [B, ...], penalty: [B]

`y` is the hard value bit for bit (NoHard excepted: it has none); `penalty` is added to the loss as `penalty.mean()`,
and is zero where the estimator has none. Bridge, StraightThrough, TrueGradient and NoHard are of this kind and
exchange freely. So are Gumbel, GumbelRao and ReinMax, which draw the Bernoulli or categorical sample themselves (in
training a Gumbel that is not straight-through returns a soft one).

An *objective estimator* needs the downstream loss itself, and may evaluate it several times:

    loss, logs = estimator(logits, objective)       # objective(sample) -> [B]

ScoreFunction, Rebar, Relax, Arm and Disarm are of this kind, all unbiased; Lift turns any layer estimator into one.
How good an estimate is: dab.estimators.probe.
"""

from dab.bridge import Bridge
from dab.estimators.disarm import Arm, Disarm
from dab.estimators.gumbel import Gumbel
from dab.estimators.gumbel_rao import GumbelRao
from dab.estimators.lift import Lift
from dab.estimators.no_hard import NoHard
from dab.estimators.rebar import Rebar
from dab.estimators.reinmax import ReinMax
from dab.estimators.relax import Relax
from dab.estimators.score_function import ScoreFunction
from dab.estimators.straight_through import StraightThrough
from dab.estimators.true_gradient import TrueGradient

__all__ = [
    "Arm",
    "Bridge",
    "Disarm",
    "Gumbel",
    "GumbelRao",
    "Lift",
    "NoHard",
    "Rebar",
    "ReinMax",
    "Relax",
    "ScoreFunction",
    "StraightThrough",
    "TrueGradient",
]
