"""The recurrent sorter and the two pointer models: the contract, the attention arithmetic, and that they learn."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import dab
from dab.data.sorting import with_order
from dab.metrics.sorting import valid_permutation
from dab.models.constructed_sorter import ConstructedSorter
from dab.models.dense_sorter import DenseSorter
from dab.models.lstm_sorter import LSTMSorter
from dab.models.pointer_decoder import PointerModel
from dab.models.pointer_network import PointerNetwork
from dab.models.read_process_write import ReadProcessWrite
from dab.tasks.pointing import PointingTask
from dab.tasks.sorting import SortingTask

BATCH, LENGTH, HIDDEN = 6, 4, 16
POINTERS = (PointerNetwork, ReadProcessWrite)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def bridge(units: int = HIDDEN) -> dab.Bridge:
    hard = dab.hard.Signum()
    return dab.Bridge(hard, dab.approximators.dense(hard, (units,), (32,)))


def lstm(length: int = LENGTH, **options) -> LSTMSorter:
    return LSTMSorter(bridge(), (length,), hidden=HIDDEN, dense=HIDDEN, **options)


def awake(model: LSTMSorter) -> LSTMSorter:
    """With weights so large that outputs pass the margin of the signum; fresh ones mostly do not."""
    for p in model.lstm.parameters():
        nn.init.normal_(p, std=3.0)
    return model


def pointer(kind: type[PointerModel], length: int = LENGTH, **options) -> PointerModel:
    return kind(dab.NoHard(), (length,), hidden=HIDDEN, **options)


def batch(size: int = BATCH, length: int = LENGTH) -> tuple[Tensor, Tensor]:
    return with_order(torch.rand(size, length))


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


# --- the contract


@pytest.mark.parametrize("every_step", [False, True])
def test_lstm_shapes(every_step: bool) -> None:
    model, (x, _) = lstm(every_step=every_step, ponder=2), batch()
    logits, penalty = model(x)
    assert logits.shape == (BATCH, LENGTH, LENGTH) and penalty.shape == (BATCH,)
    assert (penalty > 0).all()
    assert LSTMSorter.code_shape((LENGTH,), dab.hard.Signum(), hidden=HIDDEN, ponder=2) == (HIDDEN,)


@pytest.mark.parametrize("glimpses", [0, 1, 2])
@pytest.mark.parametrize("kind", POINTERS)
def test_pointer_shapes(kind: type[PointerModel], glimpses: int) -> None:
    model, (x, order) = pointer(kind, glimpses=glimpses), batch()
    forced, penalty = model(x, order)
    greedy, _ = model.eval()(x)
    assert forced.shape == greedy.shape == (BATCH, LENGTH, LENGTH)
    assert torch.equal(penalty, torch.zeros(BATCH))
    assert kind.code_shape((LENGTH,), dab.hard.Signum(), hidden=HIDDEN, glimpses=glimpses) == (HIDDEN,)


@pytest.mark.parametrize("kind", POINTERS)
@pytest.mark.parametrize("options", [{"glimpses": 0}, {"glimpses": 1}, {"mask_chosen": True}])
def test_gradient_reaches_all_of_a_pointer_model(kind: type[PointerModel], options: dict) -> None:
    _every_parameter_gets_gradient(PointingTask(pointer(kind, **options)))


@pytest.mark.parametrize("options", [{}, {"ponder": 2}, {"every_step": True, "ponder": 2}])
def test_gradient_reaches_all_of_an_lstm_sorter(options: dict) -> None:
    _every_parameter_gets_gradient(SortingTask(awake(lstm(**options))))


def test_read_process_write_without_processing_trains_everything_it_has() -> None:
    _every_parameter_gets_gradient(PointingTask(pointer(ReadProcessWrite, ponder=0)))


def test_autocast_does_not_round_the_numbers() -> None:
    x, order = batch()
    for model, given in (
        (pointer(PointerNetwork), (x, order)),
        (pointer(ReadProcessWrite), (x, order)),
        (lstm(), (x,)),
    ):
        expected = model(*given)[0]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(model(*given)[0], expected)


def _every_parameter_gets_gradient(task: SortingTask) -> None:
    loss, _ = task(batch(64))
    loss.backward()
    for name, p in task.named_parameters():
        assert p.grad is not None and p.grad.abs().sum() > 0, name


# --- the recurrent sorter


class Counted(dab.hard.Signum):
    def __init__(self) -> None:
        super().__init__()
        self.values: list[Tensor] = []

    def forward(self, z: Tensor) -> Tensor:
        self.values.append(super().forward(z))
        return self.values[-1]


def counted(**options) -> tuple[LSTMSorter, Counted]:
    hard = Counted()
    estimator = dab.Bridge(hard, dab.approximators.dense(hard, (HIDDEN,), (8,)))
    model = LSTMSorter(estimator, (LENGTH,), hidden=HIDDEN, dense=HIDDEN, **options)
    hard.values.clear()
    return model, hard


@pytest.mark.parametrize("every_step, calls", [(False, 1), (True, LENGTH + 3)])
def test_hard_function_is_called_once_a_forward_or_once_a_step(every_step: bool, calls: int) -> None:
    model, hard = counted(every_step=every_step, ponder=3)
    model(batch()[0])
    assert len(hard.values) == calls


def test_what_every_step_feeds_back_is_hard() -> None:
    model, hard = counted(every_step=True, ponder=1)
    awake(model)
    fed_back: list[Tensor] = []
    model.lstm.register_forward_pre_hook(lambda _, given: fed_back.append(given[1]))
    model(batch()[0])
    assert fed_back[0] is None  # the first step starts from zeros
    for (h, _), value in zip(fed_back[1:], hard.values):
        assert torch.equal(h, value)
        assert set(h.unique().tolist()) <= {-1.0, 0.0, 1.0}
    assert any(value.any() for value in hard.values)


def test_every_step_averages_its_penalties() -> None:
    model, x = lstm(every_step=True, ponder=1), batch()[0]
    penalties: list[Tensor] = []
    model.estimator.register_forward_hook(lambda _, __, out: penalties.append(out[1]))
    torch.testing.assert_close(model(x)[1], torch.stack(penalties).mean(0))
    assert len(penalties) == LENGTH + 1


def test_both_placements_are_the_same_lstm() -> None:
    """With nothing hard inside, the cell in a loop computes what the fused LSTM computes."""
    fused = LSTMSorter(dab.NoHard(), (LENGTH,), hidden=HIDDEN, dense=HIDDEN, ponder=2)
    looped = LSTMSorter(dab.NoHard(), (LENGTH,), hidden=HIDDEN, dense=HIDDEN, ponder=2, every_step=True)
    looped.load_state_dict({name.removesuffix("_l0"): p for name, p in fused.state_dict().items()})
    x = batch()[0]
    torch.testing.assert_close(fused(x)[0], looped(x)[0])


def test_lstm_sorter_takes_a_hard_function_that_changes_the_shape() -> None:
    estimator = dab.TrueGradient(dab.hard.TopK(3))
    model = LSTMSorter(estimator, (LENGTH,), hidden=HIDDEN, dense=HIDDEN)
    assert model(batch()[0])[0].shape == (BATCH, LENGTH, LENGTH)
    with pytest.raises(ValueError, match="every_step=false"):
        LSTMSorter(estimator, (LENGTH,), hidden=HIDDEN, every_step=True)


@pytest.mark.parametrize("make", [lambda p: awake(lstm(ponder=p)), lambda p: pointer(ReadProcessWrite, ponder=p)])
def test_pondering_changes_the_output_and_not_the_parameters(make: Callable[[int], nn.Module]) -> None:
    x, outputs, counts = batch()[0], [], []
    for ponder in (1, 5):
        torch.manual_seed(1)
        model = make(ponder).eval()
        outputs.append(model(x)[0])
        counts.append(parameters(model))
    assert counts[0] == counts[1]
    assert not torch.allclose(*outputs)


# --- reading a set


def test_read_and_process_do_not_see_the_order_of_the_elements() -> None:
    model = pointer(ReadProcessWrite).double()
    numbers, shuffle = torch.randn(BATCH, LENGTH, 1, dtype=torch.double), torch.randperm(LENGTH)
    memory, state = model.encode(numbers)
    shuffled_memory, shuffled_state = model.encode(numbers[:, shuffle])
    torch.testing.assert_close(shuffled_memory, memory[:, shuffle])
    torch.testing.assert_close(shuffled_state, state)


def test_read_process_write_is_equivariant_and_a_pointer_network_is_not() -> None:
    x, shuffle = torch.rand(BATCH, LENGTH, dtype=torch.double), torch.tensor([2, 0, 3, 1])
    for kind, same in ((ReadProcessWrite, True), (PointerNetwork, False)):
        model = pointer(kind).double().eval()
        logits, shuffled = model(x)[0], model(x[:, shuffle])[0]
        assert torch.allclose(shuffled, logits[:, shuffle]) == same


# --- pointing: the batched decoder against one written out step by step


def reference_step(model: PointerModel, memory: Tensor, number: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """number [B, 1], h, c [B, H] -> scores over the elements [B, T], new h, new c; element by element."""
    d = model.decoder
    gates = number @ d.lstm.weight_ih_l0.T + d.lstm.bias_ih_l0 + h @ d.lstm.weight_hh_l0.T + d.lstm.bias_hh_l0
    i, f, g, o = gates.chunk(4, dim=1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()

    def scores(attention: nn.Module, query: Tensor) -> Tensor:
        each = [attention.score((attention.keys(m) + attention.query(query)).tanh()) for m in memory.unbind(1)]
        return torch.cat(each, dim=1)

    query = h
    for glimpse in d.glimpses:
        weights = scores(glimpse, query).softmax(1)
        seen = sum(w.unsqueeze(1) * m for w, m in zip(weights.unbind(1), memory.unbind(1)))
        query = glimpse.mix(torch.cat([query, seen], dim=1))
    return scores(d.pointer, query), h, c


def reference(model: PointerModel, x: Tensor, order: Tensor | None) -> Tensor:
    """Logits [B, element, place] by loops, with the prefix given by `order` or by the model's own best choices."""
    numbers = (x - model.shift) * model.scale
    memory, (h, c) = model.encode(numbers.unsqueeze(2))
    h, c, number = h[0], c[0], model.decoder.start.expand(len(x), 1)
    taken = torch.zeros_like(x, dtype=torch.bool)
    places = []
    for place in range(x.shape[1]):
        scores, h, c = reference_step(model, memory, number, h, c)
        if model.decoder.mask_chosen:
            scores = torch.where(taken, -torch.inf, scores)
        places.append(scores)
        chosen = scores.argmax(1) if order is None else order[:, place]
        rows = torch.arange(len(x))
        taken[rows, chosen] = True
        number = numbers[rows, chosen].unsqueeze(1)
    return torch.stack(places, dim=2)


@pytest.mark.parametrize("mask_chosen", [False, True])
@pytest.mark.parametrize("glimpses", [0, 1, 2])
@pytest.mark.parametrize("kind", POINTERS)
def test_decoder_equals_the_loop(kind: type[PointerModel], glimpses: int, mask_chosen: bool) -> None:
    model = pointer(kind, glimpses=glimpses, mask_chosen=mask_chosen).double()
    nn.init.normal_(model.decoder.start)
    x, order = batch()
    x = x.double()
    forced = reference(model, x, order)
    torch.testing.assert_close(model(x, order)[0], forced)
    torch.testing.assert_close(model.eval()(x, order)[0], forced)  # a place at a time
    torch.testing.assert_close(model(x)[0], reference(model, x, None))


@pytest.mark.parametrize("kind", POINTERS)
def test_forced_with_its_own_choices_a_model_decodes_the_same(kind: type[PointerModel]) -> None:
    model, (x, _) = pointer(kind, mask_chosen=True).eval(), batch()
    greedy, _ = model(x)
    torch.testing.assert_close(model(x, greedy.argmax(1))[0], greedy)
    assert valid_permutation(greedy).all()


def test_valid_permutation() -> None:
    chosen = torch.tensor([[2, 0, 1], [1, 1, 0], [0, 1, 2]])
    logits = nn.functional.one_hot(chosen, 3).transpose(1, 2).float()
    assert valid_permutation(logits).tolist() == [1.0, 0.0, 1.0]


# --- learning: chance is 1/6 at T=3


def train(task: SortingTask, steps: int, lr: float = 1e-2) -> dict[str, float]:
    optimizer = torch.optim.Adam(task.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        task(batch(128, 3))[0].backward()
        optimizer.step()
    task.eval()
    with torch.no_grad():
        return {name: value.mean().item() for name, value in task.measure(batch(1000, 3)).items()}


@pytest.mark.parametrize("options", [{}, {"every_step": True}])
def test_lstm_sorter_learns(options: dict) -> None:
    assert train(SortingTask(lstm(length=3, ponder=1, input_scale=4.0, **options)), 400)["all_or_none"] > 0.6


@pytest.mark.parametrize("kind", POINTERS)
def test_pointer_models_learn(kind: type[PointerModel]) -> None:
    task = PointingTask(pointer(kind, length=3))
    measured = train(task, 200)
    assert measured["all_or_none"] > 0.8
    assert set(measured) == {"all_or_none", "per_element", "valid_permutation", "loss"}
    assert measured["valid_permutation"] >= measured["all_or_none"]
    assert "order 2 0 1; right" in task.predict(["0.5", "0.9", "0.1"])


# --- mistakes


@pytest.mark.parametrize("kind", POINTERS)
def test_pointer_models_refuse_what_they_cannot_use(kind: type[PointerModel]) -> None:
    with pytest.raises(ValueError, match="given Bridge: use estimator=no_hard"):
        kind(bridge(), (LENGTH,), hidden=HIDDEN)
    with pytest.raises(ValueError, match="glimpses must be a whole number in"):
        pointer(kind, glimpses=-1)
    with pytest.raises(ValueError, match="task=pointing"):
        pointer(kind)(batch()[0])


def test_other_mistakes() -> None:
    with pytest.raises(ValueError, match="cannot train DenseSorter: use task=sorting"):
        PointingTask(DenseSorter(dab.NoHard(), (LENGTH,)))
    with pytest.raises(ValueError, match="ponder must be a whole number in"):
        lstm(ponder=-1)
    with pytest.raises(ValueError, match="ponder must be a whole number in"):
        pointer(ReadProcessWrite, ponder=-1)


@pytest.mark.parametrize("length", [2, 5, 10, 15])
def test_a_constructed_network_sorts_all_but_what_is_too_close(length: int) -> None:
    """One hard layer is enough: with weights set by hand nothing goes wrong but pairs that a comparator cannot tell."""
    slope = 1000.0
    model = ConstructedSorter(dab.StraightThrough(dab.hard.Signum()), (length,), slope=slope).double().eval()
    x = torch.rand(4000, length, dtype=torch.float64)
    logits, _ = model(x)
    right = (logits.argmax(1) == x.argsort(1)).all(1)
    closest = x.sort(1).values.diff(dim=1).amin(1)
    assert right[closest > 2 / slope].all() and right.double().mean() > 0.9
    assert closest[~right].numel() or length == 2
