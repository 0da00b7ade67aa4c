"""One user or one row more changes exactly what it may: in every format of files and every kind of table, whatever is in it."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutline.counting import check, count
from cutline.errors import ColumnTypeError, ParameterError
from cutline.verify.metamorphic import COLUMNS, Trial, differences, find_violations

USERS, ITEMS, GROUPS = ["ann", "bob", "cy", "dé"], ["tea", "milk", "ale", "x,\ny", '"q"'], ("mon", "tue", "wed", "thu")
ROWS = [
    (user, item, group)
    for u, user in enumerate(USERS)
    for i, item in enumerate(ITEMS)
    for g, group in enumerate(GROUPS)
    if (u + i * g) % 3 or u == i
]
ROWS += [(None, "tea", "mon"), ("ann", None, "mon"), ("bob", "tea", None), ("cy", "tea", "nobody's")]
FILES = ["parquet", "csv", "tsv", "csv.gz", "json", "jsonl", "ndjson.gz"]
KINDS = [
    *FILES,
    "arrow",
    "dictionary",
    "views",
    "pandas",
    "pandas-object",
    "pandas-category",
    "polars",
    "polars-category",
]


def arrow(rows):
    return pa.table({name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(COLUMNS)})


def text_of(kind, rows):
    if kind in ("csv", "tsv"):
        file = io.StringIO()
        writer = csv.writer(file, delimiter="\t" if kind == "tsv" else ",")
        writer.writerows([COLUMNS, *(["" if cell is None else cell for cell in row] for row in rows)])
        return file.getvalue()
    records = [json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in rows]
    return "[" + ",".join(records) + "]" if kind == "json" else "".join(record + "\n" for record in records)


def build(kind, folder):
    def source(rows):
        table, path = arrow(rows), folder / f"log.{kind}"
        if kind == "parquet":
            pq.write_table(table, path)
        elif kind in FILES:
            form, _, zipped = kind.partition(".")
            content = text_of(form, rows).encode()
            path.write_bytes(gzip.compress(content, 1) if zipped else content)
        if kind in FILES:
            return path
        if kind == "dictionary":
            return pa.table([column.dictionary_encode() for column in table.columns], names=COLUMNS)
        if kind == "views":
            return table.cast(pa.schema([(name, pa.string_view()) for name in COLUMNS]))
        if kind.startswith("pandas"):
            frame = table.to_pandas()
            return frame if kind == "pandas" else frame.astype(kind.removeprefix("pandas-"))
        if kind.startswith("polars"):
            frame = pl.from_arrow(table)
            return frame if kind == "polars" else frame.with_columns(pl.col("item").cast(pl.Categorical))
        return table

    return source


@pytest.mark.parametrize("kind", KINDS)
def test_one_user_changes_their_own_counts_by_one_in_at_most_so_many_groups(kind, tmp_path):
    trial = Trial(build=build(kind, tmp_path), groups=GROUPS[:3], max_groups_per_user=2, key="k")
    assert find_violations(trial, ROWS, leaving=USERS[:1]) == []


@pytest.mark.parametrize(
    ("limit", "candidates"), [(None, None), (1, None), (2, ("tea", "milk", "none")), (None, ("ale",))]
)
def test_every_user_with_and_without_limits_and_candidates(limit, candidates):
    trial = Trial(build=arrow, groups=GROUPS, max_groups_per_user=limit, candidates=candidates)
    assert find_violations(trial, ROWS) == []


@pytest.mark.parametrize("kind", ["parquet", "csv.gz", "json", "arrow", "pandas-object", "polars-category"])
def test_with_a_bound_one_user_changes_the_items_they_would_keep_if_they_were_alone(kind, tmp_path):
    source = build(kind, tmp_path)
    for bound, limit in ((2, None), (1, 2)) if kind == "arrow" else ((2, 2),):
        trial = Trial(build=source, groups=GROUPS[:3], max_groups_per_user=limit, max_items_per_user=bound)
        assert find_violations(trial, [*ROWS, *ROWS[:9]], leaving=USERS[: 4 if kind == "arrow" else 1]) == []


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rows: [row for row in rows if row[1] != "tea" or len({user for user, _, _ in rows}) % 2],
        lambda rows: [(user, item if len(rows) % 2 else f"{item} ", group) for user, item, group in rows],
        lambda rows: [(f"{user} {len(rows)}" if user == "ann" else user, item, g) for user, item, g in rows],
    ],
)
def test_bounded_counts_in_which_others_decide_are_found(wrong):
    trial = Trial(build=lambda rows: arrow(wrong(rows)), groups=GROUPS[:2], max_items_per_user=1)
    assert find_violations(trial, ROWS)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rows: [row for row in rows if row[0] != "cy" or "newcomer" not in {user for user, _, _ in rows}],
        lambda rows: [(user, item, "mon" if len(rows) % 2 else group) for user, item, group in rows],
        lambda rows: [*rows, ("fay", "tea", "mon")] if len({user for user, _, _ in rows}) < 5 else rows,
        lambda rows: [(f"{user} {i}", item, group) for i, (user, item, group) in enumerate(rows)],
    ],
)
def test_sources_that_let_one_user_change_more_are_found(wrong):
    assert find_violations(Trial(build=lambda rows: arrow(wrong(rows)), groups=GROUPS[:2]), ROWS)


def stored(kind, cells):
    """Make an Arrow array from whole numbers or bytes as they are stored, whether or not the type can hold them."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        width = np.int64 if pa.types.is_large_string(kind) else np.int32
        offsets = np.cumsum([0, *map(len, cells)]).astype(width)
        return pa.Array.from_buffers(kind, len(cells), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(cells))])
    data = b"".join(cell.to_bytes(kind.bit_width // 8, "little", signed=True) for cell in cells)
    return pa.Array.from_buffers(kind, len(cells), [None, pa.py_buffer(data)])


UNITS = ("s", "ms", "us", "ns")
STORED = [
    *(pa.timestamp(unit, zone) for unit in UNITS for zone in (None, "UTC", "Asia/Tokyo")),
    *(pa.time32(unit) for unit in ("s", "ms")),
    *(pa.time64(unit) for unit in ("us", "ns")),
    *(pa.date32(), pa.date64()),
    *(pa.decimal128(4, 1), pa.decimal128(18, 0), pa.decimal128(38, 10), pa.decimal32(4, 1), pa.decimal64(12, 2)),
    *(pa.string(), pa.large_string()),
]
BASE = [86_400_000 * n for n in (0, 1, 1, 2)]  # a whole day in milliseconds, and within the range of all but a few
SMALL = [0, 1, 1, 2]


def odd_cells(kind):
    """Stored cells of a type: those that have broken an engine."""
    if "string" in str(kind):
        return [b"\xff", b"\xed\xa0\x80", b"d\xc3", b"d\0", b"", b"\xf4\x90\x80\x80", b"x" * (2**21 + 1)]
    least, most = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    odd = [
        least,
        least + 1,
        most,
        most - 1,
        -1,
        10**17,
        10**13,
        86_400,
        86_400 * 10**6,
        10**4,
        10**18,
        10**38,
        10**38 - 1,
    ]
    return [cell for cell in odd if least <= cell <= most]


def any_cells(kind):
    """A strategy of stored cells of a type: any bits at all."""
    if "string" in str(kind):
        return st.binary(min_size=2, max_size=12)
    return st.integers(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)


def counts(source, **asked):
    histogram = count(source, user="user", item="item", max_k=100, **asked)
    return {None: dict(zip(histogram.items, histogram.counts.tolist(), strict=False))}


def grew_by_one_at_most(before, after):
    return list(differences(before, after).values()) in ([], [1])


@pytest.mark.parametrize("kind", STORED, ids=str)
@settings(max_examples=1, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_stored_cells_change_no_other_count_and_fail_nothing(kind, data, tmp_path):
    """Of users who each have one odd cell none changes another's count; so no single one of them does."""
    base = [b"a", b"b", b"b", b"c"] if "string" in str(kind) else BASE if kind == pa.date64() else SMALL
    drawn = data.draw(st.lists(any_cells(kind), min_size=20, max_size=20))
    odd = [cell for cell in dict.fromkeys([*odd_cells(kind), *drawn]) if cell not in base]
    cells, names = [*base, *odd], ["v", "w", "x", "w", *(f"odd {n}" for n in range(len(odd)))]
    as_item = pa.table({"user": names, "item": stored(kind, cells)})
    before, after = counts(as_item[:4])[None], counts(as_item)[None]
    assert sorted(before.values()) == [1, 1, 2]
    assert {item: after[item] for item in before} == before
    assert {after[item] for item in after.keys() - before.keys()} <= {1}
    as_user = pa.table({"user": stored(kind, cells), "item": names})
    named = counts(as_user)[None]
    assert {name: named[name] for name in "vwx"} == {"v": 1, "w": 2, "x": 1}
    if not str(kind).startswith("timestamp[s"):  # which parquet has not
        pq.write_table(as_item, tmp_path / "log.parquet")
        written = counts(tmp_path / "log.parquet")[None]
        assert all(
            written[item] >= n for item, n in before.items()
        )  # the writer cuts some bits off, so more may be equal


@pytest.mark.parametrize(
    ("kind", "odd"),
    [
        *((pa.timestamp("ms"), cell) for cell in (-(2**63), 10**17)),
        (pa.timestamp("s", "UTC"), 10**13),
        (pa.time64("us"), -1),
        (pa.time32("s"), 86_400),
        (pa.decimal128(4, 1), 10**4),
        (pa.decimal128(38, 10), -(2**127)),
        (pa.string(), b"\xff"),
        (pa.string(), b"x" * (2**21 + 1)),
    ],
    ids=str,
)
def test_a_cell_that_its_type_cannot_hold_is_missing(kind, odd, tmp_path):
    base = [b"a", b"b"] if kind == pa.string() else [5, 6]
    table = pa.table({"user": ["u", "v", "odd"], "item": stored(kind, [*base, odd])})
    pq.write_table(table, tmp_path / "log.parquet")
    for source in (table, tmp_path / "log.parquet"):
        assert list(counts(source)[None].values()) == [1, 1]


VALUES = {
    "int8": (pa.int8(), [1, 2], -128),
    "uint64": (pa.uint64(), [1, 2], 2**64 - 1),
    "double": (pa.float64(), [1.0, 2.0], float("-inf")),
    "nan": (pa.float32(), [1.0, 2.0], float("nan")),
    "bool": (pa.bool_(), [True, False], None),
    "uuid": (pa.uuid(), [uuid.UUID(int=n).bytes for n in (1, 2)], b"\xff" * 16),
    "json": (pa.json_(), ["1", "{}"], "not json"),
    "enum": (pa.dictionary(pa.int8(), pa.string()), ["a", "b"], "c"),
    "date": (pa.date32(), [dt.date(2020, 1, n) for n in (1, 2)], dt.date.max),
    "decimal": (pa.decimal128(5, 2), [Decimal("1.50"), Decimal("2.00")], Decimal("-999.99")),
    "null": (pa.null(), [None, None], None),
}


@pytest.mark.parametrize("name", VALUES)
def test_one_value_more_of_any_type_changes_its_own_count_at_most(name, tmp_path):
    kind, base, odd = VALUES[name]
    found = []
    for cells in (base, [*base, odd]):
        table = pa.table({"user": ["u", "v", "odd"][: len(cells)], "item": pa.array(cells, kind)})
        pq.write_table(table, tmp_path / "log.parquet")
        found.append([counts(source) for source in (table, tmp_path / "log.parquet")])
        assert found[-1][0] == found[-1][1]
    assert grew_by_one_at_most(found[0][0], found[1][0])


def test_broken_text_in_a_column_of_json_is_missing(tmp_path):
    column = pa.ExtensionArray.from_storage(pa.json_(), stored(pa.string(), [b"{}", b'"\xff"', b"\xed\xa0\x80"]))
    table = pa.table({"user": ["u", "v", "w"], "item": column})
    pq.write_table(table, tmp_path / "log.parquet")
    for source in (table, tmp_path / "log.parquet"):
        assert counts(source) == {None: {"{}": 1}}
        assert counts(source, where="item = '{}'") == {None: {"{}": 1}}


@pytest.mark.parametrize("kind", [pa.decimal256(30, 1), pa.binary(), pa.list_(pa.string()), pa.duration("s")], ids=str)
def test_types_without_names_are_refused_before_a_row_is_read(kind, tmp_path):
    table = pa.table({"user": pa.array([], pa.string()), "item": pa.array([], kind)})
    pq.write_table(table, tmp_path / "log.parquet")
    for source in (table, tmp_path / "log.parquet"):
        with pytest.raises(ColumnTypeError):
            check(source, user="user", item="item")


RECORDS = [{"user": f"u{n}", "item": str(n % 3)} for n in range(12)]
ODD_RECORDS = [
    b'{"user": "odd", "item": "\\ud800"}',
    b'{"user": "odd", "item": "' + b"x" * 34_000_000 + b'"}',
    b'{"user": "odd", "item": "\xff"}',
    b'{"user": "odd", "item": 1e400, "more": {"item": "}"}}',
    b'{"user": "odd", "item": ' + b"[" * 300_000 + b"]" * 300_000 + b"}",
    b'{"user": "odd", "item": NaN}',
    b'{"user": "odd", "item": {"a": [1, 2.5, null, "\xc3\xa9"]}}',
    b'{"user": "odd", "item": "\\\\"}',
    b'{"user": "odd", "item": "\\"}{"}',
    b'{"user": "odd" "item": oops}',
    b"[1, 2]",
    b"[oops",
    b"[",
    b"]",
    b"null",
    b'"{"',
    b"17",
]


@pytest.mark.parametrize("form", ["array", "objects", "lines"])
def test_one_record_more_changes_its_own_count_at_most(form, tmp_path):
    path = tmp_path / ("log.jsonl" if form == "lines" else "log.json")
    lines = [json.dumps(record).encode() for record in RECORDS]

    def counted(written):
        path.write_bytes(b"[" + b",\n".join(written) + b"]" if form == "array" else b"\n".join(written))
        return counts(path, memory_limit="50MB")

    before = counted(lines)
    assert before == {None: {"0": 4, "1": 4, "2": 4}}
    for odd in ODD_RECORDS:
        assert grew_by_one_at_most(before, counted([odd, *lines]))
    assert grew_by_one_at_most(before, counted([*lines[:5], *ODD_RECORDS[:3], *lines[5:]]))


def test_many_long_records_of_one_user_fit_in_the_smallest_memory(tmp_path):
    path = tmp_path / "log.jsonl"
    dense = json.dumps({"user": "odd", "item": [0] * 60_000})
    path.write_text("\n".join([*map(json.dumps, RECORDS), *[dense] * 40]))
    found = counts(path, memory_limit="50MB")[None]
    assert sorted(found.values()) == [1, 4, 4, 4]


def test_the_form_of_a_file_is_that_of_its_name_unless_it_is_given(tmp_path):
    rows = [("u", "a", "g"), ("v", "a", "g")]
    for form in ("csv", "tsv", "json", "jsonl"):
        path = tmp_path / f"log of {form}.txt"
        path.write_text(text_of(form, rows))
        assert counts(path, format=form) == {None: {"a": 2}}
    pq.write_table(arrow(rows), tmp_path / "log.csv")
    assert counts(tmp_path / "log.csv", format="parquet") == {None: {"a": 2}}
    (tmp_path / "lines.json").write_text("[1, 2]\n" + text_of("jsonl", rows))
    assert counts(tmp_path / "lines.json") == counts(tmp_path / "lines.json", format="jsonl") == {None: {"a": 2}}
    with pytest.raises(ParameterError, match="parquet, csv, tsv, json, jsonl"):
        counts(tmp_path / "log.csv", format="auto")
    with pytest.raises(ParameterError, match="format is for files"):
        counts(arrow(rows), format="csv")


text = st.text(st.characters(codec="utf-8"), max_size=6)


@pytest.mark.parametrize("kind", ["parquet", "csv", "tsv", "json", "jsonl", "pandas-object"])
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cells=st.tuples(st.one_of(st.none(), text), st.one_of(st.none(), text), st.one_of(st.none(), text)))
def test_one_row_of_any_text_changes_its_own_count_at_most(kind, cells, tmp_path):
    trial = Trial(build=build(kind, tmp_path), groups=GROUPS[:2])
    assert grew_by_one_at_most(trial.count(ROWS), trial.count([*ROWS[:7], cells, *ROWS[7:]]))


def test_objects_of_pandas_that_have_no_text_are_missing():
    for odd in ("\ud800", float("nan"), pd.NaT, b"\xff", [1], 10**5000):
        frame = pd.DataFrame({"user": ["u", "v", "odd"], "item": pd.Series(["a", "a", odd], dtype=object)})
        assert grew_by_one_at_most(counts(frame[:2]), counts(frame))
