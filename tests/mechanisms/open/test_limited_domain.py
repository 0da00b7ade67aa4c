"""Limited Domain: sequential draws are the one-shot Gumbel law, the bottom is where it must be, budgets are spent."""

import math
from itertools import permutations

import numpy as np
import pytest
from scipy.integrate import cumulative_trapezoid

from cutline.errors import BudgetError, DomainError, LawTooLarge, ParameterError
from cutline.histogram import ClosedHistogram, OpenHistogram
from cutline.mechanisms.open.limited_domain import LimitedDomain, all_before
from cutline.privacy import Adjacency, BoundedRange, Budget
from cutline.sampling import SeededSource

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
COUNTS = {"a": 12, "b": 9, "c": 9, "d": 4, "e": 2}
SMALL = OpenHistogram.from_counts(COUNTS, max_k=4)


def small(*, k=2, epsilon=0.8, adjacency=ADD, delta=0.2, max_k=4):
    return LimitedDomain(k=k, max_k=max_k, epsilon=epsilon, delta=delta, adjacency=adjacency)


def one_shot(mechanism, counts, floor):
    """The law of adding Gumbel noise once to all and listing what beats the bottom, by integrating densities on a grid."""
    scale = mechanism.adjacency.count_range / mechanism.epsilon
    bottom = floor + mechanism.adjacency.count_range + scale * math.log(mechanism.max_k / mechanism.delta)
    x = np.linspace(-30 * scale, max(counts.values()) + 40 * scale, 400_001)

    def below(center):
        return np.exp(-np.exp(-(x - center) / scale))

    def density(center):
        return below(center) * np.exp(-(x - center) / scale) / scale

    law = {}
    for n in range(min(mechanism.k, len(counts)) + 1):
        for listed in permutations(counts, n):
            rest = [below(c) for item, c in counts.items() if item not in listed]
            chain = [*(counts[item] for item in listed)]
            if n < mechanism.k:
                chain.append(bottom)
            else:
                rest.append(below(bottom))
            value = np.prod(rest, axis=0) if rest else np.ones_like(x)
            for center in reversed(chain):  # the last of the chain is the smallest
                value = cumulative_trapezoid(density(center) * value, x, initial=0)
            law[listed] = value[-1]
    return law


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_sequential_draws_are_the_one_shot_gumbel_law(adjacency, k):
    mechanism = small(k=k, adjacency=adjacency)
    law = mechanism.law_of_lists(SMALL)
    expected = one_shot(mechanism, dict(list(COUNTS.items())[:4]), floor=2)
    assert law.keys() == expected.keys()
    assert max(abs(law[o] - expected[o]) for o in law) < 2e-8


def test_float_gumbel_noise_gives_the_same_frequencies(p_value):
    mechanism, runs = small(k=3), 100_000
    scale = 1 / mechanism.epsilon
    rng = np.random.default_rng(5)
    centers = np.array([12, 9, 9, 4, 2 + 1 + scale * math.log(4 / mechanism.delta)])
    order = np.argsort(-(centers + rng.gumbel(scale=scale, size=(runs, 5))), axis=1)
    lists = []
    for row in order.tolist():
        beat = row[: row.index(4)]
        lists.append(tuple("abcd"[i] for i in beat[:3]))
    assert p_value(lists, mechanism.law_of_lists(SMALL)) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", Adjacency)
def test_twenty_thousand_runs_match_the_law_and_reject_wrong_parameters(adjacency, p_value):
    right = small(adjacency=adjacency)
    seen = right.sample(SMALL, 20_000, rng=SeededSource(11))
    assert p_value(seen, right.law_of_lists(SMALL)) > 1e-3
    for factor in (0.7, 1.3):
        assert p_value(seen, small(adjacency=adjacency, epsilon=0.8 * factor).law_of_lists(SMALL)) < 1e-6
    assert p_value(seen, small(adjacency=adjacency, delta=0.2 * 0.7).law_of_lists(SMALL)) < 1e-6


def test_chance_is_a_sum_over_the_law():
    for k in (1, 2, 3, 4):
        mechanism = small(k=k)
        law = mechanism.law_of_lists(SMALL)
        for cut in range(6):
            top = set(SMALL.top(cut))
            assert mechanism.chance(SMALL, cut) == pytest.approx(
                sum(p for o, p in law.items() if set(o) == top), rel=1e-12, abs=1e-300
            )


def test_chance_past_the_last_item_is_that_of_all_items():
    few = OpenHistogram.from_counts({"a": 30, "b": 28}, max_k=4)
    mechanism = small(k=3)
    assert mechanism.chance(few, 3) == mechanism.chance(few, 2)
    assert mechanism.chance(few, 3) == pytest.approx(sum(p for o, p in mechanism.law(few).items() if len(o.items) == 2))


def test_clocks_of_equal_rate():
    # k equal clocks of rate w before one of rate 1: the product of j w / (j w + 1).
    for k, w in ((1, 0.3), (5, 20.0), (40, 1e-3), (300, 1e6)):
        expected = math.exp(-sum(math.log1p(1 / (j * w)) for j in range(1, k + 1)))
        assert all_before(np.full(k, math.log(w))) == pytest.approx(expected, rel=1e-11)


def test_huge_counts_keep_their_law():
    far = OpenHistogram.from_counts({"a": 10**9, "b": 10**6, "c": 10**6, "d": 3}, max_k=3)
    law = small(k=3, max_k=3).law_of_lists(far)
    assert law["a", "b", "c"] == pytest.approx(0.5, rel=1e-12)
    assert law["a", "c", "b"] == pytest.approx(0.5, rel=1e-12)


def test_an_empty_log_gives_an_empty_list():
    nothing = OpenHistogram.from_counts({}, max_k=4)
    (outcome, chance), *others = small().law(nothing).items()
    assert (outcome.items, outcome.status, chance, others) == ((), "empty", 1.0, [])
    release = small().release(nothing, rng=SeededSource(0))
    assert release.items == ()
    assert (release.status, release.released) == ("empty", False)


def test_an_item_of_one_user_is_drawn_with_at_most_delta():
    """Weight delta / max_k beside a bottom of weight 1."""
    one = OpenHistogram.from_counts({"secret": 1}, max_k=4)
    for adjacency in Adjacency:
        law = small(adjacency=adjacency).law_of_lists(one)
        assert law[("secret",)] <= 0.2 / 4 / (1 + 0.2 / 4) * (1 + 1e-12)


def test_after_a_prefix_the_rest_is_a_histogram_of_its_own():
    left = SMALL.after(1)
    after = small(k=3).after(1, epsilon=0.5)
    assert (after.k, after.max_k, after.epsilon) == (2, 3, 0.5)
    direct = OpenHistogram.from_counts({i: c for i, c in COUNTS.items() if i != "a"}, max_k=3)
    assert after.law(left) == after.law(direct)


@pytest.mark.parametrize(
    ("epsilon", "delta", "releases", "k", "max_k"),
    [(1.0, 1e-6, 1, 10, 40), (0.1, 1e-6, 10, 15, None), (3.0, 1e-6, 600, 5, 50), (10.0, 1e-9, 1, 1, 10)],
)
def test_calibration_spends_the_budget(epsilon, delta, releases, k, max_k):
    budget = Budget(epsilon=epsilon, delta=delta, releases=releases)
    mechanism = LimitedDomain.calibrate(budget, k=k, max_k=max_k)
    spent = (releases * mechanism.cost).epsilons(delta)["rdp"]
    assert epsilon * (1 - 1e-6) <= spent <= epsilon
    assert mechanism.max_k == (max_k or max(100, 10 * k))


@pytest.mark.slow
def test_calibration_needs_a_smaller_gap_than_other_splits():
    budget = Budget(epsilon=1.0, delta=1e-6)
    best = LimitedDomain.calibrate(budget, k=10)

    def needed(mechanism):
        return math.log(mechanism.max_k / mechanism.delta) / mechanism.epsilon

    for order in (16.0, 25.0, 60.0):
        for share in (0.05, 0.3, 0.8):
            other = LimitedDomain.calibrate(budget, k=10, limits=budget.filter(order=order, delta_share=share))
            assert needed(best) < needed(other) * 1.01


def test_the_cost_is_that_of_the_proof():
    cost = small(k=3, epsilon=0.5, delta=0.01).cost
    assert cost.delta == pytest.approx(0.01 / 1.01, rel=1e-12)
    for order in (1.5, 4.0, 32.0):
        expected = 3 * BoundedRange(epsilon=0.5).rdp(order) + (3 + order / (order - 1)) * math.log1p(0.01)
        assert cost.rdp(order) == pytest.approx(expected, rel=1e-12)


def test_a_long_tailed_log_is_mostly_found():
    """Zipf-like counts of the size of a city's check-ins, delta = 1/n."""
    counts = {i: int(900 / (i + 2) ** 0.8) for i in range(300)}
    histogram = OpenHistogram.from_counts(counts, max_k=40)
    mechanism = LimitedDomain.calibrate(Budget(epsilon=1.0, delta=1e-3), k=10, max_k=40)
    top = set(histogram.top(10))
    found = [len(top & set(items)) / 10 for items in mechanism.sample(histogram, 200, rng=SeededSource(0))]
    assert np.mean(found) > 0.9


def test_refusals():
    budget = Budget(epsilon=1.0, delta=1e-6)
    with pytest.raises(DomainError, match="peeling-em"):
        small().release(ClosedHistogram.from_counts(COUNTS))
    with pytest.raises(ParameterError, match="max_k"):
        small(max_k=9).release(SMALL)
    with pytest.raises(LawTooLarge):
        LimitedDomain(k=5, max_k=40, epsilon=1.0, delta=0.1, adjacency=ADD).law(
            OpenHistogram.from_counts({i: i for i in range(60)}, max_k=40)
        )
    for fields in ({"k": 50, "max_k": 10}, {"k": 0}, {"k": True}, {"k": 2.5}, {"k": 3, "max_k": 0}):
        with pytest.raises(ParameterError):
            LimitedDomain.calibrate(budget, **fields)
    wide = Budget(epsilon=2.0, delta=1e-6).filter(order=8.0, delta_share=0.3)
    with pytest.raises(BudgetError):
        LimitedDomain.calibrate(budget, k=3, limits=wide)
    with pytest.raises(BudgetError):
        LimitedDomain.calibrate(budget, k=3, limits=budget.filter(order=60.0, delta_share=0.0))
