"""Quantisers with a literature of their own: finite scalars, and vectors with a learned codebook."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from processes import run_workers
from safetensors.torch import load_file
from torch import Tensor, nn

import dab
from dab.engine.build import build_task
from dab.engine.launch import launch
from dab.engine.run import Run
from dab.estimators import VectorQuantization
from dab.estimators.vector_quantization import rotated
from dab.hard import Levels, Nearest
from dab.measure import measure
from dab.metrics.codes import code_statistics

FAR = 100.0


def gradient(layer: nn.Module, z: Tensor, g: Tensor) -> Tensor:
    return torch.autograd.grad((layer(z)[0] * g).sum(), z)[0]


# Finite scalars


@pytest.mark.parametrize("levels", [2, 3, 5, 8])
def test_every_unit_becomes_the_nearest_level(levels: int) -> None:
    hard = Levels(levels)
    values = torch.tensor(hard.values)
    assert len(values) == levels and values[0] == -1 and values[-1] == 1
    torch.testing.assert_close(values.diff(), torch.full((levels - 1,), 2 / (levels - 1)))
    z = 2 * torch.randn(2000, 1)
    assert torch.equal(hard(z)[:, 0], values[(torch.tanh(z) - values).abs().argmin(1)])
    edges = torch.tensor([hard.edges], dtype=torch.double)
    assert hard(edges - 1e-9)[0].tolist() == hard.values[:-1]
    assert hard(edges + 1e-9)[0].tolist() == hard.values[1:]
    assert hard(torch.tensor([[-math.inf, math.inf]])).tolist() == [[-1, 1]]


def test_straight_through_levels_passes_the_tanh() -> None:
    z, g = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    through_tanh = g * (1 - torch.tanh(z.detach()) ** 2)
    torch.testing.assert_close(gradient(dab.StraightThrough(Levels(5)), z, g), through_tanh)
    assert torch.equal(gradient(dab.StraightThrough(Levels(5), through="logit"), z, g), g)


@pytest.mark.parametrize("levels", [2, 5, 8])
def test_levels_are_those_of_the_library(levels: int) -> None:
    """Its symmetric form, to rounding; its default, for odd levels, scales the tanh by 1.001 before it rounds."""
    library = pytest.importorskip("vector_quantize_pytorch")
    z, g = 1.5 * torch.randn(40, 3, 2), torch.randn(40, 3, 2)
    ours = dab.StraightThrough(Levels(levels))
    value, passed = ours(z)[0], gradient(ours, z.requires_grad_(), g)
    for symmetric, scale in ((True, 1.0), (False, 1.001)):
        if levels % 2 == 0 and not symmetric:
            continue
        theirs = library.FSQ([levels] * 2, preserve_symmetry=symmetric)
        found = theirs(z)[0]
        apart = (torch.tanh(z.detach())[..., None] - torch.tanh(torch.tensor(ours.hard.edges))).abs().amin(-1)
        clear = apart > scale - 1 + 1e-6
        assert clear.float().mean() > 0.95
        torch.testing.assert_close(found[clear], value[clear], rtol=0, atol=1e-6)
        torch.testing.assert_close(torch.autograd.grad((found * g).sum(), z)[0], scale * passed, rtol=1e-5, atol=1e-6)


# Vectors


def settled(words: int = 6, dim: int = 3, **options) -> VectorQuantization:
    """A layer that has a codebook and no need to start from the first batch."""
    layer = VectorQuantization(Nearest(words, dim), **options)
    layer.usage.fill_(1.0)
    layer.sums.copy_(layer.hard.codebook.detach())
    layer.batches.fill_(1)
    return layer


def words_of(layer: VectorQuantization) -> Tensor:
    return layer.hard.codebook.detach().clone()


def brute_force(z: Tensor, codebook: Tensor) -> Tensor:
    return (z.unsqueeze(-2) - codebook).square().sum(-1).argmin(-1)


@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 4, 3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.double, torch.bfloat16], ids=str)
def test_every_vector_becomes_the_nearest_word(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    hard, z = Nearest(7, 3), torch.randn(6, *shape).to(dtype)
    index = brute_force(z.double(), hard.codebook.double())
    assert torch.equal(hard.index(z), index)
    h = hard(z)
    assert h.dtype == dtype and torch.equal(h, hard.codebook[index].to(dtype))
    assert hard(z[:0]).shape == (0, *shape) and hard.out_shape(shape) == shape
    torch.testing.assert_close(torch.func.vmap(lambda sample: hard(sample[None])[0])(z), h)
    assert (hard.bits_per_unit, hard.unit_shape) == (math.log2(7), (3,))
    z.view(6, -1, 3)[1, 0, 2] = torch.nan
    assert torch.equal(hard(z).isnan().view(6, -1).sum(1), torch.tensor([0, 3, 0, 0, 0, 0]))


@pytest.mark.parametrize("learn", ["ema", "loss"])
def test_value_penalty_and_gradients_by_definition(learn: str) -> None:
    layer = settled(learn=learn, commitment=0.3).double()
    z, g = torch.randn(4, 5, 3, dtype=torch.double, requires_grad=True), torch.randn(4, 5, 3, dtype=torch.double)
    y, penalty = layer(z)
    words, index = words_of(layer), brute_force(z.detach(), words_of(layer))
    assert torch.equal(y, words[index])
    away = z.detach() - words[index]
    both = 1.3 if learn == "loss" else 0.3
    torch.testing.assert_close(penalty, both * away.square().sum((1, 2)))
    torch.testing.assert_close(torch.autograd.grad((y * g).sum(), z, retain_graph=True)[0], g)
    torch.testing.assert_close(torch.autograd.grad(penalty.sum(), z, retain_graph=True)[0], 2 * 0.3 * away)
    assert layer.hard.codebook.requires_grad == (learn == "loss")
    if learn == "loss":
        moved = torch.autograd.grad((y * g).sum() + penalty.sum(), layer.hard.codebook)[0]
        wanted = torch.zeros_like(words).index_add_(0, index.flatten(), -2 * away.flatten(0, 1))
        torch.testing.assert_close(moved, wanted)


def rotation(e: Tensor, q: Tensor) -> Tensor:
    """The matrix that turns the direction e into q within their plane and leaves the rest alone.  [D], [D] → [D, D]"""
    beside = q - (q @ e) * e
    sine, cosine = beside.norm(), q @ e
    f = beside / sine
    turn, plane = torch.outer(f, e) - torch.outer(e, f), torch.outer(e, e) + torch.outer(f, f)
    return torch.eye(len(e), dtype=e.dtype) + sine * turn + (cosine - 1) * plane


def test_the_rotation_trick_by_explicit_matrices() -> None:
    torch.manual_seed(0)
    layer = settled(gradient="rotation").double()
    z, g = torch.randn(4, 5, 3, dtype=torch.double, requires_grad=True), torch.randn(4, 5, 3, dtype=torch.double)
    y, _ = layer(z)
    passed = torch.autograd.grad((y * g).sum(), z)[0]
    for x, word, arrived, left in zip(*(t.detach().flatten(0, 1) for t in (z, y, g, passed))):
        turned = rotation(x / x.norm(), word / word.norm())
        torch.testing.assert_close(turned @ turned.T, torch.eye(3, dtype=torch.double))
        scaled = word.norm() / x.norm() * turned
        torch.testing.assert_close(scaled @ x, word)
        torch.testing.assert_close(left, scaled.T @ arrived)


def test_the_rotation_trick_is_finite_at_zero_and_at_the_opposite() -> None:
    x = torch.tensor([[0.0, 0.0], [-1.0, 0.0], [1.0, 0.0]], requires_grad=True)
    y = rotated(x, torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    assert y.isfinite().all() and torch.autograd.grad(y.sum(), x)[0].isfinite().all()


def test_the_first_batch_gives_every_word_a_vector_of_its_own() -> None:
    layer, z = VectorQuantization(Nearest(16, 3), learn="loss", revive=0.0), torch.randn(8, 4, 3)
    random = torch.get_rng_state()
    layer.eval()(z), layer.train()(z[:0])
    with torch.no_grad():
        layer(z)
    assert layer.batches == 0  # nothing but training with gradients moves a codebook
    layer(z)
    assert torch.equal(torch.get_rng_state(), random)
    same = (words_of(layer)[:, None] == z.flatten(0, 1)).all(-1)  # [words, vectors]
    assert torch.equal(same.sum(1), torch.ones(16, dtype=torch.long)) and same.sum(0).max() == 1
    layer(torch.randn(8, 4, 3))
    assert (words_of(layer)[:, None] == z.flatten(0, 1)).all(-1).any(1).all()  # once


def test_words_are_running_means_of_their_vectors() -> None:
    layer = settled(2, 1, decay=0.75, revive=0.0)
    layer.hard.codebook.copy_(torch.tensor([[0.0], [10.0]]))
    layer.sums.copy_(layer.hard.codebook)
    z = torch.tensor([[1.0], [2.0], [3.0], [12.0]])
    layer(z)  # a vector is 1/2 of the average use of a word
    torch.testing.assert_close(layer.usage, torch.tensor([0.75 + 0.25 * 1.5, 0.75 + 0.25 * 0.5]))
    sums = torch.tensor([[0.25 * 3.0], [0.75 * 10 + 0.25 * 6.0]])
    torch.testing.assert_close(words_of(layer), sums / layer.usage[:, None])
    for _ in range(60):
        layer(z)
    torch.testing.assert_close(words_of(layer), torch.tensor([[2.0], [12.0]]))


@pytest.mark.parametrize("learn", ["ema", "loss"])
def test_a_dead_word_is_put_where_vectors_are(learn: str) -> None:
    torch.manual_seed(0)
    for revive in (0.1, 0.0):
        layer, seen = settled(4, 2, learn=learn, decay=0.5, revive=revive), torch.randn(32, 2)
        with torch.no_grad():
            layer.hard.codebook[2], layer.sums[2] = FAR, FAR
        for step in range(7):  # its use halves with each: below 0.1 after the fourth
            layer(seen)
            among = (words_of(layer)[2].abs() <= seen.abs().amax(0)).all()
            assert among == (2 in layer.hard.index(seen)) == (revive > 0 and step >= 4)


def test_a_layer_goes_on_from_its_state_and_loses_it_when_stripped() -> None:
    first = VectorQuantization(Nearest(8, 3), decay=0.5, revive=0.3)
    batches = torch.randn(12, 10, 2, 3)
    for z in batches[:6]:
        first(z)
    second = VectorQuantization(Nearest(8, 3), decay=0.5, revive=0.3)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for z in batches[6:]:
        assert all(torch.equal(a, b) for a, b in zip(first(z), second(z)))
    stripped = dab.strip(first)
    assert list(stripped.state_dict()) == ["hard.codebook"]
    assert torch.equal(stripped(batches[0])[0], first.eval()(batches[0])[0])
    with pytest.raises(RuntimeError, match=r"stripped.*eval"):
        stripped.train()(batches[0])


def test_compiles_in_one_graph_and_is_not_rounded_by_autocast() -> None:
    plain, z = VectorQuantization(Nearest(8, 3), gradient="rotation", decay=0.5), torch.randn(20, 2, 3)
    compiled, cast = copy.deepcopy(plain), copy.deepcopy(plain)
    wanted = [plain(z) for _ in range(3)][-1]
    fast = torch.compile(compiled, fullgraph=True, backend="aot_eager")
    for ours, theirs in zip([fast(z) for _ in range(3)][-1], wanted, strict=True):
        torch.testing.assert_close(ours, theirs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(torch.equal(a, b) for a, b in zip([cast(z) for _ in range(3)][-1], wanted))


@pytest.mark.parametrize("way", ["straight_through", "rotation"])
def test_vector_quantisation_is_the_library_s(way: str) -> None:
    """Value, commitment loss, gradient into z and the moved codebook; it takes the mean over units where we sum."""
    library = pytest.importorskip("vector_quantize_pytorch")
    torch.manual_seed(0)
    ours = settled(12, 4, gradient=way, commitment=0.4, decay=0.8, revive=0.0)
    theirs = library.VectorQuantize(
        4, 12, decay=0.8, commitment_weight=0.4, rotation_trick=way == "rotation", threshold_ema_dead_code=0
    )
    theirs._codebook.embed.copy_(words_of(ours))
    theirs._codebook.embed_avg.copy_(words_of(ours))
    z, g = torch.randn(3, 4, 4, requires_grad=True), torch.randn(3, 4, 4)  # as many vectors as words: their unit of use
    assert torch.equal(ours.hard.index(z), theirs(z)[1])  # it quantises, then moves the codebook; we move it first
    value, _, loss = theirs(z, freeze_codebook=True)
    y, penalty = ours(z)
    ways = [(words_of(ours), y, penalty.sum()), (theirs.codebook, value, 48 * loss)]
    gradients = [torch.autograd.grad((out * g).sum() + lost, z)[0] for _, out, lost in ways]
    for found, wanted in zip((*ways[0], gradients[0]), (*ways[1], gradients[1])):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)  # it smooths the counts


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Levels(1), r"levels must be a whole number in \[2, .*given 1"),
        (lambda: Nearest(1), r"words must be a whole number in \[2, .*given 1"),
        (lambda: Nearest(4, 3)(torch.randn(2, 4)), r"words of 3 numbers .*\[4\].*change dim"),
        (lambda: VectorQuantization(Levels()), "words of dab.hard.Nearest, given Levels"),
        (lambda: VectorQuantization(Nearest(), gradient="tanh"), "straight_through, rotation"),
        (lambda: VectorQuantization(Nearest(), learn="sgd"), "ema, loss"),
        (lambda: VectorQuantization(Nearest(), decay=1.0), r"decay must be a number in \[0, 1\), given 1.0"),
    ],
)
def test_impossible_requests_say_why(call, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


# In the engine

VQ = ["hard=nearest", "hard.words=16", "hard.dim=4", "estimator=vector_quantization"]


def representation(config, *words: str) -> dict:
    return config("experiment=representation/fashion_mnist", "model.bpp=0.5", "task.probes=false", *words)


@pytest.mark.parametrize(
    ("words", "shape"),
    [
        (["hard=levels", "estimator=straight_through"], (13,)),
        (["hard=levels", "hard.levels=8", "approximator=matched"], (10,)),
        ([*VQ, "estimator.gradient=rotation"], (8, 4)),
        ([*VQ, "estimator.learn=loss"], (8, 4)),
        (["hard=nearest", "estimator=straight_through"], (5, 8)),  # a codebook that stays as it is drawn
    ],
    ids=["fsq", "matched levels", "vq", "vq by loss", "fixed words"],
)
def test_rows_of_the_study(words: list[str], shape: tuple[int, ...], config) -> None:
    task = build_task(representation(config, *words), (1, 8, 8))
    x = torch.rand(300, 1, 8, 8)
    loss, _ = task.loss((x,))
    loss.backward()
    learned = [p for p in task.parameters() if p.requires_grad]
    assert all(p.grad is not None and p.grad.isfinite().all() for p in learned)  # as DDP wants it
    hard = task.model.hard
    codes = task.model.eval().code(x)
    assert codes.shape[1:] == shape and task.model.bits <= 32
    said = code_statistics(codes, hard.bits_per_unit, getattr(hard, "unit_shape", ()))
    assert said["units"] == shape[0] and said["nominal_bits"] == pytest.approx(task.model.bits)


@pytest.mark.usefixtures("no_curves")
def test_a_run_is_reconstructed_from_its_saved_weights_alone(config) -> None:
    made = representation(config, *VQ, "estimator.gradient=rotation")
    assert launch(made) == 0
    assert "hard.codebook" in load_file(Run(made).dir / "model.safetensors")
    assert measure(Run(made).dir) == Run(made).result["metrics"]  # bit for bit


@pytest.mark.slow
@pytest.mark.parametrize("learn", ["ema", "loss"])
def test_two_workers_have_one_codebook(learn: str, config, tmp_path) -> None:
    """The engine compares their parameters at every checkpoint."""
    options = [f"estimator.learn={learn}", "estimator.decay=0.8", "estimator.revive=0.3", "trainer.save_every=4"]
    made = representation(config, *VQ, *options, "trainer.devices=2")
    assert run_workers(made, tmp_path) == [0, 0]
    assert Run(made).result["world"] == 2
