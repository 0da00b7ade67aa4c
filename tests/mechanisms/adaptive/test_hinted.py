"""A hint is tested first: what goes out by it costs one step, and every other path both."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from cutline.errors import BudgetError, ParameterError
from cutline.histogram import ClosedHistogram, OpenHistogram
from cutline.ledger.account import Sums, charge
from cutline.ledger.charging import usual_filter
from cutline.mechanisms import StableTopK
from cutline.mechanisms.adaptive.hinted import HintedTopK
from cutline.privacy import Adjacency, Budget
from cutline.sampling import SeededSource

BUDGET = Budget(epsilon=1.0, delta=1e-6, releases=100)
LIMITS = BUDGET.filter(order=18.0, delta_share=0.3)
COUNTS = {"a": 700, "b": 690, "c": 540, "d": 20}
OPEN, CLOSED = OpenHistogram.from_counts(COUNTS, max_k=5), ClosedHistogram.from_counts(COUNTS)


def build(hint, **parameters):
    return HintedTopK.calibrate(BUDGET, limits=LIMITS, hint=hint, max_k=5, **parameters)


@pytest.mark.parametrize("histogram", [OPEN, CLOSED], ids=["open", "closed"])
@pytest.mark.parametrize("choose", ["em", "argmax"])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_law_sums_to_one_and_its_entries_are_the_chances(histogram, choose, adjacency):
    for hint in (1, 2, 3, 5):
        mechanism = build(hint, choose=choose, adjacency=adjacency)
        law = mechanism.law(histogram)
        assert sum(law.values()) == pytest.approx(1, abs=1e-12)
        for k in (1, 2, 3):
            top = frozenset(histogram.top(k))
            listed = sum(chance for outcome, chance in law.items() if outcome.items == top)
            assert mechanism.chance(histogram, k) == pytest.approx(listed, rel=1e-9, abs=1e-15)


def test_releases_follow_the_law_and_cost_what_ran():
    mechanism = build(2)
    drawn = Counter()
    for seed in range(400):
        release = mechanism.release(OPEN, rng=SeededSource(seed))
        drawn[release.outcome] += 1
        hinted = release.steps == ("hint",)
        assert release.cost == (mechanism.test.cost(mechanism.adjacency) if hinted else mechanism.cost)
        assert release.reserved == (mechanism.cost if hinted else None)
    law = mechanism.law(OPEN)
    assert set(drawn) <= set(law)
    for outcome, chance in law.items():
        assert abs(drawn[outcome] - 400 * chance) <= 5 * (400 * chance * (1 - chance)) ** 0.5 + 1
    assert 40 < sum(n for outcome, n in drawn.items() if outcome.steps == ("hint",)) < 400  # both paths were seen


def test_each_step_gets_what_a_release_of_its_own_would():
    mechanism, alone = build(2), StableTopK.calibrate(BUDGET, limits=LIMITS, max_k=5)
    assert mechanism.then == alone
    rdp = mechanism.test.cost(mechanism.adjacency).rdp(LIMITS.order)
    assert rdp == pytest.approx(LIMITS.rdp / 100, rel=1e-6)
    assert mechanism.budget.releases == 50
    assert mechanism.budget.fits(mechanism.cost)


@pytest.mark.parametrize(
    ("budget", "limits"), [(BUDGET, None), (replace(BUDGET, releases=1), LIMITS)], ids=["no ledger", "one release"]
)
def test_a_hint_needs_a_refund(budget, limits):
    with pytest.raises(BudgetError, match="Leave the hint out"):
        HintedTopK.calibrate(budget, limits=limits, hint=2, max_k=5)


@pytest.mark.parametrize("hint", [0, 6])
def test_a_hint_outside_the_window_is_refused(hint):
    with pytest.raises(ParameterError, match="window"):
        build(hint)


def publish_daily(gap, *, days, seeds, cut=7):
    """Return, for every seed, how many days' lists went out: a tenth of the account first, then a hundredth a step."""
    budget = Budget(epsilon=1.0, delta=1e-6, releases=100)
    limits = usual_filter(budget)
    counts = dict.fromkeys(range(cut), 500 + gap) | dict.fromkeys(range(cut, 300), 500)
    histogram = OpenHistogram.from_counts(counts, max_k=100)
    first = StableTopK.calibrate(replace(budget, releases=10), limits=limits)
    hinted = HintedTopK.calibrate(budget, limits=limits, hint=cut)
    whole = Sums(rdp=Fraction(limits.rdp), delta=Fraction(limits.delta))
    prices = [charge(cost, limits.order) for cost in (hinted.test.cost(hinted.adjacency), hinted.cost)]
    source = SeededSource(7)
    chosen, passed = first.sample(histogram, seeds, rng=source)
    spent = [charge(first.cost, limits.order)] * seeds
    found, released = passed & (chosen == cut), np.zeros(seeds, dtype=int)
    for _ in range(days):
        gaps = np.full(seeds, gap)
        by_hint = hinted.test.passes(gaps, np.full(seeds, np.iinfo(np.int64).max), hinted.adjacency, source)
        again, certified = hinted.then.sample(histogram, seeds, rng=source)
        for seed in np.flatnonzero(found):
            if not (spent[seed] + prices[1]).within(whole):
                continue  # both steps are reserved
            spent[seed] += prices[0] if by_hint[seed] else prices[1]
            released[seed] += by_hint[seed] or (certified[seed] and again[seed] == cut)
        assert all(one.within(whole) for one in spent)
    return released


@pytest.mark.slow
def test_a_list_whose_cut_stays_goes_out_almost_every_day():
    released = publish_daily(200, days=89, seeds=200)
    assert released.mean() >= 80
    assert publish_daily(100, days=89, seeds=50).mean() < 40  # and a gap of half the size does not
