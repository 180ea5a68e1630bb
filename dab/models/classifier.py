"""What the classification task needs of a model."""

from __future__ import annotations

from torch import Tensor, nn


class Classifier(nn.Module):
    """Layers before the hard function (`encoder`), the estimator, and layers after it that end in a score a class.

    The network sees input_scale * (x - input_shift).
    """

    # Initial weights of its own, whatever an approximator has drawn before: rows of a study that share a seed start
    # from the same layers wherever their shapes agree.
    starts_apart = True

    def __init__(
        self,
        encoder: nn.Module,
        estimator: nn.Module,
        decoder: nn.Module,
        classes: int,
        input_shift: float,
        input_scale: float,
    ):
        super().__init__()
        self.classes, self.shift, self.scale = classes, input_shift, input_scale
        self.encoder, self.estimator, self.decoder = encoder, estimator, decoder

    def encode(self, x: Tensor) -> Tensor:
        """What the hard function sees.  [B, C, H, W] → [B, *code_shape]"""
        return self.encoder((x - self.shift) * self.scale)

    def decode(self, code: Tensor) -> Tensor:
        """[B, ...] → [B, classes]"""
        return self.decoder(code)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, penalty = self.estimator(self.encode(x))
        return self.decode(y), penalty
