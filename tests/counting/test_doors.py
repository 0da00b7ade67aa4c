"""Rules of the doors: odd rows hurt nobody else, refusals are public, errors say nothing of rows."""

from __future__ import annotations

import gzip
import json
import pathlib
import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutline.counting import check, count
from cutline.counting.engines.duck.engine import Engine
from cutline.errors import (
    ColumnTypeError,
    CountsError,
    CutlineError,
    EngineError,
    ParameterError,
    SourceError,
    WhereError,
)

ROWS = [(f"u{n}", str(n % 4 + 1)) for n in range(50)] + [("u0", "2"), ("u4", "2")]
SECRET = "Alice-Secret-7"


def counts(source):
    histogram = count(source, user="user", item="item", max_k=50)
    return dict(zip(histogram.items, histogram.counts.tolist(), strict=False))


def csv_text(rows):
    return "user,item\n" + "".join(f"{user},{item}\n" for user, item in rows)


BASE = {"1": 13, "2": 15, "3": 12, "4": 12}


@pytest.mark.parametrize(
    "odd",
    [
        b"odd,text\n",
        b"odd,1.0\n",
        b"odd,01\n",
        b"odd,2020-01-01\n",
        b"odd,1e400\n",
        b"odd\n",
        b"odd,x,y,z\n",
        b"o\xffdd,x\n",
        b"odd,\xff\n",
        b'odd,x"y\n',
        b'odd,"x"y\n',
        b"odd,#\n",
        b"#odd,x\n",
        b"odd,\x00\n",
        b"odd,NULL\n",
        b"\n",
        b"odd,x\r\n",
        b"odd,x\r",
        b"odd,a\\\n",
        b"odd,'\n",
        b"odd," + b"x" * 3_000_000 + b"\n",
    ],
)
@pytest.mark.parametrize("place", [0, 25, 52])
def test_one_odd_csv_row_changes_no_other_count(odd, place, tmp_path):
    path = tmp_path / "log.csv"
    head, tail = csv_text(ROWS[:place]).encode(), csv_text(ROWS[place:]).encode().partition(b"\n")[2]
    path.write_bytes(head + odd + tail)
    found = counts(path)
    extra = {item: n - BASE.get(item, 0) for item, n in found.items() if n != BASE.get(item, 0)}
    assert set(BASE) <= set(found)
    assert len(extra) <= 1
    assert all(n == 1 for n in extra.values())


def test_a_stray_opening_quote_stops_at_the_next_quote(tmp_path):
    path = tmp_path / "log.csv"
    rows = [*ROWS, ("odd", '"x'), ("lost", "1"), ("end", '"y, z"'), *[(f"late{n}", "5") for n in range(20)]]
    path.write_text(csv_text(rows))
    found = counts(path)
    assert {item: found.get(item) for item in ("1", "2", "3", "4", "5")} == BASE | {"5": 20}


@pytest.mark.parametrize(
    "odd",
    [
        b'{"user": "odd", "item": "text"}',
        b'{"user": "odd", "item": 1.0}',
        b'{"user": "odd", "item": {"deep": [1]}}',
        b'{"user": 3, "item": true}',
        b'{"User": "odd", "Item": "1"}',
        b'{"user": "odd", "item": "x"',
        b'"odd"',
        b"[1, 2]",
        b"null",
        b"not json",
        b'{"user": "\xff", "item": "x"}',
        b'{"user": "odd", "item": "\\ud800"}',
        b'{"user": "odd", "item": "\\u0000"}',
        b'{"user": "odd", "item": "x"}{"user": "odd", "item": "y"}',
        b'{"user": "odd", "item": "' + b"x" * 20_000_000 + b'"}',
        b"\x1f\x1e\x1f\x1e",
        b"",
    ],
)
def test_one_odd_json_line_changes_no_other_count(odd, tmp_path):
    path = tmp_path / "log.jsonl"
    lines = [json.dumps({"user": user, "item": int(item)}).encode() for user, item in ROWS]
    for place in (0, 25, 52):
        path.write_bytes(b"\n".join([*lines[:place], odd, *lines[place:]]) + b"\n")
        found = counts(path)
        assert {item: found[item] for item in BASE} == BASE
        assert len(found) <= len(BASE) + 1


class Unspeakable:
    def __str__(self):
        raise ValueError(SECRET)


@pytest.mark.parametrize(
    "odd",
    [
        "text",
        1.0,
        None,
        float("nan"),
        pd.NaT,
        pd.NA,
        b"1",
        (1, 2),
        ["x"],
        {"a": 1},
        "\ud800",
        Unspeakable(),
        10**400,
        True,
    ],
)
@pytest.mark.parametrize("place", [0, 52])
def test_one_odd_object_changes_no_other_count(odd, place):
    rows = [(user, int(item)) for user, item in ROWS]
    rows.insert(place, ("odd", odd))
    frame = pd.DataFrame({"user": [u for u, _ in rows], "item": pd.Series([i for _, i in rows], dtype=object)})
    found = counts(frame)
    assert {item: found[item] for item in BASE} == BASE
    assert len(found) <= len(BASE) + 1


def test_pandas_objects_are_text_however_many_rows_agree():
    frame = pd.DataFrame({"user": range(3000), "item": pd.Series([7] * 2999 + ["7.0"], dtype=object)})
    assert counts(frame) == {"7": 2999, "7.0": 1}


def test_categories_are_text_whatever_their_type():
    numbers = pd.DataFrame({"user": [1, 2], "item": pd.Categorical([10, 9])})
    mixed = pd.DataFrame({"user": [1, 2, 3], "item": pd.Categorical([10, 9, "x"])})
    assert counts(numbers) == {"10": 1, "9": 1}
    assert counts(mixed) == {"10": 1, "9": 1, "x": 1}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.binary(), b"x"),
        (pa.list_(pa.int64()), [1]),
        (pa.struct({"a": pa.int64()}), {"a": 1}),
        (pa.map_(pa.string(), pa.int64()), [("a", 1)]),
        (pa.duration("us"), 5),
        (pa.month_day_nano_interval(), (1, 2, 3)),
    ],
)
@pytest.mark.parametrize("rows", [0, 1])
def test_types_that_cannot_name_anything_are_refused_with_or_without_rows(kind, value, rows):
    table = pa.table({"user": pa.array([1] * rows, pa.int64()), "item": pa.array([value] * rows, kind)})
    with pytest.raises(ColumnTypeError, match="text"):
        count(table, user="user", item="item")
    with pytest.raises(ColumnTypeError, match="text"):
        count(table, user="item", item="user")


def test_dates_python_cannot_hold_are_missing():
    for kind, values in (
        (pa.date32(), [5, 2**31 - 1000, -(2**31) + 1000]),
        (pa.timestamp("us"), [5, 2**62, 2**63 - 1]),
    ):
        table = pa.table({"user": [1, 2, 3], "item": pa.array(values, kind)})
        assert list(counts(table).values()) == [1]


def test_odd_frames_are_refused_by_type():
    for column in (pa.array([np.float16(1)]), pa.array([None], pa.decimal256(50, 2))):
        with pytest.raises(ColumnTypeError):
            count(pa.table({"user": [1], "item": column}), user="user", item="item")
    with pytest.raises(ColumnTypeError):
        count(pd.DataFrame({"user": [1j], "item": [1]}), user="user", item="item")
    with pytest.raises(ColumnTypeError):
        count(
            pl.DataFrame({"user": [object()], "item": [1]}, schema={"user": pl.Object, "item": pl.Int64}),
            user="user",
            item="item",
        )
    for source in (pl.LazyFrame({"user": [1]}), pd.Series([1]), [1, 2], None, 5, b"log.csv", pa.array([1])):
        with pytest.raises(SourceError):
            count(source, user="user", item="item")


def test_missing_and_doubled_columns(tmp_path):
    table = pa.table({"user": [1], "item": ["a"]})
    pq.write_table(table, tmp_path / "log.parquet")
    (tmp_path / "log.csv").write_text("user,item\n1,a\n")
    for source in (table, table.to_pandas(), pl.from_arrow(table), *tmp_path.glob("log.*")):
        for name in ("User", "ITEM", "missing", 'x" OR 1=1 --', "user, item", "*", "rowid", "filename"):
            with pytest.raises(SourceError, match="exactly"):
                count(source, user="user", item=name)
            with pytest.raises(SourceError, match="exactly"):
                count(source, user=name, item="item")
    (tmp_path / "log.csv").write_text("user,item,item\n1,a,b\n")
    with pytest.raises(SourceError, match="one column"):
        count(tmp_path / "log.csv", user="user", item="item")
    with pytest.raises(SourceError, match="one column"):
        count(pd.DataFrame([[1, 2, 3]], columns=["user", "item", "item"]), user="user", item="item")


def test_keys_of_json_are_private_so_a_missing_one_counts_nothing(tmp_path):
    for extra in ("", '{"user": 2, "item": "b", "illness": "flu"}\n'):
        (tmp_path / "log.jsonl").write_text('{"user": 1, "item": "a"}\n' + extra)
        for name in ("User", "missing", "illness, user", "*", "rowid", "filename"):
            check(tmp_path / "log.jsonl", user="user", item=name)
            assert count(tmp_path / "log.jsonl", user="user", item=name, max_k=3).counts.tolist() == [0, 0, 0, 0]
            assert (
                count(tmp_path / "log.jsonl", user="user", item="item", where=f"\"{name}\" = 'x'", max_k=1).items == ()
            )


def test_an_empty_csv_has_no_columns_and_an_empty_json_log_no_rows(tmp_path):
    (tmp_path / "log.csv").write_bytes(b"")
    with pytest.raises(SourceError, match="none"):
        counts(tmp_path / "log.csv")
    for name, content in (("log.jsonl", b""), ("log.json", b"[]"), ("blank.json", b" \n")):
        (tmp_path / name).write_bytes(content)
        assert counts(tmp_path / name) == {}


def test_parquet_columns_that_differ_by_case_are_refused(tmp_path):
    pq.write_table(pa.table({"User": ["x"], "user": ["u"], "item": ["a"]}), tmp_path / "log.parquet")
    with pytest.raises(SourceError, match="two spellings"):
        counts(tmp_path / "log.parquet")


def test_files_of_one_log_must_agree(tmp_path):
    pq.write_table(pa.table({"user": [1], "item": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"user": ["1"], "item": ["a"]}), tmp_path / "b.parquet")
    (tmp_path / "a.csv").write_text("user,item\n1,a\n")
    (tmp_path / "b.csv").write_text("item,user\na,1\n")
    (tmp_path / "a.json").write_text('[{"user": 1, "item": "a"}]')
    (tmp_path / "b.json").write_text('{"user": 2, "item": "a"}\n')
    for pattern in ("*.parquet", "*.csv", "a.*"):
        with pytest.raises(SourceError):
            counts(tmp_path / pattern)
    assert counts(tmp_path / "*.json") == {"a": 2}  # arrays and plain objects are documents of JSON alike


def test_paths_that_are_no_log(tmp_path):
    (tmp_path / "log.txt").write_text("user,item\n")
    (tmp_path / "fake.parquet").write_text(SECRET)
    (tmp_path / "latin.csv").write_bytes("usér,item\n".encode("latin-1"))
    (tmp_path / "broken.csv.gz").write_bytes(b"not gzip")
    for path in (
        *tmp_path.iterdir(),
        tmp_path,
        tmp_path / "missing.csv",
        tmp_path / "*.nothing",
        tmp_path / "log.parquet.gz",
        "s3://bucket/log.parquet",
        "",
        "a\0b.csv",
    ):
        with pytest.raises(SourceError) as caught:
            counts(path)
        assert caught.value.way_out
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize("max_k", [0, -1, 1.5, True, "5", None, float("nan")])
def test_max_k_is_checked_before_anything_else(max_k):
    with pytest.raises(ParameterError, match="max_k"):
        count("missing.csv", max_k=max_k)


@pytest.mark.parametrize(
    "memory_limit", ["", "lots", "1", "-1GB", "1 PB", "1KB", "0MB", "80%", "none", 5, "1GB; SELECT 1", "nanGB"]
)
def test_memory_limits(memory_limit):
    with pytest.raises(ParameterError, match="memory_limit"):
        count({"a": 1}, memory_limit=memory_limit)


@pytest.mark.parametrize("name", [None, "", 5, b"user"])
def test_column_names_are_texts(name):
    table = pa.table({"user": [1], "item": [1]})
    with pytest.raises(ParameterError):
        count(table, user=name, item="item")
    with pytest.raises(ParameterError):
        count(table, user="user", item=name)


@pytest.mark.parametrize(
    "ready",
    [
        {"a": 1.0},
        {"a": -1},
        {"a": True},
        {"a": None},
        {"a": "1"},
        np.array([1.0]),
        np.array([-1]),
        np.array([[1]]),
        np.array([True]),
    ],
)
def test_ready_counts_are_whole_numbers_of_users(ready):
    with pytest.raises(CountsError):
        count(ready)
    with pytest.raises(CountsError):
        count(ready, candidates=["z"])


def test_ready_counts_have_no_columns():
    for given in ({"user": "u"}, {"item": "i"}, {"where": "TRUE"}):
        with pytest.raises(ParameterError, match="no columns"):
            count({"a": 1}, **given)


def shown(error):
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT CAST('{SECRET}' AS INTEGER)",
        f"SELECT error('{SECRET}')",
        f'SELECT * FROM "{SECRET}"',
        f"SELECT strptime('{SECRET}', '%Y')",
        f"SELECT '{SECRET}",
        f"SELECT * FROM read_csv('/{SECRET}.csv')",
        f"SET memory_limit = '{SECRET}'",
        f"ATTACH '/tmp/{SECRET}.db'",
        f"INSTALL '{SECRET}'",
    ],
)
def test_engine_errors_are_replaced_not_wrapped(sql):
    with Engine() as engine:
        for call in (engine.rows, engine.run, engine.arrow):
            with pytest.raises(EngineError) as caught:
                call(sql)
            assert SECRET not in str(caught.value) + repr(caught.value)
            assert caught.value.__cause__ is None
            assert caught.value.__context__ is None
            # The traceback shows source lines, never the engine's words.
            assert SECRET not in shown(caught.value)


def test_a_broken_file_shows_nothing_of_its_rows(tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(
        pa.table(
            {
                "user": [SECRET] * 2000,
                "item": pa.array([b"\xff" + SECRET.encode()] * 2000, pa.binary()).cast(pa.string(), safe=False),
            }
        ),
        path,
    )
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(b"PAR1" + bytes(200) + path.read_bytes()[204:])
    with pytest.raises(CutlineError) as caught:
        counts(damaged)
    assert SECRET not in shown(caught.value)
    cut = tmp_path / "log.jsonl.gz"
    cut.write_bytes(gzip.compress(f'{{"user": "u", "item": "{SECRET}"}}\n'.encode() * 1000)[:-20])
    with pytest.raises(CutlineError) as caught:
        counts(cut)
    assert SECRET not in shown(caught.value)


def test_a_failing_filter_shows_nothing_of_the_row():
    table = pa.table({"user": [1], "item": [SECRET]})
    assert count(table, user="user", item="item", where="CAST(item AS INTEGER) = 1", max_k=1).counts.tolist() == [0, 0]
    with pytest.raises(WhereError) as caught:
        count(table, user="user", item="item", where="item > 1")
    assert SECRET not in shown(caught.value)


def test_the_engine_reads_only_what_it_was_given(tmp_path):
    allowed, other = tmp_path / "a.csv", tmp_path / "b.csv"
    for path in (allowed, other):
        path.write_text("x\n1\n")
    frame = pa.table({"x": [1]})
    with Engine(paths=[str(allowed)]) as engine:
        assert engine.rows(f"SELECT count(*) FROM '{allowed}'") == [(1,)]
        for sql in (
            f"SELECT * FROM '{other}'",
            "SELECT * FROM frame",
            "SET enable_external_access = true",
            "LOAD httpfs",
        ):
            with pytest.raises(EngineError):
                engine.rows(sql)
    assert frame.num_rows == 1
    assert pathlib.Path(other).exists()
