r"""A DataFrame of Spark, counted where its rows are.

Only SQL functions that cannot fail on a row are used, with or without ANSI mode. Columns are renamed by position, so that
no name of the caller's reaches SQL. What comes back is the top ``max_k + 1`` items of each group, or one count per
candidate of the caller's own list; with a bound on items per user how many items have which count, and then the names that are
asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from cutline.counting.engines.remote import RemoteKept, RemoteVotes, bind_columns, refuse_type, silently
from cutline.counting.question import DIGITS, PRIME, QUERY_NAMES, SALTS, Grouping, Question, vote_limits
from cutline.errors import SourceError

_BROADCAST = 10**6  # a list below this many values is sent to every executor
_SAME = ("boolean", "tinyint", "smallint", "bigint", "float", "double", "date")  # as in DuckDB
_TYPES = {name: name.upper() for name in _SAME} | {"int": "INTEGER", "timestamp_ntz": "TIMESTAMP"}
_TYPES |= dict.fromkeys(("string", "timestamp", "void"), "VARCHAR")
_KNOWN = "text of binary collation, numbers, dates, moments or truth values"
_DAY = 86_400_000_000  # in microseconds
_FIRST, _END = -719_162, 2_932_897  # the days of Python's calendar, 0001-01-01 to 9999-12-31, from 1970 on


class SparkVotes(RemoteVotes):
    """The rows of a Spark DataFrame that count."""

    __slots__ = ()
    engine = "Spark"

    def _fetch_top(self, max_k: int) -> list[tuple[Any, ...]]:
        counts = self._count()
        if self.grouping is None:
            best = counts.orderBy(counts["n"].desc(), counts["i"].asc()).limit(max_k + 1)
            return [tuple(row) for row in best.collect()]
        ranked = counts.selectExpr("*", "row_number() OVER (PARTITION BY g ORDER BY n DESC, i) AS place")
        best = ranked.where(f"place <= {max_k + 1}").select("g", "i", "n", "place")
        return [tuple(row)[:3] for row in sorted(best.collect(), key=lambda row: (row["g"], row["place"]))]

    def _fetch_counts(self) -> Sequence[Sequence[Any]]:
        counts: list[Sequence[Any]] = self._count().collect()
        return counts

    def _fetch_bounded(self) -> SparkKept:
        counted = self._weigh().groupBy("g", "i").agg({"weight": "sum", "u": "count"})
        counted = counted.selectExpr("g", "i", "`sum(weight)` AS h", "`count(u)` AS n").where("h > 0")
        return keep_frame(counted)

    def _count(self) -> Any:
        """Return the query (g, i, n) of distinct users."""
        return self._list_distinct().groupBy("g", "i").count().toDF("g", "i", "n")

    def _list_distinct(self) -> Any:
        """Return the distinct votes (u, i, g); without groups, g is 0."""
        distinct = self.votes.distinct()
        if self.grouping is None:
            return distinct.selectExpr("u", "i", "0 AS g")
        return _keep_first_groups(distinct, self.grouping)

    def _weigh(self) -> Any:
        """Return the distinct votes with their weights.

        Hashing the items of users above the bound pair by pair is cheaper than a join, in which the rows of a frequent item
        would meet in one task.
        """
        bound = self.bound or 1
        sized = self._list_distinct().selectExpr("*", "count(*) OVER (PARTITION BY u, g) AS size")
        if self.parts > 1:
            limits = vote_limits(bound, self.parts)
            return sized.selectExpr(
                "*", " + ".join(f"CAST(size <= {limit} AS BIGINT)" for limit in limits) + " AS weight"
            )
        for value in ("u", "i"):
            digest = f"sha2(concat('{SALTS[value]}', CAST({value} AS STRING)), 256)"
            sized = sized.selectExpr("*", f"CASE WHEN size > {bound} THEN {digest} END AS {value}_digest")
        sums = " * ".join(f"({_number('i_digest', start)} + {_number('u_digest', start)})" for start in (1, 1 + DIGITS))
        placed = sized.selectExpr("*", f"{sums} % {PRIME}L AS chance")
        placed = placed.selectExpr("*", "row_number() OVER (PARTITION BY u, g ORDER BY chance, i) AS place")
        return placed.selectExpr("u", "i", "g", f"CAST(place <= {bound} AS BIGINT) AS weight")


class SparkKept(RemoteKept):
    """Counts that stay on Spark's executors."""

    __slots__ = ()

    def _fetch_tally(self) -> Sequence[Sequence[Any]]:
        rows: list[Sequence[Any]] = self.counted.groupBy("g", "h").count().collect()
        return rows

    def _fetch_items(self, group: int, wanted: Sequence[tuple[int, int]]) -> Sequence[Sequence[Any]]:
        listed = _make_frame(self.counted.sparkSession, wanted, "h bigint, place bigint")
        near = self.counted.where(f"g = {group}").join(listed.select("h").distinct(), "h", "left_semi")
        place = "CAST(row_number() OVER (PARTITION BY h ORDER BY i) - 1 AS BIGINT) AS place"
        found = near.selectExpr("h", "i", "n", place).join(listed, ["h", "place"])
        rows: list[Sequence[Any]] = found.select("h", "place", "i", "n").collect()
        return rows


def keep_frame(counted: Any) -> SparkKept:
    """Count now, and keep the counts: a frame that is only cached may be evicted, and made again from other rows."""
    return SparkKept(counted=counted.select("g", "i", "h", "n").localCheckpoint(), engine=SparkVotes.engine)


def _number(digest: str, start: int) -> str:
    return f"CAST(conv(substring({digest}, {start}, {DIGITS}), 16, 10) AS BIGINT)"


def bind_frame(frame: Any, question: Question) -> SparkVotes:
    """Bind a question to the schema of a Spark DataFrame, or refuse it; nothing is run."""
    return silently(SparkVotes.engine, lambda: _bind(frame, question))


def _bind(frame: Any, question: Question) -> SparkVotes:
    if frame.isStreaming:
        raise SourceError("a log must have an end", "a streaming DataFrame", "Pass a DataFrame that is not streaming.")
    session = frame.sparkSession
    fields = {field.name: (f"c{i}", field.dataType.simpleString()) for i, field in enumerate(frame.schema.fields)}

    def plain_value(role: str, name: str) -> tuple[str, str]:
        sql, kind = _plain_value(role, name, *fields[name])
        if role == "item" and question.candidates is None and kind == "VARCHAR":
            sql = f"CASE WHEN {_valid_text(session.version).format(sql)} THEN {sql} END"
        return sql, kind

    bound = bind_columns(question, list(frame.columns), plain_value, engine=SparkVotes.engine)
    named = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    votes = named.selectExpr(*(f"{sql} AS {QUERY_NAMES[role]}" for role, sql in bound.values.items()))
    types = dict(votes.dtypes)
    votes = votes.where("u IS NOT NULL AND i IS NOT NULL")
    if bound.candidates is not None:
        listed = _make_frame(session, bound.candidates, f"place int, i {types['i']}")
        votes = votes.join(listed, "i").drop("i").withColumnRenamed("place", "i")
    if bound.groups is not None:
        votes = votes.join(_make_frame(session, bound.groups, f"g int, b {types['b']}"), "b").select("u", "i", "g")
    return SparkVotes(
        votes=votes,
        order=bound.order,
        grouping=question.grouping,
        bound=question.max_items_per_user,
        parts=question.vote_parts or 1,
    )


def _keep_first_groups(distinct: Any, grouping: Grouping) -> Any:
    """Return the distinct rows (u, i, g) of each user's own first groups only."""
    if grouping.limit is None:
        return distinct
    salts = _make_frame(distinct.sparkSession, list(enumerate(grouping.salts)), "g int, salt string")
    # dense_rank counts a user's groups, not rows, so one shuffle by user is enough and the log is read once.
    chance = "substring(sha2(concat(salt, CAST(u AS STRING)), 256), 1, 12)"
    ranked = distinct.join(salts, "g").selectExpr("u", "i", "g", f"{chance} AS chance")
    ranked = ranked.selectExpr("u", "i", "g", "dense_rank() OVER (PARTITION BY u ORDER BY chance, g) AS place")
    return ranked.where(f"place <= {grouping.limit}").select("u", "i", "g")


def _make_frame(session: Any, rows: Sequence[tuple[Any, ...]], schema: str) -> Any:
    frame = session.createDataFrame(list(rows), schema)
    return frame.hint("broadcast") if len(rows) < _BROADCAST else frame


def _plain_value(role: str, name: str, column: str, declared: str) -> tuple[str, str]:
    """Return the SQL of a column, with NaN and dates beyond Python's as missing, and its type in DuckDB."""
    kind = declared.upper() if re.fullmatch(r"decimal\(\d+,\d+\)", declared) else _TYPES.get(declared)
    if kind is None:
        raise refuse_type(role, name, declared, known=_KNOWN)
    if kind in ("FLOAT", "DOUBLE"):
        zero = f"WHEN {column} = 0 THEN CAST(0 AS {declared})"
        return f"CASE WHEN isnan({column}) THEN NULL {zero} ELSE {column} END", kind
    if declared == "date":
        return f"CASE WHEN unix_date({column}) >= {_FIRST} AND unix_date({column}) < {_END} THEN {column} END", kind
    if declared == "timestamp_ntz":
        low, high = "TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"
        return f"CASE WHEN {column} >= {low} AND {column} <= {high} THEN {column} END", kind
    if declared == "timestamp":
        return _moment_text(column), kind
    return (f"CAST({column} AS STRING)" if declared == "void" else column), kind


def _valid_text(version: str) -> str:
    """Return the SQL of whether a text is UTF-8, which Spark does not check; what is not comes back under one name for many.

    Up to version 3, encoding goes through Java's text and changes what is broken; from 4 on there is a function for it.
    """
    old = int(version.partition(".")[0]) < 4
    return "encode({0}, 'UTF-8') = CAST({0} AS BINARY)" if old else "is_valid_utf8({0})"


def _moment_text(column: str) -> str:
    """Return the SQL of a moment's text in UTC, as DuckDB writes it, whatever the session's time zone."""
    exact = f"unix_micros({column})"
    known = f"(CASE WHEN {exact} >= {_FIRST * _DAY}L AND {exact} < {_END * _DAY}L THEN {exact} END)"
    of_day, second = f"pmod({known}, {_DAY}L)", f"(pmod({known}, {_DAY}L) div 1000000L)"
    day = f"date_add(DATE'1970-01-01', CAST(({known} - {of_day}) div {_DAY}L AS INT))"
    clock = ", ':', ".join(
        f"lpad(CAST({part} AS STRING), 2, '0')"
        for part in (f"{second} div 3600", f"{second} div 60 % 60", f"{second} % 60")
    )
    rest = f"pmod({known}, 1000000L)"
    fraction = f"CASE WHEN {rest} = 0 THEN '' ELSE concat('.', rtrim('0', lpad(CAST({rest} AS STRING), 6, '0'))) END"
    return f"concat(CAST({day} AS STRING), ' ', {clock}, {fraction}, '+00')"
