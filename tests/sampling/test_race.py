"""Races: the law of the winner, and refinement when words leave a doubt."""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from cutline.errors import ParameterError
from cutline.sampling import SeededSource
from cutline.sampling.race import _least, race

LAST = 2**64 - 1


def winners_law(handicaps, members, rate):
    """P(group) = members * integral over z of a (1 - a z)^(members - 1) prod over others of (1 - a z)^members."""
    a = np.exp(-float(rate) * np.array(handicaps))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    z = (nodes + 1) / 2
    product = np.prod((1 - np.outer(a, z)) ** np.array(members)[:, None], axis=0)
    return [m * x * np.sum(weights / 2 * product / (1 - x * z)) for m, x in zip(members, a, strict=True)]


@pytest.mark.parametrize(
    ("handicaps", "members"), [([0, 1, 3], [1, 2, 9]), ([0, 0], [3, 1]), ([2, 0, 5, 1], [1, 1, 30, 2])]
)
def test_winners_follow_the_law_and_not_another(handicaps, members):
    rng = SeededSource(4)
    runs = 10_000
    won = [race(np.array(handicaps), np.array(members), Fraction(1, 2), rng=rng) for _ in range(runs)]
    observed = np.bincount(won, minlength=len(members))
    law = np.array(winners_law(handicaps, members, 0.5))
    assert law.sum() == pytest.approx(1.0)
    assert chisquare(observed, law / law.sum() * runs).pvalue > 1e-3
    if len(set(handicaps)) > 1:
        for factor in (0.7, 1.3):
            wrong = np.array(winners_law(handicaps, members, 0.5 * factor))
            assert chisquare(observed, wrong / wrong.sum() * runs).pvalue < 1e-4


@given(
    word=st.one_of(st.integers(0, LAST), st.integers(0, 40), st.integers(LAST - 40, LAST)),
    members=st.sampled_from([1, 2, 7, 10**3, 10**7, 2**40]),
)
def test_float_keys_are_as_good_as_promised(word, members):
    words, many = np.array([word], dtype=np.uint64), np.array([members])
    with ctx.workprec(300):
        for above in (False, True):
            end = arb(word + above) / 2**64
            found = float(_least(words, many, above=above)[0])
            if word + above == 0:
                assert found == -np.inf
            elif word + above == 2**64:
                assert found == 0.0
            else:
                truth = (1 - (1 - end) ** (arb(1) / members)).log()
                assert abs(found - float(truth)) < 2.0**-44


def test_equal_words_are_told_apart_by_further_words(script):
    source = script([77, 77, 9, 4])
    assert race(np.array([0, 0]), np.array([1, 1]), Fraction(1), rng=source) == 1
    assert source.used == 4
    source = script([77, 77, 9, 9, 1, 5])
    assert race(np.array([0, 0]), np.array([1, 1]), Fraction(1), rng=source) == 0
    assert source.used == 6


def test_only_those_still_in_the_race_draw_further_words(script):
    source = script([2**40, 2**40, 2**63, 0, 5])
    assert race(np.array([0, 0, 0]), np.array([1, 1, 1]), Fraction(1), rng=source) == 0
    assert source.used == 5


def test_a_word_of_zeros_can_win_from_far_behind(script):
    """exp(-50) is below 2^-64: only zeros beyond the first word decide."""
    source = script([2**63, 0, 5, 0])
    assert race(np.array([0, 50]), np.array([1, 1]), Fraction(1), rng=source) == 1
    source = script([2**63, 0, 5, 2**63])
    assert race(np.array([0, 50]), np.array([1, 1]), Fraction(1), rng=source) == 0


def test_lost_races_and_lonely_ones(script):
    assert race(np.array([0, 3]), np.array([0, 4]), Fraction(1), rng=script([])) == 1
    assert race(np.array([0, 2**41]), np.array([1, 9]), Fraction(10**300), rng=SeededSource(0)) == 0
    for handicaps, members, rate in [([0], [0], 1), ([-1, 0], [1, 1], 1), ([0, 1], [1, 1], -1)]:
        with pytest.raises(ParameterError):
            race(np.array(handicaps), np.array(members), Fraction(rate))
