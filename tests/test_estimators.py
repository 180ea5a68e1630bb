"""Layer estimators: one interface, each with its own gradient."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

import dab
from dab import NoHard, StraightThrough, TrueGradient
from dab.hard import Bernoulli, Signum, Sort1d, TopK

LAYERS = [
    StraightThrough(Signum()),
    StraightThrough(lambda z: z.round()),
    TrueGradient(Sort1d()),
    NoHard(),
    dab.Bridge(Signum(), nn.Tanh()),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
@pytest.mark.parametrize("training", [True, False])
def test_one_interface(layer: nn.Module, training: bool) -> None:
    z = torch.randn(3, 4, 5, requires_grad=True)
    y, penalty = layer.train(training)(z)
    hard = getattr(layer, "hard", lambda z: z)
    assert torch.equal(y, hard(z.detach()))
    assert penalty.shape == (3,) and penalty.dtype == torch.float32
    if not isinstance(layer, dab.Bridge):
        assert not penalty.any() and not penalty.requires_grad


def gradient(layer: nn.Module, z: Tensor, g: Tensor) -> Tensor:
    return torch.autograd.grad((layer(z)[0] * g).sum(), z)[0]


def test_straight_through_is_the_identity_backward() -> None:
    z, g = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    assert torch.equal(gradient(StraightThrough(Signum()), z, g), g)


def test_straight_through_a_bernoulli_passes_the_sigmoid() -> None:
    z, g = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    p = torch.sigmoid(z.detach())
    through_p = g * p * (1 - p)
    torch.testing.assert_close(gradient(StraightThrough(Bernoulli()), z, g), through_p)
    torch.testing.assert_close(gradient(StraightThrough(Signum(), through="probability"), z, g), through_p)
    assert torch.equal(gradient(StraightThrough(Bernoulli(), through="logit"), z, g), g)


def test_straight_through_is_bitwise_hard() -> None:
    z = torch.tensor([[1e8, -1e8, float("inf"), 0.1]])
    y, _ = StraightThrough(lambda t: torch.full_like(t, 0.1))(z)
    assert torch.equal(y, torch.full_like(z, 0.1))  # 0.1 + z - z would not be


def test_straight_through_refuses_functions_that_change_the_shape() -> None:
    with pytest.raises(ValueError, match=r"\[2, 6\] into \[2, 3\].*Bridge"):
        StraightThrough(TopK(3))(torch.randn(2, 6))
    with pytest.raises(ValueError, match="auto, logit, probability"):
        StraightThrough(Signum(), through="mean")


def test_the_true_gradient_of_topk() -> None:
    z = torch.tensor([[3.0, 1.0, 2.0]], requires_grad=True)
    y, _ = TrueGradient(TopK(2))(z)
    (y * torch.tensor([[10.0, 20.0]])).sum().backward()
    assert z.grad.tolist() == [[10.0, 0.0, 20.0]]


def test_the_true_gradient_of_kmeans_averages_within_clusters() -> None:
    z = torch.tensor([[[0.0, 0.2, 9.0, 9.4]]], dtype=torch.double, requires_grad=True)  # one channel, four positions
    y, _ = TrueGradient(dab.hard.KMeans(2))(z)
    (y * torch.tensor([1.0, 3.0, 5.0, 9.0])).sum().backward()
    torch.testing.assert_close(z.grad, torch.tensor([[[2.0, 2.0, 7.0, 7.0]]], dtype=torch.double))


def test_import_needs_torch_alone() -> None:
    """With everything the suite uses made impossible to import, the library still works."""
    blocked = ["numpy", "sklearn", "torchvision", "hydra", "omegaconf", "wandb", "matplotlib", "rich", "safetensors"]
    # torch itself takes numpy if it is there, so it comes first.
    code = f"""
import sys, torch
for name in {blocked!r}:
    for loaded in [m for m in sys.modules if m.split('.')[0] == name]:
        del sys.modules[loaded]
    sys.modules[name] = None
import dab
hard = dab.hard.Signum()
dab.Bridge(hard, dab.approximators.auto(hard, (4,)))(torch.randn(2, 4))
print(dab.__version__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == dab.__version__, done.stderr
