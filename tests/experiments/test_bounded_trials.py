"""The fast simulation draws from the mechanisms' own laws."""

from collections import Counter

import numpy as np
import pyarrow
import pytest

from cutline.histogram import BoundedHistogram, OpenHistogram
from cutline.mechanisms.open.find_then_choose import FindThenChoose, Round
from cutline.mechanisms.open.peel_then_test import PeelThenTest
from cutline.mechanisms.open.table_threshold import TableStep, TableThreshold
from cutline.privacy import Adjacency, BitTable
from experiments.bounded_trials import count_bounded, released_indices

FULL, BOUNDED = np.array([9, 4, 8, 3, 0, 2]), np.array([3, 4, 2, 1, 0, 0])
TABLE = BitTable(values=(0.1, 0.3, 0.6, 0.8))
RUNS = 4000


def mechanisms():
    step = TableStep(table=TABLE, max_items_per_user=2)
    gentle = TableStep(table=BitTable(values=(0.05, 0.2)), max_items_per_user=2)
    for adjacency in Adjacency:
        yield TableThreshold(step=step, adjacency=adjacency)
        for k in (1, 2, 3):
            rounds = (
                Round(step=gentle, choosing=0.5, enough=k + 1),
                Round(step=step, choosing=0.2, enough=k + 1),
            )
            yield FindThenChoose(k=k, rounds=rounds, order=3.0, adjacency=adjacency)
        for bottom in (None, 1):
            yield PeelThenTest(k=2, max_k=3, epsilon=0.7, table=TABLE, bottom=bottom, adjacency=adjacency)


@pytest.mark.parametrize(
    "mechanism", list(mechanisms()), ids=lambda m: f"{m.name} {m.public_parameters().get('k', '')}"
)
def test_the_simulation_follows_the_law(mechanism):
    histogram = BoundedHistogram.from_counts(FULL, BOUNDED, max_items_per_user=1)
    if isinstance(mechanism, PeelThenTest):
        histogram = OpenHistogram.from_counts(FULL, max_k=3)
    law: Counter = Counter()
    for outcome, p in mechanism.law(histogram).items():
        law[frozenset(outcome.items or ())] += p
    seen = Counter(frozenset(i.tolist()) for i in released_indices(mechanism, FULL, BOUNDED, RUNS, seed=3))
    assert set(seen) <= set(law)
    worst = max(abs(seen[s] - RUNS * p) / np.sqrt(RUNS * p * (1 - p) + 1) for s, p in law.items())
    assert worst < 5  # standard deviations


def test_a_user_keeps_as_many_items_as_the_bound_says():
    log = pyarrow.table({"user": np.repeat(np.arange(50), 20), "item": np.tile(np.arange(20), 50)})
    for bound in (1, 7, 100):
        full, bounded = count_bounded(log, bound=bound)
        assert bounded.sum() == 50 * min(bound, 20)
        assert set(full.tolist()) == {50}
        assert all(1 <= kept <= 50 for kept in bounded)
    full, parts = count_bounded(log, bound=5, parts=8)
    assert (full.tolist(), parts.tolist()) == ([50] * 20, [50 * 4] * 20)  # isqrt(64 * 5 // 20) eighths each
    assert [counts.tolist() for counts in count_bounded(log.slice(0, 0), bound=3)] == [[], []]
