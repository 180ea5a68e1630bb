import torch
from torch import Tensor, nn

from dab.estimators.discrete import check_logits, family
from dab.precision import working_dtype
from dab.ranges import Positive, ranged
from dab.surrogate import value_with_gradient, zero_penalty


class Gumbel(nn.Module):
    """Binary Concrete / Gumbel-softmax (Maddison et al., Jang et al. 2017): a sample softened by a temperature.

    layer = Gumbel(temperature=1.0, temperature_end=0.3)
    y, _ = layer(encoder(x))
    F.mse_loss(decoder(y), x).backward()

    temperature       at the start of training
    temperature_end   at its end, reached exponentially with `set_progress`; None: constant
    straight_through  True: y is the hard sample, bit for bit, with the gradient of the soft one.
                      False: y is the soft sample. In evaluation mode y is always hard and passes no gradient
    categorical       False: Bernoulli logits [B, D]; True: categorical logits [B, G, K]
    """

    temperature: Tensor

    @ranged
    def __init__(
        self,
        temperature: Positive = 1.0,
        straight_through: bool = False,
        categorical: bool = False,
        temperature_end: Positive | None = None,
    ) -> None:
        super().__init__()
        self.temperature_start = temperature
        self.temperature_end = temperature if temperature_end is None else temperature_end
        self.register_buffer("temperature", torch.tensor(float(temperature)))
        self.straight_through = self.hard_forward = straight_through
        self.categorical = categorical
        self.family = family(categorical)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        check_logits(z, self.categorical)
        x = z.to(working_dtype(z))
        if not self.training:
            return self.family.sample(x).to(z.dtype), zero_penalty(z)
        perturbed = self.family.perturbed(x)
        soft = self.family.relax(perturbed, self.temperature).to(z.dtype)
        if not self.straight_through:
            return soft, zero_penalty(z)
        hard = self.family.hard(perturbed.detach()).to(z.dtype)
        return value_with_gradient(hard, gradient_of=soft), zero_penalty(z)

    def set_progress(self, fraction: float) -> None:
        """Move the temperature to its place at this fraction (0..1) of training, without waiting for the device."""
        fraction = min(max(fraction, 0.0), 1.0)
        self.temperature.fill_(self.temperature_start ** (1 - fraction) * self.temperature_end**fraction)

    def extra_repr(self) -> str:
        end = f"..{self.temperature_end:g}" if self.temperature_end != self.temperature_start else ""
        return f"temperature={self.temperature_start:g}{end}, straight_through={self.straight_through}"
