"""Histograms: right ranks and gaps, and nothing private through the back door."""

import copy
import datetime
import math
import pickle
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutline.errors import CountsError, DomainError, ParameterError
from cutline.histogram import BoundedHistogram, ClosedHistogram, OpenHistogram

mappings = st.dictionaries(st.text(max_size=4), st.integers(0, 30), max_size=12)


@given(counts=mappings, max_k=st.integers(1, 15))
def test_open_ranks_gaps_and_padding(counts, max_k):
    histogram = OpenHistogram.from_counts(counts, max_k=max_k)
    ranked = sorted((item for item in counts if counts[item]), key=lambda item: (-counts[item], item))
    values = [counts[item] for item in ranked] + [0] * (max_k + 1)
    assert list(histogram.items) == ranked[: max_k + 1]
    assert histogram.counts.tolist() == values[: max_k + 1]
    assert histogram.gaps(max_k).tolist() == [values[i] - values[i + 1] for i in range(max_k)]
    assert histogram.top(2) == tuple(ranked[:2])


@given(counts=mappings.filter(bool), max_k=st.integers(1, 15))
def test_closed_ranks_and_gaps(counts, max_k):
    histogram = ClosedHistogram.from_counts(counts)
    ranked = sorted(counts, key=lambda item: (-counts[item], item))
    values = [counts[item] for item in ranked] + [0] * (max_k + 1)
    assert list(histogram.items) == ranked
    assert histogram.gaps(max_k).tolist() == [values[i] - values[i + 1] for i in range(max_k)]
    assert int(histogram.multiplicities.sum()) == histogram.size == len(counts)
    assert np.repeat(histogram.values, histogram.multiplicities).tolist() == values[: len(counts)]


def test_an_array_counts_its_indices():
    array = np.array([3, 9, 9, 0], dtype=np.uint16)
    assert OpenHistogram.from_counts(array, max_k=5).top(9) == (1, 2, 0)
    closed = ClosedHistogram.from_counts(array)
    assert closed.top(9) == (1, 2, 0, 3)
    assert closed.items[0] == 1
    assert type(closed.items[0]) is int


@pytest.mark.parametrize("build", [lambda c: OpenHistogram.from_counts(c, max_k=3), ClosedHistogram.from_counts])
@pytest.mark.parametrize(
    "counts",
    [
        {"secret": 1.5},
        {"secret": -77},
        {"secret": True},
        {"secret": "77"},
        {"secret": None},
        {"secret": 2**50},
        np.array([1.5, 77.0]),
        np.array([-77, 2]),
        np.array([[1, 77]]),
        np.array([True, False]),
        np.array(["77"]),
    ],
)
def test_bad_counts_are_refused_without_quoting_them(build, counts):
    with pytest.raises(CountsError) as caught:
        build(counts)
    assert "77" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_items_of_several_types_are_ranked_by_type_then_value():
    """One user's odd item is no reason to refuse everybody's."""
    odd = {"b": 5, 1: 5, "a": 5, 2.5: 5, (1, 2): 5, frozenset({3}): 5}
    assert OpenHistogram.from_counts(odd, max_k=9).top(9) == (2.5, frozenset({3}), 1, "a", "b", (1, 2))


@pytest.mark.parametrize("max_k", [0, -1, 2.0, True, "3", None])
def test_max_k_must_be_a_positive_whole_number(max_k):
    with pytest.raises(ParameterError, match="max_k"):
        OpenHistogram.from_counts({"a": 1}, max_k=max_k)


@pytest.mark.parametrize(
    "histogram",
    [OpenHistogram.from_counts({"secret": 4242}, max_k=2), ClosedHistogram.from_counts({"secret": 4242, "b": 1})],
)
def test_private_data_stays_inside(histogram):
    assert "secret" not in repr(histogram)
    assert "4242" not in repr(histogram) + str(histogram)
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private"):
            leak(histogram)


def test_odd_items_of_one_type_are_no_reason_to_stop():
    zone = datetime.timezone(datetime.timedelta(hours=1))
    odd = [Decimal("NaN"), Decimal("Infinity"), Decimal(1), float("nan"), -math.inf]
    odd += [
        datetime.time(3),
        datetime.time(4, tzinfo=zone),
        datetime.datetime(2024, 1, 1),
        datetime.datetime(2024, 1, 1, tzinfo=zone),
    ]
    first = OpenHistogram.from_counts(dict.fromkeys(odd, 5), max_k=20).top(20)
    second = OpenHistogram.from_counts(dict.fromkeys(reversed(odd), 5), max_k=20).top(20)
    assert len(first) == len(odd)
    assert [repr(item) for item in first] == [repr(item) for item in second]


@given(full=mappings, cut=st.integers(0, 30), start=st.integers(1, 4))
def test_bounded_ranks_by_bounded_counts_and_looks_full_ones_up(full, cut, start):
    bounded = {item: min(n, cut) for item, n in full.items() if item[:1] != "a"}
    histogram = BoundedHistogram.from_counts(full, bounded, max_items_per_user=3, start=start)
    ranked = sorted((i for i in bounded if bounded[i] >= start), key=lambda item: (-bounded[item], item))
    assert histogram.named(range(len(ranked))) == tuple(histogram.items) == tuple(ranked)
    assert np.repeat(histogram.values, histogram.multiplicities).tolist() == [bounded[item] for item in ranked]
    assert histogram.full_counts(range(len(ranked))).tolist() == [full[item] for item in ranked]
    public = histogram.chosen(range(0, len(ranked), 2))
    assert set(public.items) == set(ranked[::2])
    assert np.repeat(public.values, public.multiplicities).tolist() == sorted(
        (full[i] for i in ranked[::2]), reverse=True
    )
    assert repr(histogram) == "BoundedHistogram(max_items_per_user=3)"
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(histogram)


def test_bounded_counts_of_arrays_and_of_a_log_without_rows():
    histogram = BoundedHistogram.from_counts(np.array([5, 0, 7]), np.array([2, 0, 2]), max_items_per_user=1)
    assert (histogram.items, histogram.values.tolist(), histogram.multiplicities.tolist()) == ((0, 2), [2], [2])
    empty = BoundedHistogram.from_counts({}, {}, max_items_per_user=1)
    assert (empty.items, empty.values.tolist(), empty.full_counts([]).tolist()) == ((), [], [])


@pytest.mark.parametrize(
    ("full", "bounded"),
    [
        ({"secret": 5}, {"secret": 77}),
        ({"a": 5}, {"secret": 77}),
        ({"a": 5}, np.array([5])),
        (np.array([5]), np.array([5, 0])),
        (np.array([5]), np.array([77])),
    ],
)
def test_bounded_counts_that_are_not_of_the_full_ones_are_refused_without_quoting_them(full, bounded):
    with pytest.raises(CountsError) as caught:
        BoundedHistogram.from_counts(full, bounded, max_items_per_user=1)
    assert "77" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("bound", [0, -1, 2.5, True, None, 10**7])
def test_a_bound_is_a_whole_number(bound):
    with pytest.raises(ParameterError, match="max_items_per_user"):
        BoundedHistogram.from_counts({}, {}, max_items_per_user=bound)


def test_bounded_counts_have_no_gaps():
    histogram = BoundedHistogram.from_counts({"a": 5}, {"a": 5}, max_items_per_user=1)
    for ask in (histogram.gaps, histogram.after, histogram.up_to):
        with pytest.raises(DomainError, match="max_items_per_user"):
            ask(1)
