"""What every layer estimator does: call the hard function, give its value another gradient, report a penalty."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dab.precision import working_dtype


class _GradientOf(torch.autograd.Function):
    """Forward: the hard value. Backward: everything to the soft one.

    A Function and not `hard + soft - soft.detach()`: the sum rounds, and a non-finite soft value would reach y.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(hard: Tensor, soft: Tensor) -> Tensor:
        # A copy, because the caller may change y in place. By `where`, because under vmap y must be batched as soon as
        # one of the two is: if the soft one alone is, its members would share one y and receive each other's gradients.
        return torch.where(torch.ones_like(soft, dtype=torch.bool), hard, soft)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, grad


def value_with_gradient(value: Tensor, gradient_of: Tensor) -> Tensor:
    """`value` bit for bit, with the gradient of `gradient_of` (same shape)."""
    return _GradientOf.apply(value, gradient_of.to(value.dtype))


def call_hard(hard: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """`hard(z)` in the dtype of z, called once, with what a layer needs of it checked.  z: [B, ...] → [B, ...]

    The function is given a copy, which it may write into or return, unless it says that it does neither. A copy and not
    a check afterwards: what is written through `z.numpy()` leaves no trace.
    """
    if not isinstance(z, Tensor) or z.dim() == 0 or not z.is_floating_point():
        raise ValueError(
            f"the input must be a floating-point tensor [B, ...] with a batch dimension, given {_describe(z)}"
        )
    h = hard(z if getattr(hard, "keeps_input", False) else z.clone())
    if not isinstance(h, Tensor) or not h.is_floating_point():
        raise TypeError(
            f"the hard function returned {_describe(h)}, but must return one floating-point tensor: "
            "convert inside it, for example with .to(z.dtype)"
        )
    if h.dim() == 0 or h.shape[0] != z.shape[0]:
        raise ValueError(
            f"the hard function turned {list(z.shape)} into {list(h.shape)}, but must keep the batch dimension "
            f"({z.shape[0]}) first: apply it to each sample"
        )
    return h.to(z.dtype)


def hard_value(hard: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """`call_hard` as a constant: no gradient, whatever the function does inside."""
    with torch.no_grad():
        return call_hard(hard, z).detach()


def zero_penalty(z: Tensor) -> Tensor:
    """The penalty of a layer that has none: zeros [B]."""
    return z.new_zeros(z.shape[0], dtype=working_dtype(z))


def _describe(value: object) -> str:
    return f"a {value.dtype} tensor {list(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
