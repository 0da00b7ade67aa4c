"""Peeling: bit for bit the draws of `categorical` on what is left, and the refinement when it is forced."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from cutline.errors import ParameterError
from cutline.sampling import SeededSource, Weights, categorical
from cutline.sampling.peeling import Kept, peel, peel_groups

LAST = 2**64 - 1


def row(scores, rate, multiplicities=None):
    members = None if multiplicities is None else np.array(multiplicities)
    return Weights(scores=np.array([scores]), rate=Fraction(rate), multiplicities=members)


def one_by_one(weights, words, further):
    """Peel with `categorical` alone, each draw with its own word."""
    left = np.ones_like(weights.scores[0]) if weights.multiplicities is None else weights.multiplicities[0].copy()
    groups = []
    for word in words:
        rest = Weights(scores=weights.scores, rate=weights.rate, multiplicities=left)
        groups.append(int(categorical(rest, rng=Kept(int(word), further))[0]))
        left[groups[-1]] -= 1
    return groups


@given(data=st.data())
def test_the_same_words_give_the_same_groups_as_categorical(data):
    groups = data.draw(st.integers(1, 8))
    spread = data.draw(st.sampled_from([3, 60, 10_000, 2**41]))
    scores = sorted(data.draw(st.lists(st.integers(0, spread), min_size=groups, max_size=groups)), reverse=True)
    members = data.draw(st.lists(st.integers(0, 4), min_size=groups, max_size=groups).filter(any))
    rate = data.draw(st.sampled_from(["0", "1/1000", "1/3", "7", "1/1000000000000", "100000000000000000000000"]))
    draws = data.draw(st.integers(0, sum(members)))
    words = data.draw(
        st.lists(st.one_of(st.integers(0, LAST), st.sampled_from([0, LAST])), min_size=draws, max_size=draws)
    )
    weights = row(scores, rate, members)

    class Fixed:
        seeded = True

        def __init__(self):
            self.further = SeededSource(3)
            self.first = True

        def words(self, n):
            if self.first:
                self.first = False
                return np.array(words, dtype=np.uint64)
            return self.further.words(n)

    found, left = peel_groups(weights, draws, rng=Fixed())
    assert found.tolist() == one_by_one(weights, words, SeededSource(3))
    for n, group in enumerate(found.tolist()):
        assert left[n] == members[group] - found[:n].tolist().count(group)


def test_the_lower_end_is_certain(script):
    source = script([0])
    groups, _ = peel_groups(row([900, 450, 0], "1/10"), 1, rng=source)
    assert groups.tolist() == [0]


def test_a_boundary_hit_is_refined_with_further_words(script):
    # Equal weights: the boundary is exactly 1/2, so the word 2^63 (U in [1/2, 1/2 + 2^-64)) is in doubt and lies above.
    source = script([2**63, 0, 0, 0])
    groups, _ = peel_groups(row([5, 5], 1), 1, rng=source)
    assert groups.tolist() == [1]
    assert source.used == 2
    source = script([2**63 - 1, LAST, LAST])
    groups, _ = peel_groups(row([5, 5], 1), 1, rng=source)
    assert groups.tolist() == [0]
    assert source.used == 2


def test_outcomes_below_the_window_can_still_happen(script):
    # The second group weighs exp(-100): no float sees it, a word of ones followed by ones is it.
    source = script([LAST, LAST, LAST])
    groups, _ = peel_groups(row([100, 0], 1), 1, rng=source)
    assert groups.tolist() == [1]
    assert source.used == 3  # exp(-100) = 2^-144.3 takes three words to see
    source = script([LAST, LAST, 0])
    groups, _ = peel_groups(row([100, 0], 1), 1, rng=source)
    assert groups.tolist() == [0]


@pytest.mark.slow
def test_ranks_follow_the_law_of_draws_without_replacement():
    scores, members, rate = [4, 2, 1], [1, 2, 1], Fraction(1, 3)
    each = np.exp(float(rate) * np.repeat(scores, members))

    def law(factor):
        weights = each**factor
        return {
            s: np.prod([weights[s[i]] / (weights.sum() - weights[list(s[:i])].sum()) for i in range(3)])
            for s in permutations(range(4), 3)
        }

    rng = SeededSource(2)
    runs = [tuple(peel(row(scores, rate, members), 3, rng=rng).tolist()) for _ in range(20_000)]
    for factor in (1.0, 0.7, 1.3):
        expected = law(factor)
        observed = [runs.count(s) for s in expected]
        p_value = chisquare(observed, np.array(list(expected.values())) * len(runs)).pvalue
        assert p_value > 1e-3 if factor == 1.0 else p_value < 1e-6


def test_everything_can_be_drawn_and_nothing_twice():
    ranks = peel(row([7, 3, 0], "1/2", [3, 500, 1]), 504, rng=SeededSource(1))
    assert sorted(ranks.tolist()) == list(range(504))


def test_refusals():
    for weights, draws in [
        (row([1, 2], 1), 1),
        (row([2, 1], 1), 3),
        (row([2, 1], 1), -1),
        (Weights(scores=np.array([[2, 1], [2, 1]]), rate=Fraction(1)), 1),
        (Weights(scores=np.array([[2, 1]]), rate=Fraction(1), multiplicities=np.array([2**70, 1], dtype=object)), 1),
    ]:
        with pytest.raises(ParameterError):
            peel(weights, draws)
