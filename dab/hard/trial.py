"""What a hard function does not tell of itself is found by trying it: random samples, on the CPU, without a trace."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from dab.keys import generator, seed_device
from dab.surrogate import call_hard

Hard = Callable[[Tensor], Tensor]
ROWS = 32  # samples of a probe
ALONE = 4  # samples that are tried one by one


def out_shape(hard: Hard, in_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of one output sample of `hard`: as it says, or by trying it on two random samples."""
    told = getattr(hard, "out_shape", None)
    if callable(told):
        return tuple(told(tuple(in_shape)))
    try:
        return tuple(_tried(hard, _samples((2, *in_shape), "shape")).shape[1:])
    except Exception as error:
        raise ValueError(
            f"could not find the output shape of {hard} by trying it on a CPU tensor {[2, *in_shape]} ({error}): "
            "give it a method out_shape(in_shape)"
        ) from error


def acts_on_units(hard: Hard, in_shape: tuple[int, ...]) -> bool:
    """Whether `hard` applies one and the same function to every single unit, by four calls with random samples.

    It may draw; its noise must come from torch. A function that fails on these samples does not count as one.
    """
    try:
        return _units_stay_apart(hard, tuple(in_shape)) and _units_are_alike(hard, tuple(in_shape))
    except Exception:  # whatever somebody's function does with a probe: nothing was promised to it
        return False


def acts_on_rows(hard: Hard, z: Tensor) -> bool:
    """Whether a sample's output does not depend on the others of its batch, by trying some of these alone.

    What draws its output counts as one that depends: the noise of a sample may well be another in another batch.
    """
    try:
        together = _tried(hard, z)[:ALONE]
        return torch.allclose(torch.cat([_tried(hard, row) for row in z[:ALONE].split(1)]), together, equal_nan=True)
    except Exception:  # one that needs several samples, say
        return False


def _units_stay_apart(hard: Hard, in_shape: tuple[int, ...]) -> bool:
    """Another value of one unit, with the same noise, moves that unit of the output and no other."""
    x = _samples((ROWS, *in_shape), "samples")
    units = x[0].numel()
    chosen = torch.randint(units, (ROWS, 1), generator=generator("unit"))
    changed = torch.zeros(ROWS, units, dtype=torch.bool).scatter_(1, chosen, True).view_as(x)
    before = _tried(hard, x)
    after = _tried(hard, torch.where(changed, 10 * x.flip(0), x))  # often an extreme one: it enters every top k
    return before.shape == x.shape and bool((_same(before, after) | changed).all())


def _units_are_alike(hard: Hard, in_shape: tuple[int, ...]) -> bool:
    """Units with the same input have the same output; if it is drawn, the same mean."""
    x = _samples((ROWS, *[1] * len(in_shape)), "values").expand(ROWS, *in_shape)
    first, second = _tried(hard, x).flatten(1), _tried(hard, x, seed=1).flatten(1)  # [ROWS, units]
    if _same(first, second).all():
        return torch.allclose(first, first[:, :1], equal_nan=True)
    drawn = torch.cat([first, second])
    difference = drawn - drawn.mean(1, keepdim=True)  # of each unit from the others of its sample
    deviation = difference.mean(0).square() * len(drawn) / difference.square().mean()  # about 1 each, by chance alone
    return bool(deviation.sum() < len(deviation) + 6 * (2 * len(deviation)) ** 0.5)


def _same(a: Tensor, b: Tensor) -> Tensor:
    return (a == b) | (a.isnan() & b.isnan())


def _samples(shape: tuple[int, ...], name: str) -> Tensor:
    """Normal samples, small, middle and large ones in turn."""
    size = torch.tensor([1.0, 0.1, 10.0]).repeat(shape[0])[: shape[0]]
    return torch.randn(shape, generator=generator(name)) * size.view(-1, *[1] * (len(shape) - 1))


def _tried(hard: Hard, samples: Tensor, seed: int = 0) -> Tensor:
    trial = copy.deepcopy(hard) if isinstance(hard, nn.Module) else hard  # running statistics stay as they were
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        seed_device(seed, torch.device("cpu"))
        return call_hard(trial, samples)
