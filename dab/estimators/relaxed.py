from torch import Tensor, nn

from dab.approximators.matched import soft_form
from dab.estimators.traits import Calls
from dab.precision import full_precision, working_dtype
from dab.ranges import Positive, ranged
from dab.surrogate import hard_value, value_with_gradient, zero_penalty


class Relaxed(nn.Module):
    """A relaxation: the gradient of the hard function's soft form (soft sort, soft ranks, softmax, sigmoids).

    layer = Relaxed(Sort1d(), temperature=0.25)
    y, _ = layer(encoder(x))                            # y is hard(z), bit for bit
    F.mse_loss(decoder(y), x).backward()

    A matched bridge (dab.approximators.matched) whose slope, one over the temperature, stays what it is.

    hard            one whose soft form is known: Signum, Binary, Bernoulli, Threshold, Levels, Sort, Sort1d, TopK,
                    Ranks, Argmax, TopKMask or KMeans
    temperature     how soft: a gradient that is blurred where it is high, and dead where it is low
    smoothed        True: in training y is the soft form itself; `hard_forward` tells. In evaluation y is always hard
    """

    @ranged
    def __init__(self, hard: nn.Module, temperature: Positive = 0.25, smoothed: bool = False) -> None:
        super().__init__()
        self.hard, self.temperature, self.hard_forward = hard, float(temperature), not smoothed
        self.form = soft_form(hard)

    @property
    def calls(self) -> Calls:
        return Calls(int(self.hard_forward))

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        if not self.training:
            return hard_value(self.hard, z), zero_penalty(z)
        with full_precision(z):
            x = z.to(working_dtype(z))
            soft = self.form(x, x.new_tensor(1 / self.temperature)).to(z.dtype)
        if not self.hard_forward:
            return soft, zero_penalty(z)
        return value_with_gradient(hard_value(self.hard, z), gradient_of=soft), zero_penalty(z)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}"
