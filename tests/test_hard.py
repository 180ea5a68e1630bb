"""Hard functions: values, shapes, bits, and the contract they share."""

import copy
import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans as ScikitKMeans
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

import dab
from dab.hard import (
    Argmax,
    Bernoulli,
    Binary,
    KMeans,
    Levels,
    Ranks,
    Round,
    ShortestPath,
    Signum,
    Sort,
    Sort1d,
    Staircase,
    Threshold,
    TopK,
    TopKMask,
)
from dab.hard.kmeans import Points, farthest_points, lloyd

EVERY = [
    (Signum(), (6,), math.log2(3)),
    (Binary(), (6,), 1.0),
    (Binary("batch"), (6,), 1.0),
    (Binary("zero"), (2, 4, 4), 1.0),
    (Bernoulli(), (6,), 1.0),
    (Threshold(), (6,), 1.0),
    (Levels(5), (6,), math.log2(5)),
    (Levels(8), (2, 4, 4), 3.0),
    (Round(), (6,), None),
    (Staircase(), (2, 4, 4), 2.0),
    (Argmax(4), (3, 4), 2.0),
    (TopKMask(2), (6,), 1.0),
    (TopKMask(5), (3, 4, 5), 1.0),
    (Ranks(), (6,), None),
    (Ranks(), (3, 4, 5), None),
    (ShortestPath(2, 3), (7,), 1.0),
    (ShortestPath(4, 3, "nodes"), (4, 3), 1.0),
    (Sort(), (3, 4, 5), None),
    (Sort(), (4, 5), None),
    (Sort1d(), (3, 4, 5), None),
    (TopK(2), (3, 4, 5), None),
    (TopK(2), (4, 5), None),
    (TopK(2), (6,), None),
    (KMeans(3), (2, 4, 4), None),
    (KMeans(3, points="channels"), (5, 4, 4), None),
    (KMeans(3, output="centroids"), (2, 4, 4), None),
    (KMeans(3, points="channels", output="centroids"), (5, 4, 4), None),
    (KMeans(3, start="kmeans++"), (2, 4, 4), None),
]


@pytest.mark.parametrize(("hard", "shape", "bits"), EVERY, ids=[f"{h}-{s}" for h, s, _ in EVERY])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_contract(hard: nn.Module, shape: tuple[int, ...], bits: float | None, dtype: torch.dtype) -> None:
    z = torch.randn(3, *shape, dtype=dtype)
    before = z.clone()
    h = hard(z)
    assert h.shape == (3, *hard.out_shape(shape)) and h.dtype == dtype
    assert torch.equal(z, before)
    assert hard(z[:0]).shape == (0, *hard.out_shape(shape))
    assert hard.bits_per_unit == bits
    if bits is not None:
        assert len(h.unique()) <= round(2**bits)


DETERMINISTIC = [(h, s) for h, s, _ in EVERY if not isinstance(h, Bernoulli) and getattr(h, "reference", "") != "batch"]


@pytest.mark.parametrize(("hard", "shape"), DETERMINISTIC, ids=[f"{h}-{s}" for h, s in DETERMINISTIC])
def test_samples_stay_apart_and_vmap_agrees(hard: nn.Module, shape: tuple[int, ...]) -> None:
    z = torch.randn(4, *shape, dtype=torch.double)
    h = hard(z)
    torch.testing.assert_close(torch.cat([hard(sample[None]) for sample in z]), h)
    torch.testing.assert_close(vmap(lambda sample: hard(sample[None])[0])(z), h)


@pytest.mark.parametrize(
    "hard", [Binary("batch"), Bernoulli(), TopK(2), KMeans(3, 2), KMeans(3, 1, start="kmeans++")], ids=str
)
def test_compiles_in_one_graph(hard: nn.Module) -> None:
    z = torch.randn(3, 2, 4, 4)
    compiled = torch.compile(hard, fullgraph=True, backend="aot_eager")
    torch.manual_seed(0)
    ours = [compiled(z), compiled(z)]
    if not isinstance(hard, Bernoulli):
        torch.testing.assert_close(ours[1], hard(z))
    assert ours[0].shape == hard(z).shape


def test_signum_edges() -> None:
    z = torch.tensor([[-2.0, -0.5, -0.0, 0.5, 0.500001, -0.500001]])
    assert Signum()(z).tolist() == [[-1, 0, 0, 0, 1, -1]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.double])
@pytest.mark.parametrize("eps", [0.0, 1e-40, 1e-6, 0.1, 0.5, 7.0])
def test_signum_equals_two_comparisons(dtype: torch.dtype, eps: float) -> None:
    edge, tiny = torch.tensor(eps).to(dtype), torch.tensor(torch.finfo(dtype).tiny, dtype=dtype)
    above = torch.nextafter(edge.float(), torch.tensor(math.inf)).to(dtype)
    near = torch.stack([edge, above, tiny, torch.zeros_like(edge), torch.full_like(edge, math.inf)])
    z = torch.cat([torch.randn(1000).to(dtype), near, -near])[None]
    wanted = (z > eps).to(dtype) - (z < -eps).to(dtype)
    assert torch.equal(Signum(eps)(z), wanted)
    assert torch.equal(Signum(eps)(z).signbit(), wanted.signbit())


@pytest.mark.parametrize(("hard", "shape"), [(h, s) for h, s, _ in EVERY], ids=[f"{h}-{s}" for h, s, _ in EVERY])
@pytest.mark.parametrize("training", [True, False])
def test_nan_comes_out_as_nan_in_its_own_sample(hard: nn.Module, shape: tuple[int, ...], training: bool) -> None:
    z = torch.randn(3, *shape)
    z.flatten(1)[1, 2] = torch.nan
    hard = copy.deepcopy(hard).train(training)
    h = hard(z).flatten(1)
    assert h[1].isnan().any()
    if getattr(hard, "reference", "") != "batch" or not training:
        assert not h[[0, 2]].isnan().any()
    if hard.bits_per_unit is not None:
        assert h[1, 2].isnan()


def test_staircase_edges_and_heights() -> None:
    z = torch.tensor([[-9.0, -1.0, -0.01, 0.0, 0.99, 1.0, 9.0]])
    assert Staircase()(z).tolist() == [[-1, 0.5, 0.5, -0.5, -0.5, 1, 1]]
    assert Staircase((0, 3, 0), width=2)(z).tolist() == [[0, 3, 3, 3, 3, 0, 0]]


def every_way(height: int, width: int) -> Iterator[list[tuple[str, int, int]]]:
    """All ways through a grid, as moves (right or down, from row, from column)."""
    steps = height + width - 2
    for downs in combinations(range(steps), height - 1):
        i, way = 0, []
        for step in range(steps):
            way.append(("down" if step in downs else "right", i, step - i))
            i += step in downs
        yield way


@pytest.mark.parametrize(("height", "width"), [(5, 5), (3, 4), (1, 3), (3, 1)])
def test_the_shortest_path_is_the_cheapest_of_all(height: int, width: int) -> None:
    """Edges in the order of PyEPO's grids: of each row its moves to the right, then those down from it."""
    torch.manual_seed(0)
    hard, nodes = ShortestPath(height, width), ShortestPath(height, width, "nodes")
    z, ways = torch.randn(20, hard.units, dtype=torch.double), list(every_way(height, width))
    order = [(m, i, j) for i in range(height) for m in ("right", "down") for j in range(width)]
    order = [(m, i, j) for m, i, j in order if (j + 1 < width if m == "right" else i + 1 < height)]
    by_edges = torch.tensor([[float(edge in way) for edge in order] for way in ways], dtype=torch.double)
    assert torch.equal(hard(z), by_edges[(z @ by_edges.T).argmin(1)])
    z = torch.randn(20, height, width, dtype=torch.double)
    by_nodes = torch.zeros(len(ways), height, width, dtype=torch.double)
    for visited, way in zip(by_nodes, ways):
        visited[-1, -1] = 1
        for _, i, j in way:
            visited[i, j] = 1
    assert torch.equal(nodes(z), by_nodes[(z.flatten(1) @ by_nodes.flatten(1).T).argmin(1)])


def test_a_path_through_walls() -> None:
    """Where all ways cost infinitely much one of them is taken; of equal ways the one that goes right first."""
    assert ShortestPath(2, 2)(torch.full((1, 4), math.inf)).tolist() == [[1, 0, 1, 0]]
    assert ShortestPath(2, 2)(torch.zeros(1, 4)).tolist() == [[1, 0, 1, 0]]
    with pytest.raises(ValueError, match=r"needs samples of shape \[40\], given \[4\]"):
        ShortestPath()(torch.zeros(1, 4))


def test_choices_and_places_among_the_units_of_a_sample() -> None:
    z = torch.tensor([[0.2, -1.0, 5.0, 0.2]])
    assert Argmax(4)(z).tolist() == [[0, 0, 1, 0]]
    assert Argmax(2)(z.view(1, 2, 2)).tolist() == [[[1, 0], [1, 0]]]
    assert TopKMask(1)(z).tolist() == [[0, 0, 1, 0]]
    assert TopKMask(3)(z.view(1, 2, 2)).tolist() == [[[1, 0], [1, 1]]]
    assert Ranks()(z).tolist() == [[1, 0, 3, 2]]
    assert torch.equal(z.gather(1, Ranks()(z).long().argsort(1)), Sort1d()(z))


def test_threshold_edges() -> None:
    assert Threshold(0.25)(torch.tensor([[0.25, 0.26, -1.0]])).tolist() == [[0, 1, 0]]


def test_binary_by_sample_and_by_zero() -> None:
    z = torch.tensor([[1.0, 2.0, 3.0], [-5.0, 0.0, 5.0]])
    assert Binary()(z).tolist() == [[0, 1, 1], [0, 1, 1]]
    assert Binary("zero")(z).tolist() == [[1, 1, 1], [0, 1, 1]]


def test_binary_by_batch_uses_the_running_mean_in_evaluation() -> None:
    hard = Binary("batch", momentum=0.5)
    z = torch.tensor([[1.0, 10.0], [3.0, 20.0]])
    assert hard(z).tolist() == [[0, 0], [1, 1]]
    hard(z[:0])  # an empty batch does not spoil the mean
    assert hard.running_mean.tolist() == [1.0, 7.5]
    assert hard.eval()(torch.tensor([[0.9, 7.6]])).tolist() == [[0, 1]]
    resumed = Binary("batch")
    resumed.load_state_dict(hard.state_dict())
    assert resumed.running_mean.tolist() == [1.0, 7.5]
    kept = hard.running_mean
    hard.train()(z)
    assert hard.running_mean is kept  # moved in place: whoever holds the buffer sees it


@pytest.mark.parametrize("seen", [False, True], ids=["fresh", "used"])
def test_binary_by_batch_is_not_spoilt_by_torch_func(seen: bool) -> None:
    """torch.func may not move its running mean: a line that says so, and nothing stored."""
    hard, z = Binary("batch"), torch.randn(5, 4, 3)
    if seen:
        hard(z[0])
    before = hard.running_mean.clone()
    for transformed in (grad(lambda z: (z * hard(z)).sum()), vmap(lambda z: hard(z[None]))):
        with pytest.raises(RuntimeError, match=r"torch.func.*eval.*functional_call"):
            transformed(z[0])
        assert torch.equal(hard.running_mean, before)
    hard.eval()
    assert grad(lambda z: (z * hard(z)).sum())(z[0]).shape == (4, 3)


def test_binary_by_batch_moves_a_running_mean_that_is_given_to_torch_func() -> None:
    hard, z = Binary("batch", momentum=1.0), torch.randn(4, 3)
    hard(z)

    def of(mean: Tensor) -> tuple[Tensor, Tensor]:
        buffers = {"running_mean": mean.clone()}
        return (z * functional_call(hard, buffers, (z + 1,))).sum() + mean.sum(), buffers["running_mean"]

    _, moved = grad(of, has_aux=True)(hard.running_mean)
    torch.testing.assert_close(moved, z.mean(0) + 1)
    torch.testing.assert_close(hard.running_mean, z.mean(0))


def test_bernoulli_samples_with_the_right_probability() -> None:
    n, logits = 200_000, torch.tensor([-4.0, -1.0, 0.0, 2.0])
    torch.manual_seed(0)
    p = torch.sigmoid(logits)
    for dtype in (torch.float32, torch.bfloat16):
        share = Bernoulli()(logits.to(dtype).expand(n, 4)).float().mean(0)
        assert ((share - p).abs() < 5 * (p * (1 - p) / n).sqrt()).all()


def test_bernoulli_in_evaluation() -> None:
    z = torch.tensor([[-1.0, 0.0, 1.0]]).expand(500, 3)
    assert Bernoulli("threshold").eval()(z).unique(dim=0).tolist() == [[0, 0, 1]]
    assert len(Bernoulli("sample").eval()(z).unique(dim=0)) == 8
    assert len(Bernoulli("threshold")(z).unique(dim=0)) == 8  # training always samples


def test_sort_rows_then_columns() -> None:
    z = torch.tensor([[[[3.0, 1.0], [2.0, 4.0]]]])
    assert Sort()(z).tolist() == [[[[1, 3], [2, 4]], [[2, 1], [3, 4]]]]
    assert Sort(descending=True)(z[:, 0]).tolist() == [[[3, 1], [4, 2], [3, 4], [2, 1]]]


@pytest.mark.parametrize(("height", "width", "k"), [(1, 1, 1), (3, 5, 2), (5, 3, 3), (4, 4, 4)])
def test_topk_is_the_front_of_sort(height: int, width: int, k: int) -> None:
    z = torch.randn(2, 3, height, width)
    rows, columns = Sort(descending=True)(z).chunk(2, 1)
    ours = TopK(k)(z)
    assert torch.equal(ours[:, :, :height], rows[..., :k])
    assert torch.equal(ours[:, :, height:], columns[..., :k, :].transpose(-1, -2))
    assert torch.equal(TopK(k)(z.flatten(1)), Sort1d(descending=True)(z).flatten(1)[:, :k])


@pytest.mark.parametrize("points", ["positions", "channels"])
@pytest.mark.parametrize("channels", [12, 40])  # fewer and more coordinates than points
def test_kmeans_equals_scikit_learn(points: str, channels: int) -> None:
    torch.manual_seed(0)
    z = torch.randn(4, channels, 5, 5, dtype=torch.double) + 100  # far from the origin
    quantized = KMeans(5, 7, points)(z).flatten(2)
    centroids = KMeans(5, 7, points, "centroids")(z).flatten(2)
    x, quantized = (t.flatten(2) if points == "channels" else t.flatten(2).mT for t in (z, quantized))
    centroids = centroids if points == "channels" else centroids.mT
    mean = x.mean(1, keepdim=True)
    points = Points(x - mean)
    start = points.chosen(farthest_points(points, 5)) @ x
    for i in range(4):
        oracle = ScikitKMeans(5, init=start[i].numpy(), n_init=1, max_iter=7, tol=0.0, algorithm="lloyd").fit(
            x[i].numpy()
        )
        assert len(set(oracle.labels_)) == 5  # otherwise scikit-learn moves empty clusters
        theirs = torch.from_numpy(oracle.cluster_centers_)
        torch.testing.assert_close(centroids[i], theirs)
        torch.testing.assert_close(quantized[i], theirs[oracle.labels_])


def inertia(x: Tensor, centres: Tensor) -> Tensor:
    return torch.cdist(x, centres).square().amin(-1).sum(-1)  # [B]


@pytest.mark.parametrize("outliers", [0.0, 0.02], ids=["clean", "2 % outliers"])
def test_kmeans_plus_plus_is_as_good_as_scikit_learn(outliers: float) -> None:
    torch.manual_seed(0)
    k, (batch, points, size) = 5, (16, 200, 4)
    where = torch.randint(k, (batch, points, 1)).expand(-1, -1, size)
    x = (4 * torch.randn(batch, k, size)).gather(1, where) + 0.5 * torch.randn(batch, points, size)
    x = torch.where(torch.rand(batch, points, 1) < outliers, 20 * torch.randn_like(x), x).double()
    seeds = range(4)
    fits = [[ScikitKMeans(k, n_init=1, random_state=s).fit(sample.numpy()).inertia_ for sample in x] for s in seeds]
    theirs = torch.tensor(fits).mean(0)
    drawn = [KMeans(k, 20, output="centroids", start="kmeans++", seed=s) for s in range(8)]
    ours = torch.stack([inertia(x, hard(x.mT).mT) for hard in drawn]).mean(0)
    assert (ours / theirs).mean() < 1.07
    farthest = inertia(x, KMeans(k, 20, output="centroids")(x.mT).mT)
    assert (farthest / theirs).mean() > 1.3 or not outliers  # what the other start is offered for


def test_kmeans_plus_plus_draws_by_its_seed_alone() -> None:
    z, hard = torch.randn(2, 3, 8, 8), KMeans(6, 0, start="kmeans++")
    before = torch.get_rng_state()
    first = hard(z)
    torch.manual_seed(5)
    assert torch.equal(hard(z), first) and torch.equal(KMeans(6, 0, start="kmeans++")(z), first)
    assert not torch.equal(KMeans(6, 0, start="kmeans++", seed=1)(z), first)
    assert not hard.state_dict()  # nothing to save: the seed is all
    torch.set_rng_state(before)


def test_kmeans_with_as_many_clusters_as_points_changes_nothing() -> None:
    z = torch.randn(2, 3, 4, 4, dtype=torch.double)
    torch.testing.assert_close(KMeans(16)(z), z)


def test_an_empty_cluster_keeps_its_centre() -> None:
    x = torch.tensor([[[-1.0], [1.0]]])
    weights = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 50.0]]])  # the last centre is far from both points
    assert torch.equal(lloyd(Points(x), weights, 3), weights)
    same = torch.ones(1, 2, 4, 4)  # all points equal: every cluster but one is empty
    assert torch.equal(KMeans(3)(same), same)


def test_kmeans_is_not_rounded_by_autocast() -> None:
    z = torch.randn(2, 8, 4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = KMeans(4)(z)
    assert torch.equal(inside, KMeans(4)(z))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: KMeans(10)(torch.randn(1, 4, 3, 3)), "10 .*9 positions"),
        (lambda: KMeans(10, points="channels").out_shape((4, 3, 3)), "10 .*4 channels"),
        (lambda: KMeans(2)(torch.randn(1, 4)), r"\[4\]"),
        (lambda: KMeans(points="rows"), "positions, channels"),
        (lambda: KMeans(start="random"), r"farthest, kmeans\+\+"),
        (lambda: TopK(4)(torch.randn(1, 3, 8)), r"4 .*\[3, 8\]"),
        (lambda: TopKMask(9)(torch.randn(1, 2, 4)), r"9 .*\[2, 4\]"),
        (lambda: Argmax(4)(torch.randn(1, 3)), r"4 classes .*\[3\]"),
        (lambda: Staircase((1.0,)), "at least 2 heights"),
        (lambda: TopK(0), "k must be a whole number in"),
        (lambda: Sort()(torch.randn(2, 3)), "Sort1d"),
        (lambda: Binary("median"), "sample, batch, zero"),
        (lambda: Bernoulli("mean"), "sample, threshold"),
        (lambda: Signum(-1.0), "eps .*-1"),
        (lambda: dab.hard.out_shape(lambda z: z.nope, (3,)), "out_shape"),
        (lambda: dab.hard.out_shape(lambda z: z.mean(), (3,)), "batch dimension"),
    ],
)
def test_impossible_requests_say_why(call, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


def test_out_shape_of_any_callable_by_trying_it() -> None:
    assert dab.hard.out_shape(TopK(2), (3, 4, 5)) == (3, 9, 2)
    assert dab.hard.out_shape(lambda z: z.flatten(1)[:, :7], (3, 4)) == (7,)
    assert dab.hard.out_shape(lambda z: z.sum((1, 2)), (3, 4)) == ()


def test_trying_a_function_leaves_no_trace() -> None:
    norm = nn.BatchNorm1d(3)
    random = torch.get_rng_state()

    def noisy(z: Tensor) -> Tensor:
        return norm(z) + torch.randn_like(z)

    assert dab.hard.out_shape(noisy, (3,)) == (3,)
    assert torch.equal(torch.get_rng_state(), random)
    fresh = nn.BatchNorm1d(3)
    dab.hard.out_shape(fresh, (3,))
    assert fresh.num_batches_tracked == 0


def top3_mask(z: Tensor) -> Tensor:
    return torch.zeros_like(z).scatter(-1, z.topk(3, -1).indices, 1.0)


def own_threshold_for_each(z: Tensor) -> Tensor:
    return (z > torch.linspace(-1, 1, z[0].numel()).view(z.shape[1:])).to(z.dtype)


def fails(z: Tensor) -> Tensor:
    raise RuntimeError("not on a CPU")


ON_UNITS = [
    torch.sign,
    lambda z: z.round(),
    lambda z: z.relu_(),  # writes into its input
    lambda z: z.log().floor(),  # NaN for half of the samples
    lambda z: torch.bernoulli(torch.sigmoid(z)),
    lambda z: (z + torch.randn_like(z)).round(),
    nn.Dropout(0.5),
    Signum(),
    Binary("zero"),
    Bernoulli(),
]
NOT_ON_UNITS = [
    top3_mask,
    own_threshold_for_each,
    fails,
    lambda z: z.sort(-1).values,
    lambda z: z.argsort(-1).argsort(-1).to(z.dtype),
    lambda z: z.flip(-1),
    lambda z: z.softmax(-1),
    lambda z: z.cumsum(-1).round(),
    lambda z: torch.bernoulli(torch.sigmoid(z - z.mean(-1, keepdim=True))),
    lambda z: torch.bernoulli(torch.linspace(0.1, 0.9, z.shape[-1]).expand_as(z)),
    lambda z: z[..., :4].sign(),
    lambda z: torch.from_numpy(np.random.default_rng().normal(size=z.shape)).to(z.dtype),
    Binary(),
    Binary("batch"),
    KMeans(2),
    Sort1d(),
]


@pytest.mark.parametrize("shape", [(12,), (3, 8, 8)], ids=str)
def test_functions_of_single_units_are_found_by_trying(shape: tuple[int, ...]) -> None:
    before = torch.get_rng_state()
    for hard in ON_UNITS:
        assert dab.hard.acts_on_units(hard, shape), hard
    for hard in NOT_ON_UNITS:
        assert not dab.hard.acts_on_units(hard, shape), hard
    assert torch.equal(torch.get_rng_state(), before)


def test_trying_takes_a_handful_of_calls() -> None:
    calls: list[int] = []

    def counted(z: Tensor) -> Tensor:
        calls.append(len(z))
        return z.sign()

    assert dab.hard.acts_on_units(counted, (6,))
    assert len(calls) <= 4 and max(calls) <= 32
