"""The row filter: row-local, deterministic, and silent about rows."""

from __future__ import annotations

import datetime as dt
import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutline.counting import count
from cutline.counting.engines.duck.engine import Engine
from cutline.counting.engines.duck.where import FUNCTIONS
from cutline.errors import EngineError, WhereError

LOG = pa.table(
    {
        "u": [1, 2, 3],
        "i": ["a", "b", "a"],
        "d": [dt.date(2020, 1, 1), dt.date(2021, 1, 1), None],
        "s": ["1", "x", "3"],
    }
)


def counts(where, source=LOG):
    histogram = count(source, user="u", item="i", max_k=3, where=where)
    return dict(zip(histogram.items, histogram.counts.tolist(), strict=False))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("u = 1", {"a": 1}),
        ("u > 1 AND i = 'a' OR u = 2", {"a": 1, "b": 1}),
        ("NOT i IN ('a', 'c')", {"b": 1}),
        ("u BETWEEN 1 AND 2", {"a": 1, "b": 1}),
        ("d IS NULL", {"a": 1}),
        ("CASE WHEN u = 3 THEN TRUE END", {"a": 1}),
        ("EXTRACT(year FROM d) = 2021", {"b": 1}),
        ("d < DATE '2020-06-01' + INTERVAL 1 DAY", {"a": 1}),
        ("i LIKE 'a%' AND s ~ '^[0-9]+$'", {"a": 2}),
        ("lower(upper(i)) || s = 'bx'", {"b": 1}),
        ("u = 1 -- OR TRUE", {"a": 1}),
        ("u /* ) */ = 1", {"a": 1}),
        ("coalesce(try_cast(s AS INTEGER), 0) = 0", {"b": 1}),
        ("i = 'it''s'", {}),
        ("TRUE", {"a": 2, "b": 1}),
    ],
)
def test_conditions_on_one_row(where, expected):
    assert counts(where) == expected


@pytest.mark.parametrize(
    "where",
    [
        "u IN (SELECT 1)",
        "EXISTS (SELECT 1)",
        "u > ANY (SELECT 1)",
        "u = ANY([1, 2])",
        "(SELECT TRUE)",
        "sum(u) OVER () > 1",
        "row_number() OVER () < 3",
        "count(*) > 1",
        "max(u) > 1",
        "random() < 0.5",
        "now() > d",
        "current_date > d",
        "today() > d",
        "age(d) > INTERVAL 1 DAY",
        "current_localtimestamp() > d",
        "nextval('s') > 1",
        "error('x') IS NULL",
        "sleep_ms(1) IS NULL",
        "getenv('HOME') = 'x'",
        "current_setting('threads') = '2'",
        "list_filter([1], x -> x > u)[1] = 1",
        "repeat(s, 1000000000) = s",
        "timezone(s, d) > d",
        "date_part(s, d) = 1",
        "date_part('timezone', d) = 1",
        "u = $1",
        "u = ?",
        "*",
        "COLUMNS(*) = 1",
        "#1 = 1",
        "LOG.u = 1",
        "main.lower(i) = 'a'",
        "u = 1; SELECT 2",
        "u = 1) OR (1 = 1",
        "u = 1) UNION SELECT (1",
        "u = 1 ORDER BY u",
        "u = 1 LIMIT 1",
        "u FROM log",
        "u = 1, u = 2",
        "u AS v",
        "u =",
        "",
        " ",
        "\0",
        "-- nothing",
        "NOT " * 5000 + "TRUE",
        7,
    ],
)
def test_anything_else_is_refused(where):
    with pytest.raises(WhereError):
        counts(where)


@pytest.mark.parametrize(
    "where",
    [
        "U = 1",
        "missing = 1",
        "rowid = 1",
        "filename = 'x'",
        "s > 3",
        "u > 'abc'",
        "i",
        "u",
        "NULL",
        "u + 1",
        "1::nothing = u",
        "lower(u, u) = 'a'",
    ],
)
def test_names_and_types_are_checked_before_any_row(where):
    with pytest.raises(WhereError):
        counts(where, LOG.slice(0, 0))
    with pytest.raises(WhereError):
        counts(where)


def test_a_row_on_which_it_fails_is_dropped_and_no_other():
    assert counts("CAST(s AS INTEGER) > 0") == {"a": 2}
    assert counts("CAST(s AS INTEGER) + 1 > 0 AND CAST(s AS INTEGER) + 1 < 9") == {"a": 2}
    assert counts("(u + 9223372036854775805) > 0") == {"a": 1, "b": 1}


def test_other_rows_do_not_decide_whether_a_row_fails(tmp_path):
    # With statistics the engine would skip the failing cast as long as nobody has u > 5.
    where = "NOT (u > 5 AND CAST(s AS INTEGER) > 0)"
    path = tmp_path / "log.parquet"
    pq.write_table(LOG, path)
    more = pa.concat_tables([LOG, pa.table({"u": [9], "i": ["z"], "d": [dt.date(2020, 1, 1)], "s": ["1"]})])
    longer = tmp_path / "longer.parquet"
    pq.write_table(more, longer)
    for short, long in ((LOG, more), (path, longer)):
        assert counts(where, short) == counts(where, long) == {"a": 2}


def test_no_listed_function_fails_past_try():
    # What TRY does not catch would stop the count because of one row.
    columns = ["i", "b", "f", "s", "d", "t"]
    with Engine(row_local=True) as engine:
        engine.run("CREATE TABLE nasty (i INTEGER, b BIGINT, f DOUBLE, s VARCHAR, d DATE, t TIMESTAMP)")
        engine.run(
            "INSERT INTO nasty VALUES (0, 0, 'nan', '', '2020-01-01', '2020-01-01'), (NULL, NULL, NULL, NULL, NULL, NULL)"
        )
        engine.run(
            "INSERT INTO nasty VALUES (-2147483648, -9223372036854775808, '-inf', '(\\', 'infinity', 'infinity')"
        )
        engine.run(
            "INSERT INTO nasty VALUES (2147483647, 9223372036854775807, 1e308, '$[*', '5874897-12-31', '294247-01-10')"
        )
        engine.run("CREATE TABLE blank AS SELECT * FROM nasty WHERE i IS NULL")
        ran = 0
        for name in sorted(FUNCTIONS):
            word = name[0].isalpha()
            for arguments in [*itertools.product(columns, repeat=1), *itertools.product(columns, repeat=2)]:
                call = f"{name}({', '.join(arguments)})" if word else f" {name} ".join(["", *arguments][-2:])
                test = f"SELECT TRY(({call}) IS NULL OR ({call}) = ({call})) FROM"
                if engine.accepts(f"{test} blank"):
                    assert len(engine.rows(f"{test} nasty")) == 4
                    ran += 1
        assert ran > 400


def test_nested_values_are_compared_by_the_engine_or_refused():
    table = LOG.append_column("n", pa.array([[1], [2], [3]]))
    with pytest.raises(WhereError):
        counts("n[1] = 1", table)


def test_filter_columns_of_text_files_are_text(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("u,i,year\n1,a,2020\n2,a,2021\n3,a,soon\n")
    assert counts("CAST(year AS INTEGER) > 2020", path) == {"a": 1}
    assert counts("year = 'soon'", path) == {"a": 1}
    with pytest.raises(WhereError, match="TRY_CAST"):
        counts("year > 2020", path)


def test_a_refused_filter_is_not_an_engine_error():
    with pytest.raises(WhereError) as caught:
        counts("CAST(s AS INTEGER) > 'abc'")
    assert not isinstance(caught.value, EngineError)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
