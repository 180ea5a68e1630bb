"""Hard functions: values, shapes, bits, and the contract they share."""

import math

import pytest
import torch
from sklearn.cluster import KMeans as ScikitKMeans
from torch import Tensor, nn
from torch.func import vmap

import dab
from dab.hard import Bernoulli, Binary, KMeans, Signum, Sort, Sort1d, Threshold, TopK
from dab.hard.kmeans import farthest_points, lloyd

EVERY = [
    (Signum(), (6,), math.log2(3)),
    (Binary(), (6,), 1.0),
    (Binary("batch"), (6,), 1.0),
    (Binary("zero"), (2, 4, 4), 1.0),
    (Bernoulli(), (6,), 1.0),
    (Threshold(), (6,), 1.0),
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


@pytest.mark.parametrize("hard", [Binary("batch"), Bernoulli(), TopK(2), KMeans(3, 2)], ids=str)
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
def test_kmeans_equals_scikit_learn(points: str) -> None:
    torch.manual_seed(0)
    z = torch.randn(4, 12, 5, 5, dtype=torch.double) + 100  # far from the origin
    quantized = KMeans(5, 7, points)(z).flatten(2)
    centroids = KMeans(5, 7, points, "centroids")(z).flatten(2)
    x, quantized = (t.flatten(2) if points == "channels" else t.flatten(2).mT for t in (z, quantized))
    centroids = centroids if points == "channels" else centroids.mT
    mean = x.mean(1, keepdim=True)
    start = farthest_points(x - mean, 5) + mean
    for i in range(4):
        oracle = ScikitKMeans(5, init=start[i].numpy(), n_init=1, max_iter=7, tol=0.0, algorithm="lloyd").fit(
            x[i].numpy()
        )
        assert len(set(oracle.labels_)) == 5  # otherwise scikit-learn moves empty clusters
        theirs = torch.from_numpy(oracle.cluster_centers_)
        torch.testing.assert_close(centroids[i], theirs)
        torch.testing.assert_close(quantized[i], theirs[oracle.labels_])


def test_kmeans_with_as_many_clusters_as_points_changes_nothing() -> None:
    z = torch.randn(2, 3, 4, 4, dtype=torch.double)
    torch.testing.assert_close(KMeans(16)(z), z)


def test_an_empty_cluster_keeps_its_centre() -> None:
    x = torch.tensor([[[0.0], [1.0]]])
    assert lloyd(x, torch.tensor([[[0.0], [1.0], [50.0]]]), 3).tolist() == [[[0.0], [1.0], [50.0]]]
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
        (lambda: TopK(4)(torch.randn(1, 3, 8)), r"4 .*\[3, 8\]"),
        (lambda: TopK(0), "at least 1"),
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
