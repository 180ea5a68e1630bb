"""Inference copies: same outputs, without what only training needs."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import dab


class Model(nn.Module):
    """Two bridges, one of them nested."""

    def __init__(self) -> None:
        super().__init__()
        signum, topk = dab.hard.Signum(), dab.hard.TopK(3)
        self.before = nn.Linear(4, 8)
        self.inner = nn.ModuleDict({"bridge": dab.Bridge(signum, dab.approximators.auto(signum, (8,)))})
        self.outer = dab.Bridge(topk, dab.approximators.dense(topk, (8,)))
        self.after = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, first = self.inner["bridge"](self.before(x))
        y, second = self.outer(y)
        return self.after(y), first + second


@pytest.fixture
def model() -> Model:
    torch.manual_seed(0)
    return Model()


def test_same_outputs_without_approximators(model: Model) -> None:
    x = torch.randn(5, 4)
    stripped = dab.strip(model)
    wanted = model.eval()(x)
    for ours, theirs in zip(stripped(x), wanted, strict=True):
        assert torch.equal(ours, theirs)
    assert {key.split(".")[0] for key in stripped.state_dict()} == {"before", "after"}
    assert len(list(stripped.parameters())) == 4


def test_the_original_is_left_as_it_was(model: Model) -> None:
    keys = list(model.state_dict())
    stripped = dab.strip(model)
    assert model.training and list(model.state_dict()) == keys
    with torch.no_grad():
        stripped.before.weight.zero_()
    assert model.before.weight.any()
    model(torch.randn(5, 4))[1].mean().backward()


def test_a_bridge_alone_can_be_stripped() -> None:
    z = torch.randn(3, 4)
    assert torch.equal(dab.strip(dab.Bridge(torch.sign, nn.Linear(4, 4)))(z)[0], torch.sign(z))


def test_a_stripped_model_refuses_to_train(model: Model) -> None:
    stripped = dab.strip(model).train()
    with pytest.raises(RuntimeError, match=r"stripped.*eval"):
        stripped(torch.randn(5, 4))
    assert stripped.eval()(torch.randn(5, 4))[0].shape == (5, 2)


def test_exports_for_any_batch_size(model: Model) -> None:
    stripped = dab.strip(model)
    batch = torch.export.Dim("batch")
    program = torch.export.export(stripped, (torch.randn(5, 4),), dynamic_shapes=({0: batch},))
    x = torch.randn(11, 4)
    for ours, theirs in zip(program.module()(x), stripped(x), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_safetensors_round_trip(model: Model, tmp_path: Path) -> None:
    stripped = dab.strip(model)
    save_file(stripped.state_dict(), tmp_path / "model.safetensors")
    torch.manual_seed(1)
    other = dab.strip(Model())
    x = torch.randn(5, 4)
    assert not torch.equal(other(x)[0], stripped(x)[0])
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(other(x)[0], stripped(x)[0])
