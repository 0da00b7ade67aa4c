from collections import Counter
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cutline.errors import ParameterError
from cutline.sampling import SeededSource, integers_below
from cutline.sampling.draws import choice, integer_below, subset

LARGEST = 2**63 - 1
LAST = 2**64 - 1


@given(bounds=st.lists(st.integers(1, LARGEST), max_size=20), seed=st.integers(0, 2**32))
def test_draws_are_in_range(bounds, seed):
    drawn = integers_below(np.array(bounds, dtype=np.int64), rng=SeededSource(seed))
    assert drawn.dtype == np.int64
    assert all(0 <= value < bound for value, bound in zip(drawn.tolist(), bounds, strict=True))


@pytest.mark.parametrize("bound", [2, 3, 7, 10, 64])
@pytest.mark.parametrize("seed", [0, 1])
def test_draws_are_uniform_with_power(bound, seed):
    n = 60_000
    drawn = np.bincount(integers_below(np.full(n, bound), rng=SeededSource(seed)), minlength=bound)
    assert stats.chisquare(drawn).pvalue > 1e-4
    for factor in (0.7, 1.3):
        tilted = np.ones(bound)
        tilted[0] = factor
        assert stats.chisquare(drawn, tilted / tilted.sum() * n).pvalue < 1e-3


def test_the_largest_bound_is_uniform_in_halves():
    drawn = integers_below(np.full(20_000, LARGEST), rng=SeededSource(4))
    assert stats.binomtest(int((drawn >= LARGEST // 2).sum()), 20_000).pvalue > 1e-4


@pytest.mark.parametrize("bound", [3, 6, 2**62 + 1, LARGEST])
def test_words_that_would_tilt_the_law_are_drawn_again(script, bound):
    excess = 2**64 % bound
    source = script([excess - 1, 0, excess])
    assert integers_below([bound], rng=source).tolist() == [excess % bound]
    assert source.used == 3
    accepted = script([2**64 - 1])
    assert integers_below([bound], rng=accepted).tolist() == [(2**64 - 1) % bound]


def test_only_rejected_entries_draw_again(script):
    source = script([0, 8, 2, 7])
    assert integers_below([3, 5, 2], rng=source).tolist() == [1, 3, 0]
    assert source.used == 4


def test_a_bound_of_one_draws_no_bits(script):
    assert integers_below([[1, 1], [1, 1]], rng=script([])).tolist() == [[0, 0], [0, 0]]
    assert integers_below(np.empty(0, dtype=int), rng=script([])).shape == (0,)


@pytest.mark.parametrize("bad", [[0], [-3], [1.5], [float("nan")], [2**63], [2**70], [True], ["4"]])
def test_bad_bounds_are_refused(bad):
    with pytest.raises(ParameterError, match="bounds must be integers"):
        integers_below(bad)


@given(st.integers(1, 2**300))
def test_integers_stay_below_any_bound(bound):
    assert 0 <= integer_below(bound, rng=SeededSource(bound % 2**32)) < bound


def test_words_are_used_as_they_are_and_refused_ones_drawn_again(script):
    assert integer_below(1, rng=script([])) == 0
    assert integer_below(2**64, rng=script([77])) == 77
    assert integer_below(2**128, rng=script([5, 9])) == 9 << 64 | 5
    assert integer_below(3, rng=script([LAST, 2**63])) == 2  # two leading bits: 3 is refused, then 2
    assert integer_below(2**64 + 1, rng=script([LAST, LAST, 2**63, 0])) == 1


def test_a_choice_follows_its_weights_exactly_at_the_edges(script):
    weights = [2**64 - 2, 1, 0, 1]
    assert choice(weights, rng=script([0])) == 0
    assert choice(weights, rng=script([LAST - 2])) == 0
    assert choice(weights, rng=script([LAST - 1])) == 1
    assert choice(weights, rng=script([LAST])) == 3


def test_subsets_are_uniform():
    rng = SeededSource(1)
    seen = Counter(frozenset(subset(3, 6, rng=rng)) for _ in range(20_000))
    assert len(seen) == comb(6, 3)
    assert stats.chisquare(list(seen.values())).pvalue > 1e-3


def test_nothing_to_choose_from_is_refused():
    for refused in (lambda: integer_below(0), lambda: choice([]), lambda: choice([0, 0]), lambda: subset(3, 2)):
        with pytest.raises(ParameterError):
            refused()
    assert subset(0, 5) == set()
