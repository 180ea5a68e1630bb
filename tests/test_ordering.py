"""How far from sorted: distances over places and inverted pairs, on cases one can count."""

import itertools

import pytest
import torch

from dab.hard import Signum, Sort, Sort1d
from dab.metrics.ordering import earth_mover, inverted_pairs, sortedness


def test_the_distance_is_how_far_the_mass_has_to_go() -> None:
    """All of it from the first to the last of four places; half of it one place; none."""
    first, last = torch.tensor([3.0, 0.0, 0.0, 0.0]), torch.tensor([0.0, 0.0, 0.0, 3.0])
    assert earth_mover(first, last) == 3
    assert earth_mover(torch.tensor([1.0, 0.0, 1.0]), torch.tensor([0.0, 1.0, 1.0])) == pytest.approx(0.5)
    assert earth_mover(last, last) == 0


def test_the_distance_does_not_depend_on_where_values_start_nor_on_their_scale() -> None:
    torch.manual_seed(0)
    z = torch.randn(6, 9)
    h = z.sort(-1).values
    torch.testing.assert_close(earth_mover(5 * z - 7, 5 * h - 7), earth_mover(z, h), rtol=1e-4, atol=1e-4)


def test_equal_values_are_sorted() -> None:
    equal = torch.full((2, 5), 3.0)
    assert not earth_mover(equal, equal).any() and not inverted_pairs(equal).any()


def test_inverted_pairs_are_counted() -> None:
    torch.manual_seed(0)
    for line in (torch.randperm(11).float(), torch.randint(3, (11,)).float()):
        counted = sum(a > b for a, b in itertools.combinations(line.tolist(), 2)) / 55
        assert inverted_pairs(line).item() == pytest.approx(counted)
    rising = torch.arange(6.0)
    assert (inverted_pairs(rising), inverted_pairs(rising.flip(0))) == (0, 1)
    assert (inverted_pairs(rising, descending=True), inverted_pairs(rising[:1])) == (1, 0)


@pytest.mark.parametrize("hard", [Sort(), Sort(descending=True), Sort1d(), Sort1d(descending=True)], ids=str)
def test_what_comes_out_of_a_sort_is_sorted(hard) -> None:
    """Rows that are sorted may stand in unsorted columns, so a map of equal rows is asked for."""
    torch.manual_seed(0)
    z = torch.randn(4, 3, 5)
    before = sortedness(hard, z)
    assert (before["emd"] > 0.1).all() and ((before["inverted_pairs"] > 0.2) & (before["inverted_pairs"] < 0.8)).all()
    line = torch.linspace(0, 1, 5)
    rows = (line.flip(0) if hard.descending else line).expand(2, 3, 5)
    done = hard(rows) if isinstance(hard, Sort1d) else rows
    after = sortedness(hard, done)
    assert not after["emd"].any() and not after["inverted_pairs"].any()
    assert before["emd"].shape == before["inverted_pairs"].shape == (4,)


def test_rows_and_columns_count_alike() -> None:
    """Rows reversed, columns of equal values: every pair of a row is inverted, none of a column."""
    z = torch.tensor([3.0, 2.0, 1.0, 0.0]).expand(1, 4, 4)
    assert sortedness(Sort(), z)["inverted_pairs"].item() == pytest.approx(0.5)


def test_other_functions_have_nothing_to_sort() -> None:
    assert sortedness(Signum(), torch.randn(2, 3)) == {} == sortedness(None, torch.randn(2, 3))
