"""SubsetEM: the law equals brute force over all sets, and sets are uniform within their utility."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from cutline.histogram import ClosedHistogram
from cutline.mechanisms.closed.subset import Cells, SubsetEM
from cutline.outcome import Outcome
from cutline.privacy import Adjacency
from cutline.sampling import SeededSource

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
COUNTS = {"a": 9, "b": 7, "c": 7, "d": 3, "e": 0, "f": 0}
SMALL = ClosedHistogram.from_counts(COUNTS)


def utilities_of(counts, k):
    return {
        frozenset(s): min(counts[i] for i in s) - max(n for i, n in counts.items() if i not in s)
        for s in combinations(counts, k)
    }


def brute_force(counts, *, k, epsilon, adjacency):
    with ctx.workprec(300):
        weights = {
            s: (arb(epsilon) * u / (2 if adjacency is ADD else 4)).exp() for s, u in utilities_of(counts, k).items()
        }
        total = sum(weights.values())
        return {(k, s): float(w / total) for s, w in weights.items()}


@given(
    listed=st.lists(st.integers(0, 6), min_size=2, max_size=7),
    k=st.integers(1, 6),
    epsilon=st.sampled_from([0.1, 1.0, 5.0]),
    adjacency=st.sampled_from(Adjacency),
)
def test_law_equals_brute_force(listed, k, epsilon, adjacency):
    k = min(k, len(listed) - 1)
    counts = {chr(ord("a") + i): n for i, n in enumerate(listed)}
    outcomes = SubsetEM(k=k, epsilon=epsilon, adjacency=adjacency).law(ClosedHistogram.from_counts(counts))
    law = {(outcome.k, outcome.items): p for outcome, p in outcomes.items()}
    truth = brute_force(counts, k=k, epsilon=epsilon, adjacency=adjacency)
    assert law.keys() == truth.keys()
    assert all(law[s] == pytest.approx(truth[s], rel=1e-12) for s in truth)


@given(listed=st.lists(st.integers(0, 6), min_size=2, max_size=9), k=st.integers(1, 8))
def test_sets_are_counted_by_utility(listed, k):
    k = min(k, len(listed) - 1)
    histogram = ClosedHistogram.from_counts(dict(enumerate(listed)))
    cells = Cells.of(histogram.values, histogram.multiplicities, k)
    found = Counter()
    for utility, size in zip(cells.utilities, cells.sizes, strict=True):
        assert size >= 0
        found[utility] += size
    assert +found == Counter(utilities_of(dict(enumerate(listed)), k).values())


@pytest.mark.parametrize("k", [1, 2, 4, 6])
def test_every_cell_is_drawn_uniformly(k):
    counts = np.array([8, 8, 6, 6, 6, 3, 3])
    histogram = ClosedHistogram.from_counts(counts)
    cells = Cells.of(histogram.values, histogram.multiplicities, k)
    rng = SeededSource(k)
    for cell, size in enumerate(cells.sizes):
        if size:
            seen = Counter(frozenset(cells.draw(cell, rng)) for _ in range(60 * size))
            assert len(seen) == size
            for ranks in seen:
                outside = [counts[i] for i in range(7) if i not in ranks]
                assert min(counts[list(ranks)]) - max(outside) == cells.utilities[cell]
                assert len(ranks) == k
            assert size == 1 or chisquare(list(seen.values())).pvalue > 1e-4


def test_counts_are_exact_in_a_large_domain():
    histogram = ClosedHistogram.from_counts(np.random.default_rng(0).permutation(10**5 // np.arange(1, 3001)))
    cells = Cells.of(histogram.values, histogram.multiplicities, 30)
    assert sum(cells.sizes) == math.comb(3000, 30)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_chance_is_the_entry_of_the_top_set(k):
    mechanism = SubsetEM(k=k, epsilon=0.8, adjacency=REPLACE)
    assert mechanism.chance(SMALL, k) == pytest.approx(
        mechanism.law(SMALL)[mechanism.outcome(frozenset(SMALL.top(k)))], rel=1e-12
    )
    assert mechanism.chance(SMALL, k + 1) == 0.0


def test_a_large_domain_is_drawn_by_its_groups():
    counts = np.zeros(10**6, dtype=np.int64)
    counts[[5, 77, 999_999]] = 400
    histogram = ClosedHistogram.from_counts(counts)
    release = SubsetEM(k=3, epsilon=1.0, adjacency=ADD).release(histogram, rng=SeededSource(0))
    assert release.items == frozenset({5, 77, 999_999})
    blind = SubsetEM(k=3, epsilon=1e-9, adjacency=ADD).release(histogram, rng=SeededSource(0))
    assert len(blind.items) == 3
    assert blind.outcome == Outcome(items=blind.items, k=3, steps=("draw",))
