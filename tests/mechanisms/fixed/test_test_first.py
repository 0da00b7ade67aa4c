"""Testing first: exact at a cliff and refunded, a selector otherwise, one price for both domains."""

import itertools
import math
from itertools import pairwise

import numpy as np
import pytest

from cutline.errors import DomainError, ParameterError
from cutline.histogram import ClosedHistogram, OpenHistogram
from cutline.mechanisms import mechanism as registered
from cutline.mechanisms.adaptive.gap_tests import GaussianTest, TableTest
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.mechanisms.calibration import stretch_epsilon
from cutline.mechanisms.fixed.continuation import choose_selector, subset_needs_less
from cutline.mechanisms.fixed.test_first import TestFirst
from cutline.mechanisms.one_gap import one_gap
from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.outcome import Outcome
from cutline.privacy import Adjacency, BitTable, BoundedRange, Budget
from cutline.sampling import SeededSource

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
BUDGET = Budget(epsilon=1.0, delta=1e-6)
COUNTS = {"a": 9, "b": 7, "c": 7, "d": 3, "e": 2}
DOMAINS = {"open": OpenHistogram.from_counts(COUNTS, max_k=4), "closed": ClosedHistogram.from_counts(COUNTS)}
CLIFF = {f"top{i}": 900 + i for i in range(5)} | {f"low{i}": 300 + i for i in range(80)}
SLOPE = {i: 400 - i for i in range(200)}


def small(*, k=2, epsilon=0.8, adjacency=ADD, stretch=1.0):
    test = TableTest(table=BitTable.stability(order=4.0, rdp=0.3 * stretch, delta=0.05))
    return TestFirst(
        k=k,
        max_k=4,
        test=test,
        nearby=test if k > 1 else None,
        epsilon=epsilon * stretch,
        delta=0.2,
        adjacency=adjacency,
    )


def chances(mechanism, histogram):
    """The law by steps and items."""
    return {(outcome.steps, outcome.items): p for outcome, p in mechanism.law(histogram).items()}


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("domain", DOMAINS)
def test_a_cliff_goes_out_exactly_and_the_rest_is_refunded(adjacency, domain):
    histogram = OpenHistogram.from_counts(CLIFF, max_k=100) if domain == "open" else ClosedHistogram.from_counts(CLIFF)
    mechanism = TestFirst.calibrate(BUDGET, k=5, adjacency=adjacency)
    for seed in range(20):
        release = mechanism.release(histogram, rng=SeededSource(seed))
        assert release.items == frozenset(f"top{i}" for i in range(5))
        assert release.outcome == Outcome(items=release.items, k=release.k, steps=("test", "release"))
        assert release.cost == mechanism.test.cost(adjacency)
    assert release.cost.rdp(20.0) < 0.2 * mechanism.cost.rdp(20.0)
    assert "(1, 1e-06)-DP" in release.guarantee  # the worst case, never the refund


def test_a_slope_falls_back_on_the_selector_of_its_domain():
    mechanism = TestFirst.calibrate(BUDGET, k=3)
    opened = mechanism.release(OpenHistogram.from_counts(SLOPE, max_k=100), rng=SeededSource(0))
    closed = mechanism.release(ClosedHistogram.from_counts(SLOPE), rng=SeededSource(0))
    assert opened.steps == ("test", "nearby", "limited-rounds")
    assert closed.steps == ("test", "nearby", "peeling-em")
    assert isinstance(opened.items, tuple)
    assert isinstance(closed.items, tuple)
    assert opened.cost == mechanism.cost
    few = mechanism.release(ClosedHistogram.from_counts({i: 9 - i for i in range(6)}), rng=SeededSource(0))
    assert few.steps == ("test", "nearby", "subset-em")
    assert isinstance(few.items, frozenset)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_no_path_costs_more_than_the_reserve_at_any_order(adjacency):
    for k in (1, 2, 7, 20):
        mechanism = TestFirst.calibrate(BUDGET, k=k, adjacency=adjacency)
        for size in (k, k + 1, 2 * k, 500):
            closed = ClosedHistogram.from_counts(np.arange(size))
            opened = OpenHistogram.from_counts(np.arange(size), max_k=mechanism.max_k)
            for histogram, draws in itertools.product((closed, opened), {k, k - k // 2, 1}):
                path = cost_of_tests(mechanism) + choose_selector(mechanism.fallback, histogram, k=draws).cost
                assert path.delta <= mechanism.cost.delta
                for order in (1.01, 2.0, 7.0, 30.0, 1e3, 1e6, math.inf):
                    assert path.rdp(order) <= mechanism.cost.rdp(order)


def cost_of_tests(mechanism):
    """The cost of every test there is."""
    first = mechanism.test.cost(mechanism.adjacency)
    return first if mechanism.nearby is None else first + mechanism.nearby.cost(mechanism.adjacency)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("domain", DOMAINS)
def test_a_cliff_just_under_k_is_kept_and_the_rest_is_selected_with_less_noise(adjacency, domain):
    counts = {"a": 2141, "b": 2137, "c": 890, "d": 803} | {f"low{i}": 300 - i for i in range(98)}
    histogram = (
        OpenHistogram.from_counts(counts, max_k=100) if domain == "open" else ClosedHistogram.from_counts(counts)
    )
    mechanism = TestFirst.calibrate(BUDGET, k=3, adjacency=adjacency)
    selects = "limited-rounds" if domain == "open" else "peeling-em"
    for seed in range(20):
        release = mechanism.release(histogram, rng=SeededSource(seed))
        assert release.steps == ("test", "nearby 2", "release", selects)
        assert isinstance(release.items, frozenset)
        assert {"a", "b"} < release.items
        assert len(release.items) == 3
    one = choose_selector(mechanism.fallback, histogram, k=1)
    assert one.epsilon == pytest.approx(math.sqrt(3) * mechanism.epsilon)
    assert release.cost == cost_of_tests(mechanism) + one.cost
    assert release.cost.delta <= mechanism.cost.delta
    for order in (1.01, 2.0, 7.0, 30.0, 1e3, 1e6, math.inf):
        assert release.cost.rdp(order) <= mechanism.cost.rdp(order)


def test_two_gaps_alike_under_k_are_no_stable_choice():
    stairs = OpenHistogram.from_counts({"a": 900, "b": 900, "c": 600, "d": 300}, max_k=4)
    steep = TableTest(table=BitTable.stability(order=4.0, rdp=1.0, delta=0.01))
    mechanism = TestFirst(k=4, max_k=4, test=steep, nearby=steep, epsilon=0.1, delta=0.1, adjacency=ADD)
    kept = sum(p for outcome, p in mechanism.law(stairs).items() if "nearby 2" in outcome.steps)
    passed = sum(p for outcome, p in mechanism.law(stairs).items() if outcome.steps == ("test", "release"))
    assert kept == pytest.approx((1 - passed) * 0.01)
    clear = OpenHistogram.from_counts({"a": 900, "b": 900, "c": 300, "d": 10}, max_k=4)
    questions = list(mechanism.planned_tests(clear))
    assert [question.cut for question in questions] == [4, 2]
    assert float(steep.chances(questions[1].gap, questions[1].slack, ADD)[0][0]) > 0.999


def test_the_curve_over_its_square_never_rises():
    for order in (1.001, 1.5, 3.0, 16.0, 200.0):
        shares = [BoundedRange(epsilon=e).rdp(order) / e**2 for e in np.geomspace(1e-3, 40, 60).tolist()]
        assert all(after <= before * (1 + 1e-12) for before, after in pairwise(shares))
    assert stretch_epsilon(0.3, draws=4, over=4) == 0.3
    assert stretch_epsilon(0.3, draws=4, over=1) == pytest.approx(0.6)


def test_the_subset_is_taken_where_its_one_gap_number_is_smaller():
    for k, size in ((2, 6), (3, 9), (5, 12), (2, 200), (10, 1000)):
        closed = ClosedHistogram.from_counts(np.arange(size))
        fallback = LimitedDomain(k=k, max_k=size, epsilon=0.1, delta=1e-6, adjacency=ADD)
        chosen = choose_selector(fallback, closed, k=k)
        assert (chosen.name == "subset-em") == subset_needs_less(k, size)
        gap = one_gap(chosen.chance, max_k=size, k=k, closed=True)
        peels = choose_selector(fallback, ClosedHistogram.from_counts(np.arange(10**5)), k=k)
        assert peels.name == "peeling-em"
        assert gap <= one_gap(peels.chance, max_k=size, k=k, closed=True) + 1


@pytest.mark.slow
def test_at_a_cliff_it_needs_far_less_than_its_selector_and_is_never_much_worse():
    selects = LimitedDomain.calibrate(BUDGET, k=10)
    first = TestFirst.calibrate(BUDGET, k=10)
    test_only = StableTopK.calibrate(BUDGET, max_k=10, min_k=10)
    alone, tested = one_gap(selects.chance, max_k=100, k=10), one_gap(first.chance, max_k=100, k=10)
    assert one_gap(test_only.chance, max_k=10, k=10) < tested < 0.7 * alone
    assert first.fallback.epsilon > 0.95 * selects.epsilon


@pytest.mark.slow
@pytest.mark.parametrize("domain", DOMAINS)
def test_releases_match_the_law_and_reject_wrong_parameters(domain, p_value):
    histogram = DOMAINS[domain]
    right = small()
    law = right.law(histogram)
    assert math.fsum(law.values()) == pytest.approx(1.0, abs=1e-12)
    rng = SeededSource(3)
    seen = [right.release(histogram, rng=rng).outcome for _ in range(3000)]
    assert p_value(seen, law) > 1e-3
    for factor in (0.7, 1.3):
        assert p_value(seen, small(stretch=factor).law(histogram)) < 1e-6


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("domain", DOMAINS)
def test_chance_is_a_sum_over_the_law(domain, adjacency):
    for k in (1, 2, 3):
        mechanism = small(k=k, adjacency=adjacency)
        law = mechanism.law(DOMAINS[domain])
        for cut in range(1, 6):
            top = set(DOMAINS[domain].top(cut))
            expected = sum(p for outcome, p in law.items() if set(outcome.items) == top)
            assert mechanism.chance(DOMAINS[domain], cut) == pytest.approx(expected, rel=1e-11, abs=1e-300)


def test_a_stable_set_is_a_set_even_where_nothing_was_seen():
    law = chances(small(k=2), OpenHistogram.from_counts({}, max_k=4))
    assert law[("test", "nearby 1", "release", "limited-rounds"), frozenset()] == pytest.approx(0.95 * 0.05)
    assert law[("test", "nearby", "limited-rounds"), ()] == pytest.approx(0.95 * 0.95)


@pytest.mark.parametrize("name", ["test-first", "stable-top-k-fixed"])
def test_no_candidates_are_refused_before_anything_is_drawn(name):
    class Untouched(SeededSource):
        def words(self, n):
            raise AssertionError

    mechanism = registered(name).calibrate(BUDGET, k=2)
    with pytest.raises(DomainError, match="candidates"):
        mechanism.release(ClosedHistogram.from_counts({}), rng=Untouched(0))


def test_k_beyond_the_items():
    few = OpenHistogram.from_counts({"a": 2, "b": 1}, max_k=4)
    law = chances(small(k=3), few)
    assert law[("test", "release"), frozenset("ab")] == 0.05  # the gap is 0 where nothing was seen
    assert law[("test", "nearby 2", "release", "limited-rounds"), frozenset("ab")] == pytest.approx(0.95 * 0.05)
    assert small(k=3).chance(few, 3) > 0.05
    closed = ClosedHistogram.from_counts({"a": 2, "b": 1})
    law = small(k=3).law(closed)
    assert {frozenset(outcome.items) for outcome in law} == {frozenset("ab")}
    assert small(k=3).chance(closed, 3) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "delta", "releases", "k"), [(1.0, 1e-6, 1, 10), (0.1, 1e-6, 10, 15), (3.0, 1e-6, 200, 5)]
)
def test_calibration_spends_the_budget(epsilon, delta, releases, k):
    budget = Budget(epsilon=epsilon, delta=delta, releases=releases)
    mechanism = TestFirst.calibrate(budget, k=k)
    spent = (releases * mechanism.cost).epsilons(delta)["rdp"]
    assert epsilon * (1 - 1e-6) <= spent <= epsilon
    assert mechanism.describe()["k"] == k
    assert mechanism.max_k == max(100, 10 * k)


def test_refusals():
    for fields in ({"k": 50, "max_k": 10}, {"k": 0}, {"k": True}, {"k": 3, "max_k": 2.5}, {"k": 3, "test_share": 1.0}):
        with pytest.raises(ParameterError):
            TestFirst.calibrate(BUDGET, **fields)
    gaussian = GaussianTest.exact(sigma=4.0, delta=0.01)
    for fields in ({"k": 1, "nearby": small().test}, {"k": 3, "nearby": gaussian}):
        with pytest.raises(ParameterError, match="under k"):
            TestFirst(max_k=4, test=small().test, epsilon=0.8, delta=0.2, adjacency=ADD, **fields)
    assert TestFirst.calibrate(BUDGET, k=1).nearby is None
    with pytest.raises(ParameterError, match="max_k"):
        TestFirst.calibrate(BUDGET, k=3).release(OpenHistogram.from_counts(CLIFF, max_k=50))
