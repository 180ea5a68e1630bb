"""Estimators: ways to train through a hard function. Two kinds.

A *layer estimator* is a module that stands where the hard function stands:

    y, penalty = estimator(z)           # z: [B, ...] → y: [B, ...], penalty: [B]

`y` is the hard value bit for bit (NoHard excepted: it has none); `penalty` is added to the loss as `penalty.mean()`,
and is zero where the estimator has none. Bridge, StraightThrough, TrueGradient and NoHard are of this kind and
exchange freely.

An *objective estimator* needs the downstream loss itself, and may evaluate it several times:

    loss, logs = estimator(logits, objective)       # objective(sample) -> [B]
"""

from dab.bridge import Bridge
from dab.estimators.no_hard import NoHard
from dab.estimators.straight_through import StraightThrough
from dab.estimators.true_gradient import TrueGradient

__all__ = ["Bridge", "NoHard", "StraightThrough", "TrueGradient"]
