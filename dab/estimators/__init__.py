"""Estimators: ways to train through a hard function. Two kinds.

A *layer estimator* is a module that stands where the hard function stands:

    y, penalty = estimator(z)           # z: [B, ...] → y: [B, ...], penalty: [B]

`y` is the hard value bit for bit (NoHard has none; others see below), in the dtype of z, and never z itself: it may be
changed in place. `penalty` is added to the loss as `penalty.mean()` (`dab.inline(estimator)` does so by itself), and is
zero where the estimator has none. Bridge, StraightThrough, TrueGradient, NoHard and Detached (a control: no gradient at
all) are of this kind and exchange freely. So are Gumbel, GumbelRao and ReinMax, which draw the Bernoulli or categorical
sample themselves (in training a Gumbel that is not straight-through returns a soft one), and VectorQuantization, which
also learns the words of its hard function, dab.hard.Nearest.

For functions that autograd cannot see into, layers that call them more often: Smoothing and SPSA (any black box, of any
output shape), Perturbed, Interpolation, IMLE and Identity (solvers; the last three only where the shape is kept). And
Relaxed, with the gradient of a soft form, where there is one. How often each calls the hard function, and whether its
value in training is hard (Perturbed, IMLE and Relaxed can be told otherwise): dab.estimators.traits.

An *objective estimator* needs the downstream loss itself, and may evaluate it several times:

    loss, logs = estimator(logits, objective)       # objective(sample) -> [B]

ScoreFunction, Rebar, Relax, Arm and Disarm are of this kind, all unbiased; Lift turns any layer estimator into one.
How good an estimate is: dab.estimators.probe. The objective may change its sample in place: it is given a copy.

In evaluation mode nothing passes back through a hard function or a sample, whatever the estimator: y is a constant
there, even where autograd would know a gradient (TrueGradient). NoHard is the identity in both modes. For saliency maps
of a model in evaluation mode put its estimator back into training: `model.eval()`, then `bridge.train()`.

All of them work under torch.compile(fullgraph=True), torch.func, autocast and DDP (Binary("batch") and
VectorQuantization in training excepted: torch.func cannot move a running mean). A NaN in z is a NaN in y, as
dab/hard/__init__.py has it.
"""

from dab.bridge import Bridge
from dab.estimators.detached import Detached
from dab.estimators.disarm import Arm, Disarm
from dab.estimators.gumbel import Gumbel
from dab.estimators.gumbel_rao import GumbelRao
from dab.estimators.identity import Identity
from dab.estimators.imle import IMLE
from dab.estimators.interpolation import Interpolation
from dab.estimators.lift import Lift
from dab.estimators.no_hard import NoHard
from dab.estimators.perturbed import Perturbed
from dab.estimators.rebar import Rebar
from dab.estimators.reinmax import ReinMax
from dab.estimators.relax import Relax
from dab.estimators.relaxed import Relaxed
from dab.estimators.score_function import ScoreFunction
from dab.estimators.smoothing import Smoothing
from dab.estimators.spsa import SPSA
from dab.estimators.straight_through import StraightThrough
from dab.estimators.true_gradient import TrueGradient
from dab.estimators.vector_quantization import VectorQuantization

__all__ = [
    "IMLE",
    "SPSA",
    "Arm",
    "Bridge",
    "Detached",
    "Disarm",
    "Gumbel",
    "GumbelRao",
    "Identity",
    "Interpolation",
    "Lift",
    "NoHard",
    "Perturbed",
    "Rebar",
    "ReinMax",
    "Relax",
    "Relaxed",
    "ScoreFunction",
    "Smoothing",
    "StraightThrough",
    "TrueGradient",
    "VectorQuantization",
]
