"""The bridge under compile, autocast, DDP, torch.func and odd inputs gives what it gives alone."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.parallel import DistributedDataParallel

import dab
from dab.engine.distributed import leave_workers

ROUTINGS = ("released", "equation", "additive")


def make_bridge(routing: str, hard: nn.Module | None = None) -> dab.Bridge:
    torch.manual_seed(0)
    hard = hard or dab.hard.Signum()
    return dab.Bridge(hard, dab.approximators.dense(hard, (6,), hidden=(5,)), routing=routing)


def loss_of(bridge: nn.Module, z: Tensor) -> Tensor:
    y, penalty = bridge(z)
    return y.flatten(1).sin().sum(1).mean() + penalty.mean()


def gradients(bridge: nn.Module, z: Tensor) -> list[Tensor]:
    z = z.detach().requires_grad_()
    return list(torch.autograd.grad(loss_of(bridge, z), [z, *bridge.parameters()]))


@pytest.mark.parametrize("routing", ROUTINGS)
def test_compiled_in_one_graph(routing: str) -> None:
    bridge = make_bridge(routing)
    z = torch.randn(8, 6)
    compiled = torch.compile(bridge, fullgraph=True)
    assert torch.equal(compiled(z)[0], bridge.hard(z))
    for ours, plain in zip(gradients(compiled, z), gradients(bridge, z), strict=True):
        torch.testing.assert_close(ours, plain)


def test_a_moving_cap_does_not_recompile() -> None:
    hard = dab.hard.Signum()
    net = dab.approximators.matched(hard, (6,), cap=8.0, cap_start=1.0, slope=20.0)
    bridge = dab.Bridge(hard, net)
    z = torch.randn(8, 6)
    compiled = torch.compile(bridge, fullgraph=True)
    gradients(compiled, z)
    with torch.compiler.set_stance("fail_on_recompile"):
        for fraction in (0.3, 0.6, 1.0):
            net.set_progress(fraction)
            for ours, plain in zip(gradients(compiled, z), gradients(bridge, z), strict=True):
                torch.testing.assert_close(ours, plain)


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_float32_inside_autocast(routing: str, half: torch.dtype) -> None:
    bridge = make_bridge(routing)
    z = torch.randn(8, 6).to(half)
    with torch.autocast("cpu", dtype=half):
        y, penalty = bridge(z)
        under = gradients(bridge, z)
    assert y.dtype == half and torch.equal(y, bridge.hard(z))
    assert penalty.dtype == torch.float32
    _, wide = bridge(z.float())
    assert torch.equal(penalty, wide)  # nothing inside was rounded to half
    assert under[0].dtype == half
    assert all(g.dtype == torch.float32 for g in under[1:])
    assert bridge.eval()(z)[1].dtype == torch.float32


@pytest.mark.parametrize("routing", ROUTINGS)
def test_double_stays_double(routing: str) -> None:
    bridge = make_bridge(routing).double()
    z = torch.randn(8, 6, dtype=torch.double)
    y, penalty = bridge(z)
    assert y.dtype == penalty.dtype == torch.double
    assert all(g.dtype == torch.double for g in gradients(bridge, z))
    assert bridge.eval()(z)[1].dtype == torch.double


@pytest.mark.parametrize("routing", ROUTINGS)
def test_torch_func_gradients_of_inputs_and_parameters(routing: str) -> None:
    bridge = make_bridge(routing).double()
    z = torch.randn(8, 6, dtype=torch.double)
    params = {name: p.detach() for name, p in bridge.named_parameters()}

    def loss(params: dict[str, Tensor], z: Tensor) -> Tensor:
        y, penalty = functional_call(bridge, params, (z,))
        return y.sin().sum(1).mean() + penalty.mean()

    of_params, of_z = grad(loss, argnums=(0, 1))(params, z)
    per_sample_params, per_sample_z = vmap(grad(lambda p, v: loss(p, v[None]), argnums=(0, 1)), in_dims=(None, 0))(
        params, z
    )
    plain_z, *plain_params = gradients(bridge, z)
    torch.testing.assert_close(of_z, plain_z)
    torch.testing.assert_close(per_sample_z / 8, plain_z)
    for name, plain in zip(params, plain_params, strict=True):
        torch.testing.assert_close(of_params[name], plain)
        torch.testing.assert_close(per_sample_params[name].mean(0), plain)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_an_ensemble_of_approximators_by_vmap(routing: str) -> None:
    bridge = make_bridge(routing).double()
    z = torch.randn(8, 6, dtype=torch.double)
    scale = torch.tensor([0.5, 1.0, 2.0], dtype=torch.double)
    stacked = {name: torch.stack([c * p.detach() for c in scale]) for name, p in bridge.named_parameters()}

    def loss(params: dict[str, Tensor]) -> Tensor:
        y, penalty = functional_call(bridge, params, (z,))
        return y.sin().sum(1).mean() + penalty.mean()

    together = grad(lambda stack: vmap(loss)(stack).sum())(stacked)
    for i in range(len(scale)):
        alone = grad(loss)({name: p[i] for name, p in stacked.items()})
        for name in alone:
            torch.testing.assert_close(together[name][i], alone[name])


@pytest.mark.parametrize("routing", ROUTINGS)
def test_non_contiguous_inputs(routing: str) -> None:
    bridge = make_bridge(routing).double()
    z = torch.randn(6, 16, dtype=torch.double)[:, ::2].T
    assert not z.is_contiguous()
    assert torch.equal(bridge(z)[0], bridge.hard(z))
    for strided, plain in zip(gradients(bridge, z), gradients(bridge, z.contiguous()), strict=True):
        torch.testing.assert_close(strided, plain)


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("shape", [(6,), (3, 2, 1)])
@pytest.mark.parametrize("loss", ["l2", "cosine", "cross_entropy"])
def test_an_empty_batch(routing: str, shape: tuple[int, ...], loss: str) -> None:
    hard = dab.hard.Signum()
    bridge = dab.Bridge(hard, dab.approximators.dense(hard, shape), routing=routing, loss=loss)
    z = torch.randn(0, *shape, requires_grad=True)
    y, penalty = bridge(z)
    assert y.shape == z.shape and penalty.shape == (0,)
    (y.sum() + penalty.sum()).backward()
    assert all(not p.grad.any() for p in bridge.parameters())
    assert bridge.eval()(z)[1].shape == (0,)


def test_the_meta_device_gives_shapes() -> None:
    y, penalty = make_bridge("equation").to("meta")(torch.randn(8, 6, device="meta"))
    assert y.shape == (8, 6) and penalty.shape == (8,)


class Net(nn.Module):
    def __init__(self, routing: str) -> None:
        super().__init__()
        self.bridge = make_bridge(routing)
        self.before = nn.Linear(3, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.bridge(self.before(x))


class InlineNet(Net):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = dab.inline(self.bridge)(self.before(x))
        return y, y.new_zeros(len(y))


def _ddp_worker(rank: int, store: str, x: Tensor, expected: list[list[Tensor]]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    for routing, wanted in zip(ROUTINGS, expected, strict=True):
        for kind in (Net, InlineNet):
            net = DistributedDataParallel(kind(routing))
            loss_of(net, x[rank::2]).backward()
            for p, plain in zip(net.parameters(), wanted, strict=True):
                torch.testing.assert_close(p.grad, plain)
    leave_workers(0)


def test_two_ddp_processes_give_the_gradient_of_the_whole_batch(tmp_path: Path) -> None:
    x = torch.randn(8, 3)
    expected = []
    for routing in ROUTINGS:
        net = Net(routing)
        expected.append([g.detach() for g in torch.autograd.grad(loss_of(net, x), list(net.parameters()))])
    mp.spawn(_ddp_worker, args=(str(tmp_path / "store"), x, expected), nprocs=2)
