"""Whole numbers of any size, whole weights and subsets: uniform, exactly."""

from collections import Counter
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from cutline.errors import ParameterError
from cutline.sampling import SeededSource
from cutline.sampling.whole import choice, integer_below, subset

LAST = 2**64 - 1


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
    assert chisquare(list(seen.values())).pvalue > 1e-3


def test_nothing_to_choose_from_is_refused():
    for refused in (lambda: integer_below(0), lambda: choice([]), lambda: choice([0, 0]), lambda: subset(3, 2)):
        with pytest.raises(ParameterError):
            refused()
    assert subset(0, 5) == set()
