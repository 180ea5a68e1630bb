"""What every layer estimator does: call the hard function, give its value another gradient, report a penalty."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dab.precision import working_dtype
from dab.stateless import buffers_by_name, call_with


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


class _GradientBy(torch.autograd.Function):
    """Forward: the hard value. Backward: what `rule` makes of the gradient that arrives."""

    generate_vmap_rule = True

    @staticmethod
    def forward(hard: Tensor, z: Tensor, rule: Callable[..., Tensor], *constants: Tensor) -> Tensor:
        return torch.where(torch.ones_like(z, dtype=torch.bool), hard, z)  # batched as soon as z is: see _GradientOf

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        value, z, ctx.rule, *constants = inputs
        ctx.save_for_backward(value, z, *constants)
        ctx.constants = len(constants)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, ctx.rule(grad, *ctx.saved_tensors), None, *[None] * ctx.constants


def value_with_rule(value: Tensor, z: Tensor, rule: Callable[..., Tensor], *constants: Tensor) -> Tensor:
    """`value` bit for bit; where the gradient g arrives, z (same shape) gets rule(g, value, z, *constants)."""
    return _GradientBy.apply(value, z, rule, *constants)


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


def values_at(hard: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
    """The hard function at several batches, as a constant that leaves no trace in it.  [K, B, ...] → [K, B, ...]

    One call with K·B rows; for a function that is not row-wise (see `row_wise`) K calls with B rows each. Running means
    and other buffers stay as they are: they belong to the data, and these are points beside it.
    """
    if row_wise(hard):
        return _without_trace(hard, points.flatten(0, 1)).unflatten(0, points.shape[:2])
    return torch.stack([_without_trace(hard, batch) for batch in points])


def row_wise(hard: Callable[[Tensor], Tensor]) -> bool:
    """Whether a sample's output depends on that sample alone: so it is unless the function says `row_wise = False`."""
    return getattr(hard, "row_wise", True)


def _without_trace(hard: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    if not isinstance(hard, nn.Module) or not (buffers := buffers_by_name(hard)):
        return hard_value(hard, z)
    return hard_value(partial(call_with, hard, {name: b.clone() for name, b in buffers.items()}), z)


def shape_reason(who: str, before: Sequence[int], after: Sequence[int], hard: str = "this one") -> str | None:
    """Why an estimator that adds a gradient of the output to the input cannot go with `hard`, or None."""
    if tuple(before) == tuple(after):
        return None
    return (
        f"{who} needs a hard function that keeps the shape, but {hard} turns {list(before)} into {list(after)}: "
        "use dab.Bridge, or dab.estimators.Smoothing"
    )


def check_shape_kept(who: str, z: Tensor, h: Tensor) -> None:
    if reason := shape_reason(who, z.shape, h.shape):
        raise ValueError(reason)


def zero_penalty(z: Tensor) -> Tensor:
    """The penalty of a layer that has none: zeros [B]."""
    return z.new_zeros(z.shape[0], dtype=working_dtype(z))


def _describe(value: object) -> str:
    return f"a {value.dtype} tensor {list(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
