"""Coins on bounded counts: as steep as said, exact for any number of items, and charged for what one user moves."""

import numpy as np
import pytest
from scipy.stats import binomtest

import cutline
from cutline.errors import CutlineError, DomainError, ParameterError
from cutline.histogram import BoundedHistogram, OpenHistogram
from cutline.mechanisms.open.table_threshold import TableStep, TableThreshold
from cutline.privacy import Adjacency, BitTable, Budget
from cutline.sampling import SeededSource

BUDGET = Budget(epsilon=1.0, delta=1e-6)
STEP = TableStep(table=BitTable(values=(0.01, 0.1, 0.4)), max_items_per_user=3)


def bounded(counts, bound=1, **others):
    return BoundedHistogram.from_counts(counts, counts, max_items_per_user=bound, **others)


@pytest.mark.parametrize(
    ("bound", "epsilon", "adjacency", "half"),
    [
        (50, 1.0, Adjacency.ADD_REMOVE, 88),
        (10, 1.0, Adjacency.ADD_REMOVE, 52),
        (50, 0.3, Adjacency.ADD_REMOVE, 263),
        (50, 1.0, Adjacency.REPLACE, 111),
        (10, 1.0, Adjacency.REPLACE, 64),
        (50, 0.3, Adjacency.REPLACE, 336),
    ],
)
def test_an_item_goes_out_half_of_the_time_at_the_published_count(bound, epsilon, adjacency, half):
    budget = Budget(epsilon=epsilon, delta=1e-6)
    mechanism = TableThreshold.calibrate(budget, max_items_per_user=bound, adjacency=adjacency)
    assert half - 2 <= mechanism.count_found(0.5) <= half + 2  # calibrated for nine times in ten
    assert mechanism.count_found(1.0) is None


def test_the_price_is_one_coin_for_each_item_a_user_may_move():
    assert STEP.cost(Adjacency.ADD_REMOVE).delta == pytest.approx(0.03)
    assert STEP.cost(Adjacency.ADD_REMOVE).rdp(2.0) == pytest.approx(3 * STEP.table.rdp(2.0))
    assert STEP.cost(Adjacency.REPLACE).delta == pytest.approx(0.03)
    assert STEP.cost(Adjacency.REPLACE).rdp(2.0) == pytest.approx(6 * STEP.table.rdp(2.0))


def test_below_the_start_nothing_goes_out():
    mechanism = TableThreshold(step=TableStep(table=STEP.table, max_items_per_user=1, start=3), adjacency="add-remove")
    counts = bounded({"a": 2, "b": 3, "c": 4, "d": 9})
    assert mechanism.step.chances(np.array([0, 2, 3, 4, 5, 9])).tolist() == [0, 0, 0.01, 0.1, 0.4, 0.4]
    assert not any("a" in outcome.items for outcome in mechanism.law(counts))
    drawn = [mechanism.release(counts, rng=SeededSource(seed)).items for seed in range(200)]
    assert frozenset().union(*drawn) == {"b", "c", "d"} - ({"b"} if all("b" not in items for items in drawn) else set())
    with pytest.raises(DomainError, match="start"):
        mechanism.release(bounded({"a": 9}, start=4))


@pytest.mark.parametrize("factor", [0.7, 1.0, 1.3])
def test_the_coins_of_many_items_have_their_bias(factor):
    items, p = 1_500_000, 0.01
    histogram = bounded(np.ones(items, dtype=np.int64))
    ranks = STEP.draw(histogram, SeededSource(5))
    assert np.all(np.diff(ranks) > 0)
    assert (binomtest(len(ranks), items, factor * p).pvalue > 1e-4) == (factor == 1.0)
    halves = np.searchsorted(ranks, items // 2)
    assert binomtest(int(halves), len(ranks), 0.5).pvalue > 1e-4


@pytest.mark.parametrize("bound", [1, 200])
def test_no_log_is_refused(bound):
    asked = cutline.quote(max_items_per_user=bound, rng=SeededSource(0))
    assert asked.mechanism["name"] == "table-threshold"
    assert f"max_items_per_user = {bound}" in asked.guarantee
    for counts in ({}, {"a": 1}, dict.fromkeys("abc", 4), {"a": 10**9}):
        release = asked.run((counts, counts))
        assert release.status in ("empty", "released")
        assert release.k == 0
        assert release.items == ({"a"} if counts == {"a": 10**9} else set())


def test_chance_is_that_of_the_law():
    mechanism = TableThreshold(step=STEP, adjacency=Adjacency.ADD_REMOVE)
    counts = bounded({"a": 3, "b": 2, "c": 1})
    law = mechanism.law(counts)
    for k in range(4):
        wanted = frozenset("abc"[:k])
        assert mechanism.chance(counts, k) == pytest.approx(sum(p for o, p in law.items() if o.items == wanted))


def test_counts_of_another_kind_are_refused_before_anything_is_drawn():
    mechanism = TableThreshold(step=STEP, adjacency=Adjacency.ADD_REMOVE)
    with pytest.raises(DomainError, match="bound"):
        mechanism.release(OpenHistogram.from_counts({"a": 9}, max_k=3))
    with pytest.raises(DomainError, match="Count again"):
        mechanism.release(bounded({"a": 9}, bound=4))
    with pytest.raises(DomainError, match="parts"):
        mechanism.release(bounded({"a": 9}, parts=8))
    assert mechanism.release(bounded({"a": 9}, bound=2)).items is not None  # users who give less than they may


@pytest.mark.parametrize(
    "wrong",
    [
        {"mechanism": "table-threshold"},
        {"mechanism": "table-threshold", "max_items_per_user": 5, "k": 3},
        {"mechanism": "test-first", "max_items_per_user": 5, "k": 3},
        {"max_items_per_user": 5, "candidates": ["a"]},
        {"max_items_per_user": 0},
        {"max_items_per_user": 5, "counts": "all"},
        {"max_items_per_user": 5, "vote_parts": 3},
    ],
)
def test_public_mistakes_are_refused(wrong):
    with pytest.raises(CutlineError):
        cutline.quote(**wrong)


def test_counts_of_what_goes_out_are_of_all_users_unless_others_are_asked_for():
    full, kept = {"a": 9000, "b": 8000, "c": 2}, {"a": 900, "b": 800, "c": 1}
    for counts, true in ((True, full), ("bounded", kept)):
        release = cutline.quote(max_items_per_user=5, counts=counts, rng=SeededSource(2)).run((full, kept))
        assert release.items == {"a", "b"}
        assert all(abs(release.counts[item] - true[item]) < 6 * release.count_error.deviation < 200 for item in "ab")


def test_a_step_is_made_of_whole_numbers_and_a_stability_table():
    for wrong in ({"start": 0}, {"max_items_per_user": 0}, {"table": BitTable(values=(0.1, 0.2), start=1)}):
        with pytest.raises(ParameterError):
            TableStep(**({"table": STEP.table, "max_items_per_user": 3} | wrong))


def test_a_budget_for_many_releases_is_kept():
    mechanism = TableThreshold.calibrate(Budget(epsilon=1.0, delta=1e-6, releases=9), max_items_per_user=20)
    assert (9 * mechanism.cost).epsilon(1e-6) <= 1.0
    assert mechanism.count_found(0.5) > TableThreshold.calibrate(BUDGET, max_items_per_user=20).count_found(0.5)
