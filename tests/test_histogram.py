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

from cutline.errors import CountsError, ParameterError
from cutline.histogram import ClosedHistogram, OpenHistogram

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
