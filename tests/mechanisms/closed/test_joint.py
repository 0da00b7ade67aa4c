"""JointEM: the law equals brute force over all sequences, and sequences are uniform within their loss."""

import math
from itertools import permutations

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from cutline.histogram import ClosedHistogram
from cutline.mechanisms.closed.joint import JointEM, count_by_loss
from cutline.privacy import Adjacency
from cutline.sampling import SeededSource

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
COUNTS = {"a": 9, "b": 7, "c": 7, "d": 3, "e": 0}
SMALL = ClosedHistogram.from_counts(COUNTS)


def losses_of(counts, k):
    ranked = sorted(counts.values(), reverse=True)
    return {s: max(ranked[i] - counts[s[i]] for i in range(k)) for s in permutations(counts, k)}


def brute_force(counts, *, k, epsilon, adjacency):
    with ctx.workprec(300):
        weights = {
            s: (-arb(epsilon) * loss / (2 if adjacency is ADD else 4)).exp() for s, loss in losses_of(counts, k).items()
        }
        total = sum(weights.values())
        return {s: float(w / total) for s, w in weights.items()}


@given(
    listed=st.lists(st.integers(0, 6), min_size=2, max_size=5),
    k=st.integers(1, 4),
    epsilon=st.sampled_from([0.1, 1.0, 5.0]),
    adjacency=st.sampled_from(Adjacency),
)
def test_law_equals_brute_force(listed, k, epsilon, adjacency):
    k = min(k, len(listed) - 1)
    counts = {chr(ord("a") + i): n for i, n in enumerate(listed)}
    outcomes = JointEM(k=k, epsilon=epsilon, adjacency=adjacency).law(ClosedHistogram.from_counts(counts))
    law = {outcome.items: p for outcome, p in outcomes.items()}
    assert len(law) == len(outcomes)
    truth = brute_force(counts, k=k, epsilon=epsilon, adjacency=adjacency)
    assert law.keys() == truth.keys()
    assert all(law[s] == pytest.approx(truth[s], rel=1e-12) for s in truth)


@given(listed=st.lists(st.integers(0, 6), min_size=2, max_size=6), k=st.integers(1, 4))
def test_sequences_are_counted_by_loss(listed, k):
    k = min(k, len(listed) - 1)
    histogram = ClosedHistogram.from_counts(dict(enumerate(listed)))
    losses, sizes = count_by_loss(histogram.values, histogram.multiplicities, k)
    truth = sorted(losses_of(dict(enumerate(listed)), k).values())
    assert losses == sorted(set(truth))
    assert sizes == [truth.count(at) for at in losses]
    assert sum(sizes) == math.perm(len(listed), k)


def test_counts_are_exact_in_a_large_domain():
    histogram = ClosedHistogram.from_counts(np.random.default_rng(0).permutation(10**5 // np.arange(1, 3001)))
    losses, sizes = count_by_loss(histogram.values, histogram.multiplicities, 30)
    assert sum(sizes) == math.perm(3000, 30)
    assert sizes[0] == 1
    assert losses[0] == 0
    assert all(size > 0 for size in sizes)


def test_a_large_domain_is_drawn_by_its_groups():
    counts = np.random.default_rng(1).permutation(10**6 // np.arange(1, 10**5 + 1))
    release = JointEM(k=10, epsilon=1.0, adjacency=ADD).release(
        ClosedHistogram.from_counts(counts), rng=SeededSource(0)
    )
    ranked = sorted(range(10**5), key=lambda i: -counts[i])
    assert release.items == tuple(ranked[:10])
