"""What is said of a discrete code, where the truth is known."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dab.metrics.codes import code_statistics, symbols, tree_bits, unit_statistics


def bits(*shape: int, p: float | Tensor = 0.5) -> Tensor:
    torch.manual_seed(0)
    return (torch.rand(shape) < p).float()


def binary_entropy(p: float) -> float:
    return -p * math.log2(p) - (1 - p) * math.log2(1 - p)


def test_independent_bits_hold_what_they_say() -> None:
    found = code_statistics(bits(10_000, 40), 1.0)
    assert found["units"] == found["nominal_bits"] == 40
    assert 39.9 < found["unit_bits"] <= 40 and 39.9 < found["at_most_bits"] <= 40
    assert found["at_least_bits"] == pytest.approx(math.log2(10_000), abs=1e-3)
    assert found["distinct_codes"] == 10_000 and found["dead_units"] == 0 and found["usage"] == 1


def test_biased_and_dead_units() -> None:
    p = torch.tensor([0.1, 0.3, 0.5, 0.0, 1.0])
    codes = bits(20_000, 5, p=p)
    found, (entropies, values) = code_statistics(codes, 1.0), unit_statistics(codes)
    wanted = [binary_entropy(q) for q in (0.1, 0.3, 0.5)] + [0, 0]
    assert entropies.tolist() == pytest.approx(wanted, abs=0.01) and values.tolist() == [2, 2, 2, 1, 1]
    assert found["unit_bits"] == pytest.approx(float(entropies.sum()))
    for name in ("unit_bits", "at_most_bits", "at_least_bits"):  # independent, and few enough to have been seen all
        assert found[name] == pytest.approx(sum(wanted), abs=0.02)
    assert found["dead_units"] == 2 and found["usage"] == pytest.approx(0.8) and found["distinct_codes"] == 8


def test_copies_add_units_and_no_information() -> None:
    once = bits(4000, 30)
    copies = torch.cat([once, 1 - once, 3 * once + 2], 1)
    found = code_statistics(copies, 1.0)
    assert found["unit_bits"] == pytest.approx(90, abs=0.1) and found["nominal_bits"] == 90
    assert found["at_most_bits"] == pytest.approx(30, abs=0.3)


def test_a_chain_of_bits_that_mostly_repeat_is_found() -> None:
    flips = bits(20_000, 60, p=0.1)
    codes = flips.cumsum(1).add(bits(20_000, 1)).remainder(2)[:, torch.randperm(60)]
    found = code_statistics(codes, 1.0)
    wanted = 1 + 59 * binary_entropy(0.1)
    assert found["at_most_bits"] == pytest.approx(wanted, rel=0.01) and found["unit_bits"] > 59.9


@pytest.mark.parametrize("count", [100, 1000, 20_000])
def test_the_bounds_hold_where_no_tree_is_right(count: int) -> None:
    """A mixture of two products and a parity, eight bits whose entropy is summed up over all their states."""
    states = torch.tensor([[(i >> b) & 1 for b in range(7)] for i in range(128)]).double()
    p = torch.tensor([[0.9], [0.2]]).expand(2, 7).double()
    share = (states[:, None] * p + (1 - states[:, None]) * (1 - p)).prod(2).mean(1)  # [128]
    truth = float(-(share * share.log2()).sum())
    torch.manual_seed(0)
    codes = states[share.multinomial(count, replacement=True)]
    found = code_statistics(torch.cat([codes, codes.sum(1, keepdim=True) % 2], 1), 1.0)
    assert found["at_least_bits"] < truth + 0.05 < found["at_most_bits"] + 0.1
    if count == 20_000:
        assert truth < found["at_most_bits"] < found["unit_bits"] and found["at_least_bits"] > truth - 0.05


def test_few_codes_of_many_bits_do_not_look_like_less() -> None:
    """Among fifty codes every unit has a near copy by chance: what is fitted to them must not be measured on them."""
    found = code_statistics(bits(50, 300), 1.0)
    assert found["at_most_bits"] > 295
    assert found["at_least_bits"] == pytest.approx(math.log2(50)) and found["distinct_codes"] == 50


@pytest.mark.parametrize("levels", [[0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [-0.77, 0.1, 1e6]])
def test_any_levels_of_a_unit_are_its_values(levels: list[float]) -> None:
    torch.manual_seed(0)
    drawn = torch.randint(3, (5000, 4, 2))
    found = code_statistics(torch.tensor(levels)[drawn], math.log2(3))
    assert found["units"] == 8 and found["usage"] == 1
    for name in ("nominal_bits", "unit_bits", "at_most_bits"):
        assert found[name] == pytest.approx(8 * math.log2(3), abs=0.05)
    scaled = torch.tensor(levels)[drawn] * torch.arange(1, 3)  # levels that differ from unit to unit
    assert code_statistics(scaled, math.log2(3)) == found


def test_one_hot_rows_are_one_unit_each() -> None:
    torch.manual_seed(0)
    drawn = torch.randint(8, (5000, 26)) % torch.tensor([8] * 25 + [3])  # the last one takes three values of eight
    found = code_statistics(F.one_hot(drawn, 8).float(), 3.0, (8,))
    assert found["units"] == 26 and found["nominal_bits"] == 78 and found["usage"] == pytest.approx((25 + 3 / 8) / 26)
    assert found == pytest.approx(code_statistics(drawn, 3.0), rel=1e-9)
    book = torch.randn(8, 5)  # a codebook's vectors say the same
    assert found == pytest.approx(code_statistics(book[drawn], 3.0, (5,)), rel=1e-9)


def test_units_of_many_values_are_not_related_on_the_strength_of_few_codes() -> None:
    """512 entries a unit: a table of a pair has a quarter of a million cells, and there are 2,000 codes."""
    torch.manual_seed(0)
    found = code_statistics(torch.randint(512, (2000, 8)), 9.0)
    assert 71 < found["at_most_bits"] <= 72 and found["unit_bits"] < 71  # the latter lacks what was never seen


def test_order_of_codes_and_names_of_values_do_not_matter() -> None:
    codes = bits(2000, 12, p=torch.rand(12))
    assert code_statistics(-codes, 1.0) == pytest.approx(code_statistics(codes, 1.0), rel=1e-9)
    assert unit_statistics(torch.where(codes == 0, codes * -1, codes))[1].max() == 2  # minus zero is zero
    assert tree_bits(symbols(codes)) == pytest.approx(tree_bits(symbols(codes[torch.randperm(2000)])), rel=0.01)


def test_unknown_sizes_are_left_out() -> None:
    found = code_statistics(bits(100, 3), None)
    assert not {"nominal_bits", "usage"} & found.keys() and found["units"] == 3


@pytest.mark.parametrize(
    "codes, shape, message",
    [
        (torch.rand(100, 5), (), r"unit 0 takes 100 values where 1 bits allow 2: are these codes"),
        (torch.tensor([[0.0, torch.nan]] * 3), (), "codes hold NaN"),
        (torch.zeros(1, 5), (), r"needs two codes at least, .* given \[1, 5\]"),
        (torch.zeros(9, 5, 4), (8,), r"\[N, units..., \*\[8\]\], given \[9, 5, 4\]"),
    ],
)
def test_what_is_no_code_is_refused(codes: Tensor, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        code_statistics(codes, 1.0, shape)
