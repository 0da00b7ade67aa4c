"""The row filter: row-local, deterministic, and silent about rows."""

from __future__ import annotations

import datetime as dt
import itertools

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutline.counting import check, count
from cutline.counting.engines.duck.engine import Engine
from cutline.counting.engines.duck.where import FUNCTIONS, parse_where
from cutline.errors import EngineError, WhereError

LOG = pa.table(
    {
        "u": [1, 2, 3],
        "i": ["a", "b", "a"],
        "d": [dt.date(2020, 1, 1), dt.date(2021, 1, 1), None],
        "s": ["1", "x", "3"],
    }
)


def counts(where, source=LOG, **asked):
    histogram = count(source, user="u", item="i", max_k=3, where=where, **asked)
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
        ("trim(substr(lower(s), 1, 1)) = 'x'", {"b": 1}),
        ("concat(i, s, i) = 'a1a' OR i || s = 'bx'", {"a": 1, "b": 1}),
        ("u * 2 + 1 = 5 AND power(u, 2) < 5 AND (u << 1) = 4", {"b": 1}),
        ("s ILIKE '%X%' OR s GLOB '[0-2]*' OR NOT s LIKE '_'", {"a": 1, "b": 1}),
        ("regexp_matches(s, '^[0-9]{1,4}$') AND regexp_extract(s, '([0-9])', 1) = '3'", {"a": 1}),
        ("date_trunc('year', d) = d AND strftime(d, '%Y-%m') = '2021-01'", {"b": 1}),
        ("try_strptime(s, '%d') IS NULL AND CAST(CAST(u AS DECIMAL(38, 2)) AS VARCHAR) = '2.00'", {"b": 1}),
        ("json_extract_string(s, '$') = '3' AND json_valid(s) AND ('{\"k\": \"a\"}' ->> '$.k') = i", {"a": 1}),
        ("u IN (" + ", ".join(str(user) for user in range(2, 300)) + ")", {"a": 1, "b": 1}),
        (" OR ".join(f"u = {user}" for user in range(2, 150)), {"a": 1, "b": 1}),
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


def nest(call, depth, inner="s"):
    """Put a call around a call around ... an expression."""
    for _ in range(depth):
        inner = call.format(inner)
    return inner


# What each of these would do on one row with a long cell, or with many rows of one user, it does not do on the others.
GROWING = [
    nest("replace({}, 'a', 'aaaaaaaaaa')", 9),
    nest("regexp_replace({}, '.', 'aaaaaaaaaa', 'g')", 9),
    nest("repeat({}, 10)", 9),
    nest("lpad({}, 1000000000, 'a')", 1),
    nest("rpad({}, 1000000000, 'a')", 1),
    nest("format('{{}}{{}}', {0}, {0})", 5),
    nest("printf('%s%s', {0}, {0})", 5),
    nest("concat_ws({}, '', '', '', '', '', '', '', '', '', '', '')", 9),
    nest(
        "nfc_normalize(translate({}, '\U0001d158\U0001d165\U0001d16ea', '\U0001d160\U0001d160\U0001d160\U0001d160'))", 9
    ),
    nest("strftime(DATE '2020-01-01', translate({}, 'Wed', '%A%'))", 9),
    nest("CAST(CAST(CAST({} AS BLOB) AS BIT) AS VARCHAR)", 9),
    nest("CAST(json_extract_string({}, '$..*') AS VARCHAR)", 2),
    nest("CAST({} ->> '$[*]' AS VARCHAR)", 9),
    nest("json_extract_string(s, {})", 1),
    nest("CAST(CAST({} AS INTEGER[100000]) AS VARCHAR)", 1),
    nest("CAST(CAST({} AS STRUCT(a VARCHAR, b VARCHAR)) AS VARCHAR)", 1),
    nest("CAST(CAST({} AS JSON) AS VARCHAR)", 1),
    nest("CAST(CAST({} AS BIGNUM) AS VARCHAR)", 1),
    nest("CAST(CAST({} AS main.text) AS VARCHAR)", 1),
    nest("CAST([{0}, {0}] AS VARCHAR)", 1),
    nest("CAST(range(1000000000) AS VARCHAR) || {}", 1),
    nest("CAST(factorial(length({})) AS VARCHAR)", 1),
    nest("to_json({})", 9),
    nest("hex({})", 9),
    nest("bin({})", 9),
    nest("url_encode({})", 9),
    nest("bar(length({}), 0, 1, 1000000)", 1),
    nest("CAST(string_split({}, '') AS VARCHAR)", 1),
    nest("concat({0}, {0})", 4),
    nest("({0} || {0})", 4),
    "concat(" + ", ".join(["s"] * 11) + ")",
    " || ".join(["s"] * 11),
    nest("lower({})", 50),
    "s /* " + "a" * 2000 + " */",
]


@pytest.mark.parametrize("text", GROWING)
def test_what_could_grow_out_of_memory_is_refused_before_a_row_is_read(text):
    where = f"CASE WHEN u = 9 THEN length({text}) > 0 ELSE TRUE END"
    for source in (LOG, LOG.slice(0, 0)):
        with pytest.raises(WhereError) as caught:
            check(source, user="u", item="i", where=where)
        assert all((caught.value.rule, caught.value.value, caught.value.way_out))
        assert "types of the columns" not in caught.value.rule


@pytest.mark.parametrize(
    "where",
    [
        "s LIKE i",
        "s NOT LIKE '%' || i",
        "s ILIKE i",
        "s NOT ILIKE i",
        "s GLOB i",
        "s ~ i",
        "s SIMILAR TO i",
        "regexp_matches(s, i)",
        "regexp_extract(s, 'a', u) = 'a'",
        "regexp_matches(s, 'a{1001}')",
        "regexp_matches(s, '((a{11}){1,11}){11}')",
        "regexp_matches(s, '(a{900,}){2}')",
        "strftime(d, s) = 'a'",
        "strftime('%A', d) = 'a' AND strftime(s, d) = 'a'",
        "try_strptime(s, i) IS NULL",
        "(s ->> i) = 'a'",
        "json_exists(s, i)",
        "json_type(s, '$.*') IS NULL",
    ],
)
def test_patterns_are_small_constants(where):
    with pytest.raises(WhereError, match=r"constant|multiplied|wildcards"):
        counts(where)


@pytest.mark.parametrize(
    ("where", "rule", "value"),
    [
        ("u = 1" + " " * 1996, "at most 2000 characters", "2001"),
        ("NOT " * 50 + "TRUE", "at most 50 levels of nesting", "51"),
        (" || ".join("s" * 11) + " = 'a'", "at most 10 texts joined", "11"),
    ],
)
def test_bounds_are_public_numbers(where, rule, value):
    with pytest.raises(WhereError, match=rule) as caught:
        counts(where)
    assert caught.value.value == value
    assert "filter the log" in caught.value.way_out


def fitting_calls(table, words, operators=None, use="{0}"):
    """List the calls of each function on the list, with any of these arguments, that fit the types of a table's columns.

    Most do not, and nothing is to be seen of those: a plain DuckDB without optimizers says so sooner than an engine would.
    """
    with duckdb.connect() as plain:
        plain.execute(
            f"PRAGMA disable_optimizer; CREATE TABLE blank ({table}); CREATE TABLE sizes AS FROM duckdb_functions()"
        )
        taken = "SELECT DISTINCT length(parameters), varargs IS NOT NULL FROM sizes WHERE function_name = ?"
        for name in sorted(FUNCTIONS):
            word, sizes = name[0].isalpha(), plain.execute(taken, [name]).fetchall()
            for arguments in words if word else operators or words:
                size = len(arguments)
                if word and not any(n == size or (n < size and more) for n, more in sizes):
                    continue  # it never takes so many
                call = f"{name}({', '.join(arguments)})" if word else f" {name} ".join(["", *arguments][-2:])
                try:
                    plain.execute(f"SELECT {use.format(call)} FROM blank")
                except duckdb.Error:
                    continue
                yield call, arguments


def test_no_function_gives_more_characters_than_it_is_given():
    # By induction, no nest of functions does; a hash has 64, and a number, date or interval fewer than 100.
    with Engine(row_local=True) as engine:
        engine.run("CREATE TABLE long (s VARCHAR, n INTEGER, d DATE)")
        for cell in ("a", "\\", "%A", "\U0001d160", "ﬃ", "İ", "\x01", '"', "[", '{"a":'):
            for number in (-1, 1, 1000000000):
                engine.run(f"INSERT INTO long VALUES (repeat($1, 2000), {number}, '2020-09-30')", [cell])
        any_two = itertools.product(["s", "n", "d", "'a'", "'%A'", "'$'", "'year'", "7"], repeat=2)
        up_to_two = [("s",), *(two for two in any_two if "s" in two)]
        any_three = itertools.product(["s"], ["s", "'a'", "7"], ["s", "'a'", "7"])
        ran = 0
        for call, arguments in fitting_calls("s VARCHAR, n INTEGER, d DATE", [*up_to_two, *any_three], up_to_two):
            try:
                parse_where(engine, call)
            except WhereError:
                continue
            given = " + ".join(f"length(CAST({argument} AS VARCHAR))" for argument in arguments)
            worst = f"max(TRY(length(CAST({call} AS VARCHAR))) - ({given}))"
            ((more,),) = engine.rows(f"SELECT {worst} FROM long")
            assert more is None or more <= 100, call
            ran += 1
        assert ran > 250


def test_no_function_makes_one_character_into_two():
    letters = "(SELECT chr(CAST(i AS INTEGER)) AS c FROM range(1, 1114112) t(i) WHERE i NOT BETWEEN 55296 AND 57343)"
    with Engine(row_local=True) as engine:
        for name in ("lower", "upper", "strip_accents", "reverse", "trim"):
            assert name in FUNCTIONS
            assert engine.rows(f"SELECT max(length({name}(c))) FROM {letters}") == [(1,)]
        assert engine.rows(f"SELECT max(length(nfc_normalize(c))) FROM {letters}") == [(3,)]
    assert "nfc_normalize" not in FUNCTIONS


LONG = ["a" * 10**5, "[" * 10**5, "\U0001d160" * 10**4, '["' + "\\u0001" * 10**4 + '"]', "%A" * 10**4]


@pytest.mark.parametrize(
    "text",
    [
        "s",
        nest("lower(upper(reverse({})))", 15),
        " || ".join(["s"] * 10),
        nest("lower({})", 40, "concat(" + ", ".join(["s"] * 10) + ")"),
        nest("translate({}, 'a', '\U0001d160')", 20),
        nest("json_extract_string({}, '$')", 20),
        nest("CASE WHEN u = 'zoe' THEN strip_accents({}) ELSE s END", 15),
        "regexp_extract(s, '(a{1,30}){1,30}')",
        "sha256(s)",
        "CAST(TRY_CAST(s AS DECIMAL(38, 10)) AS VARCHAR)",
    ],
)
def test_one_row_with_long_cells_changes_no_other_item(text):
    few = pa.table({"u": ["ann", "bob", "ann"], "i": ["a", "a", "b"], "s": ["x", "y", None]})
    logs = [few, *(pa.concat_tables([few, pa.table({"u": ["zoe"], "i": ["z"], "s": [cell]})]) for cell in LONG)]
    where = f"coalesce(length({text}) >= 0, TRUE) OR s LIKE '%a%_a%b'"
    without, *beside = (counts(where, log, memory_limit="50MB") for log in logs)
    assert without["b"] == 1
    for named in beside:
        named.pop("z", None)
        assert named == without


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
    columns = ["i", "b", "f", "s", "d", "t", "h", "c"]
    kinds = "i INTEGER, b BIGINT, f DOUBLE, s VARCHAR, d DATE, t TIMESTAMP, h HUGEINT, c DECIMAL(38, 5)"
    with Engine(row_local=True) as engine:
        engine.run(f"CREATE TABLE nasty ({kinds})")
        widest, decimal = 2**127 - 1, "9" * 33 + ".99999"
        engine.run(
            "INSERT INTO nasty VALUES (0, 0, 'nan', '', '2020-01-01', '2020-01-01', 0, 0), "
            f"({', '.join(['NULL'] * len(columns))})"
        )
        engine.run(
            "INSERT INTO nasty VALUES (-2147483648, -9223372036854775808, '-inf', '(\\', 'infinity', 'infinity', "
            f"{-widest}, -{decimal})"
        )
        engine.run(
            "INSERT INTO nasty VALUES (2147483647, 9223372036854775807, 1e308, '$[*', '5874897-12-31', '294247-01-10', "
            f"{widest}, {decimal})"
        )
        ran = 0
        one_or_two = [*itertools.product(columns, repeat=1), *itertools.product(columns, repeat=2)]
        use = "TRY(({0}) IS NULL OR ({0}) = ({0}))"
        for call, _ in fitting_calls(kinds, one_or_two, use=use):
            assert len(engine.rows(f"SELECT {use.format(call)} FROM nasty")) == 4
            ran += 1
        assert ran > 800


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
