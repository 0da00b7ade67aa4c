"""A release shows what it may and states what it costs, no more and no less."""

import dataclasses
import datetime as dt
import decimal
import json
import math
import pickle
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutline
from cutline.errors import BudgetError, ParameterError
from cutline.grouped import GroupedRelease
from cutline.histogram import OpenHistogram
from cutline.mechanisms import StableTopK
from cutline.mechanisms.adaptive.choosers import GapArgmax, GapExponential, Preference
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.fixed.test_first import TestFirst
from cutline.mechanisms.noisy_counts import NoisyCounts, with_counts
from cutline.mechanisms.open.top_stable import TopStable
from cutline.outcome import Outcome, Status
from cutline.pate.labels import Labels
from cutline.privacy import Adjacency, BitTable, Budget, Cost, Filter
from cutline.release import Release, decode_item, encode_item
from cutline.sampling import SeededSource


def released(counts, **fields):
    mechanism = StableTopK.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=2)
    return mechanism.release(OpenHistogram.from_counts(counts, max_k=2), rng=SeededSource(3))


def test_the_order_of_ranks_does_not_show_in_the_set():
    """0 and 8 share a slot in a small hash table: filled by rank, the set would iterate by rank."""
    first, second = released({0: 1000, 8: 1001, 3: 1}), released({0: 1001, 8: 1000, 3: 1})
    assert first == second
    assert first.items == frozenset({0, 8})
    assert list(first.items) == list(second.items)
    assert repr(first) == repr(second)
    assert pickle.dumps(first) == pickle.dumps(second)


def test_a_budget_that_the_cost_does_not_fit_is_not_stated():
    mechanism = StableTopK.calibrate(Budget(epsilon=0.1, delta=1e-6), max_k=5, choose="em")
    loud = dataclasses.replace(mechanism, chooser=GapExponential(epsilon=50.0))
    histogram = OpenHistogram.from_counts({"a": 3}, max_k=5)
    assert "(0.1, 1e-06)" in mechanism.release(histogram).guarantee
    assert "(0.1, " not in loud.release(histogram).guarantee
    assert "this one release" in loud.release(histogram).guarantee


def test_a_filter_beyond_the_budget_is_refused():
    budget = Budget(epsilon=0.1, delta=1e-6)
    for wide in (
        Filter(order=2.0, rdp=50.0, delta=0.3),
        Filter(order=200.0, rdp=1.0, delta=1e-7),
        Filter(order=200.0, rdp=0.0, delta=1e-7),
        Filter(order=200.0, rdp=0.001, delta=0.0),
    ):
        with pytest.raises(BudgetError, match="filter"):
            StableTopK.calibrate(budget, limits=wide, max_k=5)


def test_numbers_of_the_guarantee_are_rounded_up():
    mechanism = StableTopK.calibrate(Budget(epsilon=1.00004, delta=1.0004e-6), max_k=5)
    sentence = mechanism.release(OpenHistogram.from_counts({}, max_k=5)).guarantee
    assert sentence.startswith("(1.001, 1.01e-06)-DP")


@pytest.mark.parametrize("delta", [0.3, 0.6, 0.9])
def test_large_deltas_have_a_sentence_too(delta):
    mechanism = StableTopK(
        preference=Preference(max_k=3),
        chooser=GapArgmax(),
        test=TableTest(table=BitTable.stability(order=2.0, rdp=1.0, delta=delta)),
        adjacency=Adjacency.ADD_REMOVE,
    )
    assert "-DP for one user" in mechanism.release(OpenHistogram.from_counts({}, max_k=3)).guarantee


@pytest.mark.parametrize("adjacency", Adjacency)
def test_all_planned_releases_pass_the_filter_one_by_one(adjacency):
    budget = Budget(epsilon=1.9881051784635133, delta=1.2333769525117122e-06, releases=7)
    limits = budget.filter(order=14.738192540288946, delta_share=0.8420179916528612)
    cost = StableTopK.calibrate(budget, limits=limits, max_k=24, adjacency=adjacency, choose="argmax").cost
    rdp = delta = 0.0
    for _ in range(7):
        assert limits.admits(rdp, delta, cost)
        rdp, delta = (rdp + cost.rdp(limits.order)), (delta + cost.delta)
    assert not limits.admits(rdp, delta, cost)


def test_an_ordinary_budget_is_not_refused():
    budget = Budget(epsilon=1.2290377269249366, delta=1.1706140339161942e-05)
    assert budget.fits(StableTopK.calibrate(budget, adjacency=Adjacency.REPLACE, max_k=12, choose="argmax").cost)


def test_listed_is_the_items_own_order():
    release = Release(
        outcome=Outcome(items=frozenset({"b", "a", 3, 10}), k=4),
        cost=Cost(adjacency=Adjacency.ADD_REMOVE),
        mechanism={"name": "x"},
        budget=None,
    )
    assert release.listed() == [3, 10, "a", "b"]
    assert json.dumps(release.listed())


@pytest.mark.parametrize(
    ("items", "k", "status"),
    [
        (None, 0, "withheld"),
        (None, 5, "withheld"),
        (frozenset(), 5, "empty"),
        ((), 2, "empty"),
        (frozenset("a"), 2, "partial"),
        (("a", "b"), 2, "released"),
        (frozenset("abc"), 3, "released"),
    ],
)
def test_status_of_an_outcome(items, k, status):
    outcome = Outcome(items=items, k=k)
    assert outcome.status == Status(status)
    assert outcome == Outcome(items=items, k=k)
    assert hash(outcome) == hash(Outcome(items=items, k=k))
    assert outcome != Outcome(items=items, k=k, steps=("test",))
    release = Release(outcome=outcome, cost=Cost(adjacency=Adjacency.REPLACE), mechanism={"name": "x"}, budget=None)
    assert (release.items, release.k, release.status, release.released) == (items, k, status, bool(items))
    assert release.cut == (None if items is None else k or None)  # an empty set shows its cut, too


def test_a_set_and_a_list_of_the_same_items_are_different_outcomes():
    assert Outcome(items=("a",), k=1) != Outcome(items=frozenset("a"), k=1)


def test_plain_form_states_the_cost_in_a_few_values():
    release = released({"b": 1000, "a": 1001, "c": 1})
    plain, full = release.to_dict(), release.to_dict(full=True)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert (plain["status"], plain["released"], plain["items"], plain["k"]) == ("released", True, ["a", "b"], 2)
    assert (plain["epsilon"], plain["delta"], plain["releases"]) == (1.0, 1e-6, 1)
    assert plain["cost"] == release.cost.summary(1e-6)
    assert plain["cost"]["epsilon"] <= 1.0
    assert Cost.from_dict(full["cost"]) == release.cost
    assert {key: value for key, value in plain.items() if key != "cost"} == {
        key: value for key, value in full.items() if key != "cost"
    }
    assert len(json.dumps(plain, indent=1).splitlines()) <= 43


def test_plain_form_of_what_is_no_text_and_of_nothing():
    cost = Cost(adjacency=Adjacency.REPLACE)
    outcome = Outcome(items=(3, 2.5, float("inf"), ("x", 1), None), k=5)
    listed = Release(outcome=outcome, cost=cost, mechanism={"name": "x"}, budget=None).to_dict()
    assert listed["items"] == [3, 2.5, "inf", "('x', 1)", None]
    assert (listed["ordered"], listed["epsilon"]) == (True, None)
    withheld = Release(outcome=Outcome(items=None), cost=cost, mechanism={"name": "x"}, budget=None).to_dict()
    assert (withheld["status"], withheld["items"], withheld["counts"]) == ("withheld", None, None)


def test_a_refund_is_never_stated():
    """Built by hand, without a budget: the sentence prices the dearest path, whatever ran."""
    calibrated = TestFirst.calibrate(Budget(epsilon=1.0, delta=1e-6), k=2, max_k=10)
    by_hand = dataclasses.replace(calibrated, budget=None)
    cliff = by_hand.release(OpenHistogram.from_counts({"a": 900, "b": 900, "c": 1}, max_k=10), rng=SeededSource(0))
    flat = by_hand.release(OpenHistogram.from_counts({"a": 9, "b": 9, "c": 9}, max_k=10), rng=SeededSource(0))
    assert cliff.steps != flat.steps
    assert cliff.cost.rdp(8.0) < flat.cost.rdp(8.0)
    assert cliff.guarantee == flat.guarantee


@pytest.mark.parametrize("name", ["test-first", "stable-top-k-fixed"])
def test_a_fallback_too_large_to_count_never_refuses(name):
    """480 of 500: subset EM would need too much memory, which may not show whether the private test had failed."""
    listed = list(range(500))
    for counts in ({i: 10**6 if i < 480 else 0 for i in listed}, dict.fromkeys(listed, 5)):
        release = cutline.top(counts, k=480, max_k=480, candidates=listed, mechanism=name, rng=SeededSource(0))
        assert len(release.items) == 480


def test_counts_may_be_asked_for_whatever_comes_out():
    for most in (10, 3):
        release = cutline.top(
            dict.fromkeys(range(most), 10**5),
            k=3,
            mechanism="top-stable",
            ranks=(10, 3),
            counts=True,
            epsilon=4.0,
            rng=SeededSource(0),
        )
        assert len(release.counts) == most


def test_a_withheld_release_states_the_price_of_the_counts_it_might_have_had():
    mechanism = TopStable.calibrate(Budget(epsilon=1.0, delta=1e-6), k=1)
    noisy = NoisyCounts(sigma=0.5, adjacency=Adjacency.ADD_REMOVE)
    sentences = set()
    for counts in ({"a": 10**4}, {"a": 1}):
        histogram = OpenHistogram.from_counts(counts, max_k=1)
        sentences.add(with_counts(mechanism.release(histogram), histogram, noisy).guarantee)
    assert len(sentences) == 1


def test_a_sigma_no_sampler_can_draw_is_refused_before_data():
    for sigma in (1e-9, 1e15):
        with pytest.raises(ParameterError, match="sigma"):
            NoisyCounts(sigma=sigma, adjacency=Adjacency.ADD_REMOVE)


ITEMS = st.one_of(
    st.text(),
    st.integers(),
    st.booleans(),
    st.floats(),
    st.binary(),
    st.dates(),
    st.times().map(lambda time: time.replace(fold=0)),  # equal all the same, and so not kept
    st.datetimes(timezones=st.none() | st.just(dt.UTC)).map(lambda time: time.replace(fold=0)),
    st.uuids(),
    st.decimals(allow_nan=False),
    st.none(),
)


@given(item=ITEMS | st.tuples(ITEMS, ITEMS))
def test_an_item_is_written_down_without_loss(item):
    back = decode_item(json.loads(json.dumps(encode_item(item), allow_nan=False)))
    same = type(back) is type(item) and str(back) == str(item) and (back == item or "nan" in str(item).lower())
    assert same, (item, back)


def test_odd_items_are_written_down_as_well_as_can_be():
    for item in (10**5000, -(10**5000), "\ud800", np.int64(7), np.str_("x"), np.float64(0.1), math.inf):
        assert decode_item(json.loads(json.dumps(encode_item(item), allow_nan=False))) == item
    assert decode_item(encode_item(Status.EMPTY)) == "empty"  # a text of its own kind
    assert decode_item(encode_item(frozenset({1}))) == "frozenset({1})"  # an unknown kind


def through_json(answer):
    return type(answer).from_record(json.loads(json.dumps(answer.to_record(), allow_nan=False)))


COUNTED = {dt.date(2026, 11, 16): 900, decimal.Decimal("1.50"): 880, True: 870, "1": 860, uuid.UUID(int=7): 1}


@pytest.mark.parametrize("more", [{}, {"k": 4}, {"k": 4, "counts": True}, {"k": 3, "mechanism": "limited-domain"}])
def test_a_record_reads_back_equal(more):
    release = cutline.top(COUNTED, max_k=20, epsilon=2.0, rng=SeededSource(0), **more)
    back = through_json(release)
    assert back == release
    assert back.to_dict(full=True) == release.to_dict(full=True)
    assert list(map(type, back.listed())) == list(map(type, release.listed()))
    assert pickle.dumps(back.outcome) == pickle.dumps(release.outcome)


def test_a_record_of_what_was_withheld_and_of_what_was_built_by_hand():
    withheld = cutline.top(dict.fromkeys(range(50), 3), epsilon=0.5, rng=SeededSource(0))
    assert not withheld.released
    assert through_json(withheld) == withheld
    bare = dataclasses.replace(withheld, budget=None, outcome=Outcome(items=(), k=3, steps=("test",)), reserved=None)
    assert through_json(bare) == bare


def test_records_of_tables_and_labels_read_back_equal():
    release = cutline.top(COUNTED, max_k=20, epsilon=2.0, k=4, rng=SeededSource(0))
    groups = {dt.date(2026, 11, 16): release, 7: dataclasses.replace(release, seeded=False), "7": release}
    budget = Budget(epsilon=2.0, delta=1e-6)
    table = GroupedRelease(by="day", releases=groups, groups_per_user=2, budget=budget, reserved=3 * release.cost)
    assert through_json(table) == table
    assert len(table.to_record()["costs"]) == 3  # what ran, the dearest path and the whole table: each once
    labels = Labels(
        values=np.array([[1, 0, -1]], dtype=np.int8),
        cost=release.cost,
        mechanism={"teachers": 3, "labels": 3, "name": "m"},
    )
    back = through_json(labels)
    assert back.to_dict(full=True) == labels.to_dict(full=True)
    assert back.values.dtype == np.int8
