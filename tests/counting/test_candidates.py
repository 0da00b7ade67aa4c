"""Closed domains: the caller's list, in the type of the item column."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutline.counting import count
from cutline.errors import ColumnTypeError, ParameterError
from cutline.histogram import ClosedHistogram


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abcdeABé")), max_size=40),
    candidates=st.lists(st.sampled_from("abcdeABéxyz"), min_size=1, unique=True),
)
def test_closed_counts_match_a_reference(rows, candidates):
    table = pa.table(
        {"u": pa.array([u for u, _ in rows], pa.int64()), "i": pa.array([i for _, i in rows], pa.string())}
    )
    histogram = count(table, user="u", item="i", candidates=candidates)
    counts = {item: len({u for u, i in rows if i == item}) for item in candidates}
    ranked = sorted(candidates, key=lambda item: (-counts[item], item))
    assert isinstance(histogram, ClosedHistogram)
    assert list(histogram.items) == ranked
    assert np.repeat(histogram.values, histogram.multiplicities).tolist() == [counts[item] for item in ranked]


def test_ranks_are_looked_up_like_in_any_sequence():
    table = pa.table({"u": [1, 2, 3, 1], "i": ["b", "b", "c", "c"]})
    items = count(table, user="u", item="i", candidates=["a", "b", "c", "d"]).items
    assert len(items) == 4
    assert (items[0], items[-1], items[1:3], items[::-2], items[9:]) == ("b", "d", ("c", "a"), ("d", "c"), ())
    with pytest.raises(IndexError):
        items[4]


def test_a_million_candidates():
    candidates = range(1_000_000)
    table = pa.table({"u": [1, 2, 1], "i": [777_777, 777_777, 5]})
    histogram = count(table, user="u", item="i", candidates=candidates)
    assert histogram.top(3) == (777_777, 5, 0)
    assert histogram.items[999_999] == 999_999
    assert (histogram.values.tolist(), histogram.multiplicities.tolist()) == ([2, 1, 0], [1, 1, 999_998])


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (pa.string(), ["a"], [1]),
        (pa.int8(), [5, -5], ["5"]),
        (pa.int8(), [5], [300]),
        (pa.uint64(), [2**63], [-1]),
        (pa.int64(), np.array([1, 2]), [True]),
        (pa.int64(), [1], [1.0]),
        (pa.bool_(), [True, False], [1]),
        (pa.float64(), [1.5, 2], ["1.5"]),
        (pa.float32(), [0.1], [0.1, 0.1 + 1e-12]),
        (pa.decimal128(5, 2), [Decimal("1.50"), 2], [Decimal("1.501")]),
        (pa.date32(), [dt.date(2020, 1, 1)], [dt.datetime(2020, 1, 1)]),
        (pa.timestamp("us"), [dt.datetime(2020, 1, 1)], [dt.date(2020, 1, 1)]),
        (pa.timestamp("us"), [dt.datetime(2020, 1, 1)], [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]),
        (pa.time64("us"), [dt.time(1)], ["01:00"]),
        (pa.string(), ["a"], ["\ud800"]),
    ],
)
def test_candidates_have_the_type_of_the_column(kind, good, bad):
    table = pa.table({"u": pa.array([1] * len(good), pa.int64()), "i": pa.array(list(good), kind)})
    assert count(table, user="u", item="i", candidates=good).values.tolist() == [1]
    with pytest.raises(ColumnTypeError):
        count(table, user="u", item="i", candidates=bad)


def test_uuid_candidates(tmp_path):
    one, two = uuid.UUID(int=1), uuid.UUID(int=2)
    table = pa.table({"u": [1], "i": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([one.bytes], pa.binary(16)))})
    assert count(table, user="u", item="i", candidates=[two, one]).top(1) == (one,)


def test_numbers_in_a_text_column_are_refused_with_the_way_out(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user,item\nu,1\n")
    with pytest.raises(ColumnTypeError, match="CSV and JSON files are text"):
        count(path, user="user", item="item", candidates=[1, 2])
    assert count(path, user="user", item="item", candidates=["1", "2"]).top(1) == ("1",)


@pytest.mark.parametrize(
    "candidates",
    [
        [],
        ["a", "a"],
        [1, 1.0],
        ["a", None],
        [float("nan")],
        [pd.NA],
        [pd.NaT],
        "abc",
        b"abc",
        {"a": 1},
        5,
        [["a"]],
        [{}],
    ],
)
def test_bad_lists_are_refused(candidates):
    table = pa.table({"u": [1], "i": ["a"]})
    for source, names in ((table, {"user": "u", "item": "i"}), ({"a": 1}, {})):
        with pytest.raises(ParameterError):
            count(source, candidates=candidates, **names)


def test_names_of_scattered_ranks_come_in_one_look_up(tmp_path):
    rows = pa.table({"user": [1, 2, 3, 1, 2, 1], "item": ["b", "b", "b", "a", "a", "d"]})
    histogram = count(rows, user="user", item="item", candidates=["a", "b", "c", "d"])
    assert histogram.named([3, 0, 2]) == ("c", "b", "d")
    assert histogram.named([]) == ()
