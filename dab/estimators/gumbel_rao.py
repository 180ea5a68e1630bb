from torch import Tensor, nn

from dab.estimators.discrete import check_logits, family
from dab.precision import working_dtype
from dab.ranges import Count, Positive, ranged
from dab.surrogate import value_with_gradient, zero_penalty


class GumbelRao(nn.Module):
    """Gumbel-Rao (Paulus et al. 2021): straight-through Gumbel, its Jacobian averaged over noise given the sample.

    layer = GumbelRao(samples=10, temperature=0.5)
    y, _ = layer(encoder(x))
    F.mse_loss(decoder(y), x).backward()

    The bias of straight-through Gumbel at that temperature, with less variance; y is hard, bit for bit. The objective
    is not called more often: only the layer itself is computed `samples` times.

    samples       relaxed samples in the average
    temperature   of the relaxation
    categorical   False: Bernoulli logits [B, D]; True: categorical logits [B, G, K]
    """

    @ranged
    def __init__(self, samples: Count = 10, temperature: Positive = 0.5, categorical: bool = False) -> None:
        super().__init__()
        self.samples = samples
        self.temperature = float(temperature)
        self.categorical = categorical
        self.family = family(categorical)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        check_logits(z, self.categorical)
        x = z.to(working_dtype(z))
        b = self.family.sample(x)
        if not self.training:
            return b.to(z.dtype), zero_penalty(z)
        soft = self.family.relax(x + self.noise(x.detach(), b), self.temperature).mean(0)
        return value_with_gradient(b.to(z.dtype), gradient_of=soft), zero_penalty(z)

    def noise(self, logits: Tensor, b: Tensor) -> Tensor:
        """Noise that turns these logits into the sample b, a constant.  [B, ...] → [samples, B, ...]"""
        many = logits.expand(self.samples, *logits.shape)
        return self.family.conditional(many, b.expand_as(many)) - many

    def extra_repr(self) -> str:
        return f"samples={self.samples}, temperature={self.temperature:g}"
