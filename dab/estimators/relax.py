import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dab.estimators.objective import Objective
from dab.estimators.rebar import Rebar, Values
from dab.nets import mlp
from dab.precision import full_precision
from dab.ranges import Count, Finite, Positive, ranged
from dab.stateless import call_with


class Relax(Rebar):
    """RELAX (Grathwohl et al. 2018): REBAR with a learned network in the control variate. Unbiased for any network.

    estimator = Relax(control=(128,), in_shape=(200,))
    loss, logs = estimator(encoder(x), lambda b: F.mse_loss(decoder(b), x, reduction="none").sum(1))
    loss.backward()             # also deposits the gradient of the variance for `control_parameters()`

    c(z) = eta f(relax(z)) + net(2 relax(z) - 1): the network sees relaxed samples scaled to (-1, 1).

    control       hidden sizes of a tanh net whose last layer starts at zero (so RELAX starts as REBAR), or a module
                  [B, units] → [B] or [B, 1] that can be differentiated twice
    in_shape      of a sample, (D,) or (G, K); needed with hidden sizes
    temperature   of the relaxation, at the start
    eta           weight of the REBAR part, at the start; None: the network alone. Then the objective is called once,
                  at a hard sample, and need not be differentiable in it
    see_logits    the network is also given the probabilities of the logits, scaled to (-1, 1): units doubles
    learn, categorical   as for Rebar
    """

    @ranged
    def __init__(
        self,
        control: nn.Module | Sequence[Count] = (128,),
        in_shape: tuple[int, ...] | None = None,
        temperature: Positive = 0.5,
        eta: Finite | None = 1.0,
        learn: bool = True,
        see_logits: bool = False,
        categorical: bool = False,
    ) -> None:
        super().__init__(temperature, 0.0 if eta is None else eta, learn, categorical)
        self.with_rebar = eta is not None
        if not self.with_rebar:
            self.eta.requires_grad_(False)
        self.see_logits = see_logits
        self.net = control if isinstance(control, nn.Module) else _net(control, in_shape, see_logits)
        self.net.requires_grad_(learn)

    def control(self, z: Tensor, logits: Tensor, cost: Objective, values: Values) -> Tensor:
        relaxed = self.relax(z, values)
        seen = [relaxed, self.family.probability(logits)] if self.see_logits else [relaxed]
        of_net = {name.removeprefix("net."): value for name, value in values.items() if name.startswith("net.")}
        with full_precision(z):
            c = call_with(self.net, of_net, torch.cat([2 * s.flatten(1) - 1 for s in seen], 1)).reshape(-1)  # [B]
        return c + values["eta"] * cost(relaxed) if self.with_rebar else c


def _net(hidden: Sequence[int], in_shape: tuple[int, ...] | None, see_logits: bool) -> nn.Sequential:
    if in_shape is None:
        raise ValueError(f"control={tuple(hidden)} gives hidden sizes: give in_shape too, (D,) or (G, K), or a module")
    return mlp((math.prod(in_shape) * (2 if see_logits else 1), *hidden, 1), "tanh", last_at_zero=True)
