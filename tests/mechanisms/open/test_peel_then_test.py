"""Peeling, then testing: all that was drawn goes out, or nothing; empty slots are candidates too."""

import math

import pytest

import cutline
from cutline.errors import DomainError, ParameterError
from cutline.histogram import BoundedHistogram, ClosedHistogram, OpenHistogram
from cutline.mechanisms.open.peel_then_test import PeelThenTest
from cutline.privacy import Adjacency, BitTable, Budget
from cutline.privacy.rules.rdp import best_order
from cutline.sampling import SeededSource

TABLE = BitTable(values=(0.05, 0.3, 0.8, 0.99))


def build(**others):
    right = {"k": 2, "max_k": 4, "epsilon": 1.0, "table": TABLE, "bottom": 1, "adjacency": Adjacency.ADD_REMOVE}
    return PeelThenTest(**(right | others))


def counted(counts, max_k=4):
    return OpenHistogram.from_counts(counts, max_k=max_k)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("bottom", [None, 0, 2])
@pytest.mark.parametrize("counts", [{"a": 9, "b": 7, "c": 7, "d": 3, "e": 2}, {"a": 5, "b": 4}, {"a": 3}, {}])
def test_law_and_chance_are_those_of_drawing_by_hand(adjacency, bottom, counts):
    mechanism = build(adjacency=adjacency, bottom=bottom)
    histogram = counted(counts)
    c = adjacency.count_range
    slots = (sorted(counts.values(), reverse=True) + [0] * 4)[:4]
    out = (sorted(counts.values(), reverse=True) + [0] * 5)[4]
    weights = [math.exp(n / c) for n in slots]
    stop = (
        0.0 if bottom is None else math.exp((out + c + c * bottom) / c)
    )  # it weighs as much as 2^2 / 10 slots, or one
    law = {}

    def add(ranks, p):
        items = tuple(sorted(counts, key=lambda i: (-counts[i], i))[r] for r in ranks if r < len(counts))
        lowest = min((slots[r] for r in ranks), default=0) - out
        passing = TABLE.values[min(max(0, math.ceil((lowest - c) / c)), 3)] if ranks else 1.0
        law[items] = law.get(items, 0.0) + p * passing
        law[None] = law.get(None, 0.0) + p * (1 - passing)

    total = sum(weights) + stop
    add((), stop / total)
    for i in range(4):
        left = total - weights[i]
        add((i,), weights[i] / total * stop / left)
        for j in set(range(4)) - {i}:
            add((i, j), weights[i] / total * weights[j] / left)
    found = {outcome.items: p for outcome, p in mechanism.law(histogram).items()}
    assert {items: p for items, p in found.items() if p > 0} == pytest.approx({i: p for i, p in law.items() if p > 0})
    for k in (1, 2):
        top = set(histogram.top(k))
        expected = math.fsum(p for items, p in law.items() if items is not None and set(items) == top)
        if histogram.items:
            assert mechanism.chance(histogram, k) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("k", "max_k", "weight"), [(1, 9, 1), (10, 100, 10), (50, 500, 250), (200, 2000, 2000)])
def test_the_bottom_weighs_more_the_more_is_drawn(k, max_k, weight):
    assert build(k=k, max_k=max_k).draws.weight == weight
    assert build(k=k, max_k=max_k, bottom=None).draws.weight == 0


def test_all_is_charged_whatever_happens():
    mechanism = build()
    assert mechanism.cost.delta == 0.05
    logs = [counted({"a": 9, "b": 4, "c": 1}), counted({"a": 3, "b": 2})]
    releases = [mechanism.release(log, rng=SeededSource(seed)) for seed in range(60) for log in logs]
    assert {str(release.status) for release in releases} == {"released", "partial", "withheld", "empty"}
    assert all(release.cost == mechanism.cost for release in releases)


def test_a_cliff_goes_out_as_it_is_and_only_the_first_test_is_charged():
    mechanism = PeelThenTest.calibrate(Budget(epsilon=1.0, delta=1e-6), k=3)
    at_cliff = mechanism.release(counted({"a": 900, "b": 899, "c": 898, "d": 2}, max_k=100), rng=SeededSource(0))
    assert (at_cliff.items, at_cliff.steps) == ({"a", "b", "c"}, ("test", "release"))
    assert at_cliff.cost == mechanism.first.cost(Adjacency.ADD_REMOVE)
    order = best_order(mechanism.cost, 1e-6)
    assert at_cliff.cost.rdp(order) < 0.051 * mechanism.cost.rdp(order)
    without = mechanism.release(counted({"a": 900, "b": 899, "c": 898, "d": 897}, max_k=100), rng=SeededSource(0))
    assert (type(without.items), without.steps) == (tuple, ("test", "peel", "test"))
    assert without.cost == mechanism.cost


@pytest.mark.parametrize("k", [1, 4, 1000])
def test_no_log_is_refused(k):
    asked = cutline.quote(k=k, mechanism="peel-then-test", rng=SeededSource(0))
    for counts in ({}, {"a": 1}, dict.fromkeys("abcdef", 300), {n: 900 - n for n in range(700)}):
        release = asked.run(counts)
        assert release.k == k
        assert release.items is None or set(release.items) <= set(counts)


def test_it_finds_more_of_a_long_tail_than_limited_domain_does():
    counts = {n: 600 // (n + 3) for n in range(500)}
    budget = Budget(epsilon=1.0, delta=1e-6)
    found = {}
    for name in ("peel-then-test", "limited-domain"):
        mechanism = cutline.mechanisms.mechanism(name).calibrate(budget, k=10)
        histogram = counted(counts, max_k=100)
        drawn = [mechanism.release(histogram, rng=SeededSource(seed)).items or () for seed in range(40)]
        found[name] = sum(len(set(range(10)) & set(items)) for items in drawn) / 400
    assert found["peel-then-test"] > found["limited-domain"] + 0.05


def test_other_domains_are_refused():
    mechanism = build()
    with pytest.raises(DomainError, match="open"):
        mechanism.release(ClosedHistogram.from_counts({"a": 9, "b": 4}))
    with pytest.raises(DomainError, match="max_items_per_user"):
        mechanism.release(BoundedHistogram.from_counts({"a": 9}, {"a": 9}, max_items_per_user=1))
    with pytest.raises(ParameterError, match="max_k"):
        mechanism.release(counted({"a": 9}, max_k=3))


@pytest.mark.parametrize(
    "wrong", [{"bottom": -1}, {"epsilon": 0.0}, {"max_k": 1}, {"table": BitTable(values=(0.1,), start=1)}]
)
def test_parts_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ParameterError):
        build(**wrong)
    with pytest.raises(ParameterError, match="test_share"):
        PeelThenTest.calibrate(Budget(epsilon=1.0, delta=1e-6), k=2, test_share=0.9)
