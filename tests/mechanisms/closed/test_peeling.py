"""PeelingEM: the law of draws without replacement, the budget spent, and a million candidates by their groups."""

import math
from itertools import permutations

import numpy as np
import pytest
from flint import arb, ctx

from cutline.errors import BudgetError, DomainError, LawTooLarge, ParameterError
from cutline.histogram import ClosedHistogram, OpenHistogram
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.privacy import Adjacency, Budget, Filter
from cutline.sampling import SeededSource

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
COUNTS = {"a": 9, "b": 7, "c": 7, "d": 3, "e": 0}
SMALL = ClosedHistogram.from_counts(COUNTS)


def brute_force(counts, *, k, epsilon, adjacency):
    """The law from its definition, in ball arithmetic."""
    with ctx.workprec(400):
        weights = {i: (arb(epsilon) * n / adjacency.count_range).exp() for i, n in counts.items()}
        law = {}
        for items in permutations(counts, k):
            chance, left = arb(1), dict(weights)
            for item in items:
                chance *= left[item] / sum(left.values())
                del left[item]
            law[items] = float(chance)
    return law


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(("k", "epsilon"), [(1, 0.4), (3, 1.0), (5, 0.2), (2, 60.0)])
def test_law_equals_brute_force(adjacency, k, epsilon):
    mechanism = PeelingEM(k=k, epsilon=epsilon, adjacency=adjacency)
    law = {outcome.items: p for outcome, p in mechanism.law(SMALL).items()}
    truth = brute_force(COUNTS, k=k, epsilon=epsilon, adjacency=adjacency)
    assert law.keys() == truth.keys()
    assert all(law[items] == pytest.approx(truth[items], rel=1e-12) for items in truth if truth[items] > 1e-300)


def test_chance_of_a_large_domain():
    """k equal items far above the rest: the law is far too long to list, the chance is not."""
    cliff = ClosedHistogram.from_counts(dict(enumerate([400] * 100 + [0] * 10_000)))
    assert PeelingEM(k=100, epsilon=0.1, adjacency=ADD).chance(cliff, 100) == pytest.approx(1.0, abs=1e-9)
    assert PeelingEM(k=100, epsilon=0.01, adjacency=ADD).chance(cliff, 100) < 1e-9
    with pytest.raises(LawTooLarge):
        PeelingEM(k=100, epsilon=0.1, adjacency=ADD).law(cliff)


def test_a_million_candidates_give_their_names_only_when_drawn():
    counts = np.zeros(10**6, dtype=np.int64)
    counts[[123_456, 7, 999_999]] = [10**6, 9 * 10**5, 8 * 10**5]
    release = PeelingEM(k=5, epsilon=1.0, adjacency=ADD).release(
        ClosedHistogram.from_counts(counts), rng=SeededSource(0)
    )
    assert release.items[:3] == (123_456, 7, 999_999)
    assert len(set(release.items)) == 5
    assert all(type(item) is int for item in release.items)


class Lazy(tuple):
    """Names that count how often they were looked up."""

    looked_up = 0

    def __getitem__(self, index):
        type(self).looked_up += 1
        return super().__getitem__(index)


def test_k_look_ups_for_k_names():
    ready = ClosedHistogram.from_counts(dict(enumerate(range(1000))))
    lazy = ClosedHistogram(items=Lazy(ready.items), values=ready.values, multiplicities=ready.multiplicities)
    PeelingEM(k=10, epsilon=0.1, adjacency=ADD).release(lazy)
    assert Lazy.looked_up == 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "delta", "releases", "k"), [(1.0, 1e-6, 1, 10), (0.1, 1e-6, 10, 15), (8.0, 1e-9, 3, 1)]
)
def test_calibration_spends_the_budget(epsilon, delta, releases, k):
    budget = Budget(epsilon=epsilon, delta=delta, releases=releases)
    mechanism = PeelingEM.calibrate(budget, k=k)
    spent = (releases * mechanism.cost).epsilons(delta)
    assert epsilon * (1 - 1e-6) <= min(spent.values()) <= epsilon
    assert budget.fits(mechanism.cost)
    assert PeelingEM.calibrate(budget, k=k, adjacency=REPLACE).epsilon == mechanism.epsilon


def test_equal_draws_get_more_than_one_renyi_order_would_allow():
    budget = Budget(epsilon=0.1, delta=1e-6, releases=10)
    cost = budget.releases * PeelingEM.calibrate(budget, k=15).cost
    assert cost.epsilons(1e-6)["rdp"] > 0.1 * 1.08
    assert cost.epsilons(1e-6)["exact"] <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), [(0.001, 0.1), (0.1, 0.5), (1.0, 0.9), (0.01, 1e-12), (50.0, 1e-6)])
def test_calibration_where_delta_alone_nearly_pays_or_epsilon_is_extreme(epsilon, delta):
    budget = Budget(epsilon=epsilon, delta=delta, releases=2)
    mechanism = PeelingEM.calibrate(budget, k=3)
    assert budget.fits(mechanism.cost)
    assert mechanism.epsilon >= epsilon / 6
    more = PeelingEM(k=3, epsilon=1.001 * mechanism.epsilon, adjacency=ADD)
    assert not budget.fits(more.cost)


def test_calibration_within_a_filter():
    budget = Budget(epsilon=1.0, delta=1e-6, releases=7)
    limits = budget.filter(order=16.0, delta_share=0.25)
    mechanism = PeelingEM.calibrate(budget, k=4, limits=limits)
    assert limits.rdp * (1 - 1e-6) <= (7 * mechanism.cost).rdp(16.0) <= limits.rdp
    with pytest.raises(BudgetError):
        PeelingEM.calibrate(budget, k=4, limits=Filter(order=16.0, rdp=limits.rdp * 1.01, delta=limits.delta))


def test_refusals():
    with pytest.raises(DomainError, match="limited-domain"):
        PeelingEM(k=1, epsilon=1.0, adjacency=ADD).release(OpenHistogram.from_counts(COUNTS, max_k=3))
    with pytest.raises(ParameterError, match="5 candidates"):
        PeelingEM(k=6, epsilon=1.0, adjacency=ADD).release(SMALL)
    for k in (0, -3, 2.5, True, None):
        with pytest.raises(ParameterError, match="k"):
            PeelingEM.calibrate(Budget(epsilon=1.0, delta=1e-6), k=k)
    for epsilon in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ParameterError, match="epsilon"):
            PeelingEM(k=1, epsilon=epsilon, adjacency=ADD)


def test_all_candidates_can_be_drawn():
    release = PeelingEM(k=5, epsilon=0.1, adjacency=ADD).release(SMALL)
    assert sorted(release.items) == list("abcde")
    assert not release.seeded
    assert release.k == 5
