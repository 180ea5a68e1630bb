"""Differentiable approximation bridges: train through any hard function with a learned gradient.

bridge = dab.Bridge(hard, in_shape=(8,))    # or with an approximator of your own, or of dab.approximators
y, penalty = bridge(z)                      # or y = dab.inline(bridge)(z), in nn.Sequential
"""

from dab import approximators, estimators, hard
from dab.bridge import Bridge
from dab.corrected import CorrectedBridge
from dab.estimators import NoHard, StraightThrough, TrueGradient
from dab.fitted import FittedBridge
from dab.inline import inline
from dab.strip import strip

__version__ = "0.2.0"
__all__ = [
    "Bridge",
    "CorrectedBridge",
    "FittedBridge",
    "NoHard",
    "StraightThrough",
    "TrueGradient",
    "approximators",
    "estimators",
    "hard",
    "inline",
    "strip",
]
