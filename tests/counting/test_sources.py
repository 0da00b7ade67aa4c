"""Every kind of source gives the counts that plain Python gives."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import json
import subprocess
import sys
from collections import defaultdict

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutline.counting import count
from cutline.counting.engines.duck.frames import frame_of
from cutline.histogram import ClosedHistogram, OpenHistogram

MAX_K = 3
KINDS = [
    "parquet",
    "csv",
    "tsv",
    "csv.gz",
    "jsonl",
    "ndjson.gz",
    "json",
    "pandas",
    "pandas-category",
    "polars",
    "pyarrow",
    "dictionary",
]


def reference(rows, max_k=MAX_K):
    users = defaultdict(set)
    for user, item in rows:
        if user is not None and item is not None:
            users[item].add(user)
    ranked = sorted(((len(who), item) for item, who in users.items()), key=lambda pair: (-pair[0], pair[1]))[
        : max_k + 1
    ]
    counts = [n for n, _ in ranked]
    return tuple(item for _, item in ranked), counts + [0] * (max_k + 1 - len(counts))


def answer(histogram):
    assert isinstance(histogram, OpenHistogram)
    return tuple(histogram.items), histogram.counts.tolist()


def write_csv(path, rows, header=("user", "item")):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "wt", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t" if ".tsv" in str(path) else ",")
        writer.writerow(header)
        writer.writerows(["" if cell is None else cell for cell in row] for row in rows)


def build(kind, rows, directory):
    users, items = [user for user, _ in rows], [item for _, item in rows]
    table = pa.table({"user": pa.array(users, pa.string()), "item": pa.array(items, pa.string())})
    path = directory / f"log.{kind}"
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind in ("csv", "tsv", "csv.gz"):
        write_csv(path, rows)
    elif kind in ("jsonl", "ndjson.gz"):
        opener = gzip.open if kind.endswith("gz") else open
        with opener(path, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps({"user": user, "item": item}) + "\n" for user, item in rows)
    elif kind == "json":
        path.write_text(json.dumps([{"user": user, "item": item} for user, item in rows]))
    elif kind == "pandas":
        return pd.DataFrame({"user": pd.Series(users, dtype=object), "item": pd.Series(items, dtype=object)})
    elif kind == "pandas-category":
        return pd.DataFrame(
            {"user": pd.Series(users, dtype=object), "item": pd.Series(items, dtype=object).astype("category")}
        )
    elif kind == "polars":
        return pl.DataFrame({"user": users, "item": items}, schema={"user": pl.String, "item": pl.Categorical})
    elif kind == "pyarrow":
        return table
    else:
        return table.set_column(1, "item", table.column("item").dictionary_encode())
    return path


text = st.one_of(
    st.sampled_from(["a", "b", "B", "é", "𐀀", "￿"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1, max_size=4),
)
cells = st.one_of(st.none(), text)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(st.one_of(st.none(), st.sampled_from("uvwxyz")), cells), max_size=30))
def test_every_source_gives_the_reference_answer(kind, rows, tmp_path):
    assert answer(count(build(kind, rows, tmp_path), user="user", item="item", max_k=MAX_K)) == reference(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_one_item_and_all_ties_run_like_any_other(kind, tmp_path):
    for rows in ([], [("u", "a")], [(user, item) for user in "uv" for item in "edcba"]):
        assert answer(count(build(kind, rows, tmp_path), user="user", item="item", max_k=MAX_K)) == reference(rows)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 8), st.integers(-6, 6)), max_size=120),
    max_k=st.integers(1, 4),
)
def test_the_two_phase_plan_is_exact_when_rows_and_users_disagree(rows, max_k):
    rows = [
        row for user, item in rows for row in [(user, item)] * (1 + (item + 6) ** 2)
    ]  # heavy repeats for some items
    table = pa.table({"u": pa.array([u for u, _ in rows], pa.int64()), "i": pa.array([i for _, i in rows], pa.int16())})
    assert answer(count(table, user="u", item="i", max_k=max_k)) == reference(rows, max_k)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, False, True], pa.bool_()),
        ([2, 1, 2], pa.uint8()),
        ([2**100, 1, 2**100], pa.decimal128(38, 0)),
        ([dt.date(2020, 1, 2), dt.date(2020, 1, 1), dt.date(2020, 1, 2)], pa.date32()),
        ([dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2)], pa.timestamp("us")),
        ([dt.time(2), dt.time(1), dt.time(2)], pa.time64("us")),
        ([1.5, -0.5, 1.5], pa.float64()),
    ],
)
def test_typed_items_keep_their_values(values, kind):
    table = pa.table({"u": [1, 2, 3], "i": pa.array(values, kind)})
    assert answer(count(table, user="u", item="i", max_k=2)) == ((values[0], values[1]), [2, 1, 0])


def test_moments_without_an_exact_python_value_are_named_by_text():
    table = pa.table(
        {
            "u": [1, 2],
            "i": pa.array([1, 2], pa.timestamp("ns")),
            "z": pa.array([0, 0], pa.timestamp("us", "Asia/Tokyo")),
        }
    )
    assert count(table, user="u", item="i", max_k=2).items == (
        "1970-01-01 00:00:00.000000001",
        "1970-01-01 00:00:00.000000002",
    )
    assert count(table, user="u", item="z", max_k=2).items == ("1970-01-01 00:00:00+00",)


def test_not_a_number_is_missing_as_user_and_as_item():
    table = pa.table({"u": [1.0, float("nan"), 2.0], "i": [float("nan"), 7.0, 7.0]})
    assert answer(count(table, user="u", item="i", max_k=1)) == ((7.0,), [1, 0])
    frame = pd.DataFrame({"u": [1.0, np.nan, 2.0], "i": [np.nan, 7.0, 7.0]})
    assert answer(count(frame, user="u", item="i", max_k=1)) == ((7.0,), [1, 0])


def test_not_a_number_is_missing_in_parquet_whose_statistics_do_not_know_it(tmp_path):
    negative = np.copysign(np.nan, -1.0)
    for kind in (pa.float64(), pa.float32()):
        table = pa.table({"u": [1.0, float("nan"), 2.0, 3.0], "i": pa.array([float("nan"), 7.0, 7.0, negative], kind)})
        pq.write_table(table, tmp_path / "log.parquet")
        assert answer(count(tmp_path / "log.parquet", user="u", item="i", max_k=1)) == ((7.0,), [1, 0])


def test_all_missing_columns_without_a_type():
    assert answer(count(pa.table({"u": pa.nulls(3), "i": pa.nulls(3)}), user="u", item="i", max_k=1)) == ((), [0, 0])


def test_pandas_extension_types():
    frame = pd.DataFrame(
        {
            "u": pd.array([1, None, 3], "Int64"),
            "i": pd.array(["a", "b", "a"], "string"),
            "j": pd.Series(["x", None, "x"]),
        }
    )
    assert answer(count(frame, user="u", item="i", max_k=1)) == (("a",), [2, 0])
    assert answer(count(frame, user="u", item="j", max_k=1)) == (("x",), [2, 0])


def test_text_of_frames_is_not_copied():
    values = ["a long enough name to live outside of a view", None, "é"] * 1000
    pandas = pd.DataFrame({"u": range(3000), "i": pd.Series(values, dtype="str")})
    polars = pl.DataFrame({"u": range(3000), "i": values})
    before = pa.total_allocated_bytes()
    columns = [frame_of(frame)._column("i", 1) for frame in (pandas, polars)]
    assert pa.total_allocated_bytes() - before < 50_000  # each copy would be 50 kB and more
    assert [column.to_pylist() for column in columns] == [values, values]


def test_globs_read_all_files_and_literal_paths_win(tmp_path):
    for name, rows in (
        ("part-1.csv", [("u", "a")]),
        ("part-2.csv", [("v", "a")]),
        ("part-[12].csv", [("w", "literal")]),
    ):
        write_csv(tmp_path / name, rows)
    assert answer(count(tmp_path / "part-?.csv", user="user", item="item", max_k=1)) == (("a",), [2, 0])
    assert answer(count(str(tmp_path / "part-[12].csv"), user="user", item="item", max_k=1)) == (("literal",), [1, 0])
    write_csv(tmp_path / "it's *.csv", [("w", "quoted")])
    assert answer(count(tmp_path / "it's *.csv", user="user", item="item", max_k=1)) == (("quoted",), [1, 0])


def test_a_million_distinct_items():
    items = np.arange(1_000_000)
    table = pa.table({"u": np.concatenate([items, [-1, -2]]), "i": np.concatenate([items, [999_999, 500_000]])})
    assert answer(count(table, user="u", item="i", max_k=2)) == ((500_000, 999_999, 0), [2, 2, 1])


def test_names_with_quotes_spaces_and_sql_in_them(tmp_path):
    names = ['"; DROP TABLE log; --', "l'item né 💡"]
    rows = [("u", 'say "hi", it\'s'), ("v", 'say "hi", it\'s')]
    table = pa.table({names[0]: [u for u, _ in rows], names[1]: [i for _, i in rows]})
    pq.write_table(table, tmp_path / "log.parquet")
    write_csv(tmp_path / "log.csv", rows, header=names)
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    for source in (table, table.to_pandas(), pl.from_arrow(table), *tmp_path.glob("log.*")):
        assert answer(count(source, user=names[0], item=names[1], max_k=1)) == (('say "hi", it\'s',), [2, 0])
        quoted = '"' + names[0].replace('"', '""') + '"'
        assert answer(count(source, user=names[0], item=names[1], max_k=1, where=f"{quoted} = 'v'"))[1] == [1, 0]


def test_odd_json_keys_are_taken_literally(tmp_path):
    record = {"a/b~c": "u", "$.x": "i", "*": "j", "": "k"}
    (tmp_path / "log.jsonl").write_text(json.dumps(record) + "\n")
    for key in ("$.x", "*"):
        assert count(tmp_path / "log.jsonl", user="a/b~c", item=key, max_k=1).items == (record[key],)


def test_columns_that_differ_by_case_are_told_apart(tmp_path):
    table = pa.table({"User": ["x", "x"], "user": ["u", "v"], "item": ["a", "a"]})
    write_csv(tmp_path / "log.csv", [("x", "u", "a"), ("x", "v", "a")], header=("User", "user", "item"))
    (tmp_path / "log.jsonl").write_text(
        '{"User": "x", "user": "u", "item": "a"}\n{"User": "x", "user": "v", "item": "a"}\n'
    )
    for source in (table, table.to_pandas(), pl.from_arrow(table), tmp_path / "log.csv", tmp_path / "log.jsonl"):
        assert count(source, user="user", item="item", max_k=1).counts.tolist() == [2, 0]
        assert count(source, user="User", item="item", max_k=1).counts.tolist() == [1, 0]


def test_csv_dialects(tmp_path):
    path = tmp_path / "log.csv"
    for content in (
        b"user,item\nu,a\nv,a",
        b"\xef\xbb\xbfuser,item\r\nu,a\r\nv,a\r\n",
        b"user,item\ru,a\rv,a\r",
        b'"user","item"\n"u","a"\n\nv,a\n',
        b"user,item\r\nu,a\nv,a\r\nw,\n,a\n",
    ):
        path.write_bytes(content)
        assert answer(count(path, user="user", item="item", max_k=1)) == (("a",), [2, 0])
    for content in (b"user,item\n", b"user,item"):
        path.write_bytes(content)
        assert answer(count(path, user="user", item="item", max_k=1)) == ((), [0, 0])


def test_quoted_line_breaks_in_a_large_csv_lose_no_row(tmp_path):
    rows = [(f"u{n}", f'a\nb{n % 13}, "q"' if n % 3 == 0 else f"x{n % 5}") for n in range(400_000)]
    write_csv(tmp_path / "log.csv", rows)
    assert answer(count(tmp_path / "log.csv", user="user", item="item", max_k=20)) == reference(rows, 20)


def test_ready_counts():
    assert answer(count({"b": 2, "a": 2, "c": 0}, max_k=2)) == (("a", "b"), [2, 2, 0])
    assert answer(count(np.array([0, 5, 7]), max_k=1)) == ((2, 1), [7, 5])
    closed = count({"b": 2, "a": 2, "z": 9}, candidates=["a", "c"], max_k=2)
    assert isinstance(closed, ClosedHistogram)
    assert closed.top(2) == ("a", "c")
    assert count(np.array([4, 5]), candidates=[1, 2]).values.tolist() == [5, 0]


def test_importing_the_package_imports_no_engine():
    code = "import sys, cutline.counting; print([m for m in ('duckdb', 'pyarrow', 'pandas', 'polars') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
