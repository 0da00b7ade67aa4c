"""Fixed k by way of a stable set near it: fill up, drop, pick, or start from scratch; each charged for what it ran."""

import dataclasses
import math

import numpy as np
import pytest

from cutline.errors import LawTooLarge, ParameterError
from cutline.histogram import ClosedHistogram, OpenHistogram
from cutline.mechanisms.adaptive.choosers import GapExponential, Preference
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.fixed.stable_fixed import StableTopKFixed
from cutline.outcome import Outcome
from cutline.privacy import Adjacency, BitTable, Budget
from cutline.sampling import SeededSource

ADD = Adjacency.ADD_REMOVE
BUDGET = Budget(epsilon=1.0, delta=1e-6)
COUNTS = {"a": 9, "b": 7, "c": 7, "d": 3, "e": 2}
DOMAINS = {"open": OpenHistogram.from_counts(COUNTS, max_k=4), "closed": ClosedHistogram.from_counts(COUNTS)}


def small(*, k=2, stretch=1.0, adjacency=ADD, weight=0.5):
    return StableTopKFixed(
        preference=Preference(max_k=4, target=k, weight=weight),
        chooser=GapExponential(epsilon=1.0 * stretch),
        test=TableTest(table=BitTable.stability(order=4.0, rdp=0.3 * stretch, delta=0.05)),
        epsilon=0.8 * stretch,
        delta=0.2,
        adjacency=adjacency,
    )


def stairs(top, *, domain, max_k=100):
    """A cliff below ``top`` items, and a gentle slope above and below it."""
    counts = {f"i{i:03d}": (9000 if i < top else 3000) - 40 * i for i in range(70)}
    return OpenHistogram.from_counts(counts, max_k=max_k) if domain == "open" else ClosedHistogram.from_counts(counts)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize(
    ("top", "how"), [(10, "release"), (8, "select"), (12, "drop"), (30, "pick")], ids=["at", "below", "above", "far"]
)
def test_every_way_finds_the_top_and_is_charged_for_what_it_ran(top, how, domain, adjacency):
    mechanism = StableTopKFixed.calibrate(BUDGET, k=10, weight=20.0, adjacency=adjacency)
    histogram = stairs(top, domain=domain)
    recall = []
    for seed in range(10):
        release = mechanism.release(histogram, rng=SeededSource(seed))
        assert release.steps[:3] == (f"choose {top}", "test", "release")
        assert release.steps[3:] == {
            "release": (),
            "select": ("limited-domain" if domain == "open" else "peeling-em",),
        }.get(how, (how,))
        assert isinstance(release.items, tuple if how == "pick" else frozenset)
        assert release.outcome == Outcome(items=release.items, k=release.k, steps=release.steps)
        assert len(release.items) == 10
        recall.append(len(set(release.items) & set(histogram.top(10))) / 10)
        for order in (1.5, 8.0, 60.0, math.inf):
            assert release.cost.rdp(order) <= mechanism.cost.rdp(order)
        assert release.cost.delta <= mechanism.cost.delta
    assert np.mean(recall) > 0.75
    if how == "release":
        assert release.cost == mechanism.chooser.cost(adjacency) + mechanism.test.cost(adjacency)
    if how == "drop":  # two draws of sqrt(10/2) times the epsilon
        peels = [use for use in release.cost.uses if use.times == 2]
        assert peels[0].curve.epsilon == pytest.approx(mechanism.fallback.epsilon * math.sqrt(5))


def test_nothing_stable_is_selected_from_scratch():
    flat = OpenHistogram.from_counts({i: 1000 - i for i in range(200)}, max_k=100)
    mechanism = StableTopKFixed.calibrate(BUDGET, k=5)
    release = mechanism.release(flat, rng=SeededSource(1))
    assert release.steps[1:] == ("test", "limited-domain")
    assert release.cost == mechanism.cost
    assert isinstance(release.items, tuple)


def test_a_released_set_of_few_seen_items_is_the_answer():
    few = OpenHistogram.from_counts({"a": 2, "b": 1}, max_k=4)
    law = small(k=2, weight=0.0).law(few)
    ways = {outcome.steps for outcome in law}
    assert ("choose 4", "test", "release") in ways
    assert ("choose 4", "test", "release", "drop") not in ways


def test_fewer_seen_items_than_the_cut_are_dropped_at_the_price_of_the_cut():
    three = OpenHistogram.from_counts({"a": 9, "b": 8, "c": 7}, max_k=6)
    mechanism = StableTopKFixed(
        preference=Preference(max_k=6, target=2, weight=0.0),
        chooser=GapExponential(epsilon=1.0),
        test=TableTest(table=BitTable(values=(0.5,))),
        epsilon=0.8,
        delta=0.2,
        adjacency=ADD,
    )
    rng = SeededSource(0)
    drops = {r.steps: r for r in (mechanism.release(three, rng=rng) for _ in range(200)) if r.steps[-1] == "drop"}
    assert set(drops) == {("choose 3", "test", "release", "drop")}
    assert math.fsum(mechanism.law(three).values()) == pytest.approx(1.0)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("domain", DOMAINS)
def test_chance_is_a_sum_over_the_law(domain, adjacency):
    for k in (1, 2, 3):
        mechanism = small(k=k, adjacency=adjacency)
        law = mechanism.law(DOMAINS[domain])
        assert math.fsum(law.values()) == pytest.approx(1.0, abs=1e-12)
        for cut in range(1, 6):
            top = set(DOMAINS[domain].top(cut))
            expected = sum(p for outcome, p in law.items() if set(outcome.items) == top)
            assert mechanism.chance(DOMAINS[domain], cut) == pytest.approx(expected, rel=1e-11, abs=1e-300)


@pytest.mark.slow
@pytest.mark.parametrize("domain", DOMAINS)
def test_releases_match_the_law_and_reject_wrong_parameters(domain, p_value):
    histogram = DOMAINS[domain]
    right = small()
    rng = SeededSource(3)
    seen = [right.release(histogram, rng=rng).outcome for _ in range(3000)]
    assert p_value(seen, right.law(histogram)) > 1e-3
    for factor in (0.7, 1.3):
        assert p_value(seen, small(stretch=factor).law(histogram)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "delta", "releases", "k", "test"),
    [(1.0, 1e-6, 1, 10, "table"), (0.1, 1e-6, 10, 15, "table"), (1.0, 1e-6, 1, 3, "gaussian")],
)
def test_calibration_spends_the_budget(epsilon, delta, releases, k, test):
    budget = Budget(epsilon=epsilon, delta=delta, releases=releases)
    mechanism = StableTopKFixed.calibrate(budget, k=k, test=test)
    spent = (releases * mechanism.cost).epsilons(delta)["rdp"]
    assert epsilon * (1 - 1e-6) <= spent <= epsilon
    assert mechanism.describe()["test"] == test
    # One rank of distance makes a cut e times less likely.
    assert mechanism.preference.weight * mechanism.chooser.epsilon == pytest.approx(2.0, rel=1e-3)


def test_half_goes_to_choosing_and_testing():
    limits = BUDGET.filter(order=20.0, delta_share=0.3)
    mechanism = StableTopKFixed.calibrate(BUDGET, k=5, limits=limits)
    before = mechanism.chooser.cost(ADD) + mechanism.test.cost(ADD)
    assert before.rdp(20.0) == pytest.approx(limits.rdp / 2, rel=1e-6)
    assert before.delta == pytest.approx(limits.delta / 2, rel=1e-6)
    assert limits.admits(0.0, 0.0, mechanism.cost)


def test_cut_histograms():
    closed = ClosedHistogram.from_counts(COUNTS)
    left = closed.after(2)
    assert (left.size, left.top(2), left.named([0, 2]), left.items[-1]) == (3, ("c", "d"), ("c", "e"), "e")
    assert left.items[::2] == ("c", "e")
    assert (left.values.tolist(), left.multiplicities.tolist()) == ([7, 3, 2], [1, 1, 1])
    above = closed.up_to(3)
    assert (above.values.tolist(), above.multiplicities.tolist()) == ([9, 7], [1, 2])
    assert above.upside_down().gaps(3).tolist() == [0, 2, 0]
    assert OpenHistogram.from_counts(COUNTS, max_k=4).after(3).gaps(1).tolist() == [1]


def test_refusals():
    for fields in (
        {"k": 50, "max_k": 10},
        {"k": 0},
        {"k": 3, "test_share": 0.0},
        {"k": 3, "test": "coin"},
        {"k": 3, "weight": -1.0},
    ):
        with pytest.raises(ParameterError):
            StableTopKFixed.calibrate(BUDGET, **fields)
    mechanism = small()
    with pytest.raises(ParameterError, match="target"):
        dataclasses.replace(mechanism, preference=Preference(max_k=4))
    with pytest.raises(ParameterError, match="max_k"):
        mechanism.release(OpenHistogram.from_counts(COUNTS, max_k=3))
    with pytest.raises(LawTooLarge):
        StableTopKFixed.calibrate(BUDGET, k=3, max_k=60).law(
            OpenHistogram.from_counts({i: i for i in range(60)}, max_k=60)
        )
