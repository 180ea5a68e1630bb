from torch import Tensor, nn

from dab.estimators.discrete import check_logits, family
from dab.precision import working_dtype
from dab.ranges import Positive, ranged
from dab.surrogate import value_with_gradient, zero_penalty


class ReinMax(nn.Module):
    """ReinMax (Liu et al. 2023): straight-through to second order. The hard sample forward, bit for bit.

    layer = ReinMax()
    y, _ = layer(encoder(x))
    F.mse_loss(decoder(y), x).backward()

    Backward, with J(p) = diag(p) - pp' the Jacobian of a softmax with the value p: 2 J((b + p_t) / 2) - J(p) / 2, where
    p_t is the probability at the temperature. Its mean is the exact gradient for objectives that are quadratic in
    each latent (temperature 1). A Bernoulli latent is a categorical one of two classes.

    temperature   smooths the half-way point; 1 is the second-order method
    categorical   False: Bernoulli logits [B, D]; True: categorical logits [B, G, K]
    """

    @ranged
    def __init__(self, temperature: Positive = 1.0, categorical: bool = False) -> None:
        super().__init__()
        self.temperature = temperature
        self.categorical = categorical
        self.family = family(categorical)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        check_logits(z, self.categorical)
        x = z.to(working_dtype(z))
        b = self.sample(x.detach())
        if not self.training:
            return b.to(z.dtype), zero_penalty(z)
        p = self.family.probability(x.detach())
        middle = (b + self.family.probability(x.detach() / self.temperature)) / 2
        soft = 2 * self.jacobian(middle, x) - self.jacobian(p, x) / 2
        return value_with_gradient(b.to(z.dtype), gradient_of=soft), zero_penalty(z)

    def sample(self, logits: Tensor) -> Tensor:
        return self.family.sample(logits)

    def jacobian(self, p: Tensor, x: Tensor) -> Tensor:
        """J(p) x: linear in x, so that its gradient is J(p) itself; p is a constant.  [B, ...] → [B, ...]"""
        if not self.categorical:
            return p * (1 - p) * x
        return p * (x - (p * x).sum(-1, keepdim=True))

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}"
