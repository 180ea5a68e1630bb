from torch import Tensor, nn

from dab.surrogate import zero_penalty


class NoHard(nn.Module):
    """No hard function: y = z. The baseline that asks what the hard layer itself is worth."""

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return z, zero_penalty(z)
