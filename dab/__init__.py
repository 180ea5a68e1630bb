"""Differentiable approximation bridges: train through any hard function with a learned gradient.

bridge = dab.Bridge(hard, dab.approximators.auto(hard, in_shape))
y, penalty = bridge(z)
"""

from dab import approximators, estimators, hard
from dab.bridge import Bridge
from dab.estimators import NoHard, StraightThrough, TrueGradient
from dab.fitted import FittedBridge
from dab.strip import strip

__version__ = "0.1.0"
__all__ = [
    "Bridge",
    "FittedBridge",
    "NoHard",
    "StraightThrough",
    "TrueGradient",
    "approximators",
    "estimators",
    "hard",
    "strip",
]
