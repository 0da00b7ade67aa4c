r"""A DataFrame of Spark, counted where its rows are.

Only SQL functions that cannot fail on a row are used, with or without ANSI mode. Columns are renamed by position, so that
no name of the caller's reaches SQL. What comes back is the top ``max_k + 1`` items of each group, or one count per
candidate of the caller's own list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cutline.counting.engines.duck.columns import check_names
from cutline.counting.engines.remote import counted_table, listed_values, refuse_local_options, refuse_type, silently
from cutline.counting.question import Grouping, Question
from cutline.errors import SourceError

_BROADCAST = 10**6  # a list below this many values is sent to every executor
_TYPES = {
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp_ntz": "TIMESTAMP",
    "timestamp": "VARCHAR",
    "void": "VARCHAR",
}
_KNOWN = "text of binary collation, numbers, dates, moments or truth values"
_DAY = 86_400_000_000  # in microseconds
_FIRST, _END = -719_162, 2_932_897  # the days of Python's calendar, 0001-01-01 to 9999-12-31, from 1970 on


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """A Spark DataFrame."""

    frame: Any

    def check(self, question: Question) -> None:
        """Bind the question to the DataFrame's schema; nothing is run."""
        silently("Spark", lambda: self._bind(question))

    def top(self, question: Question, *, max_k: int) -> list[tuple[Any, ...]]:
        """Return rows (group, item, count): the top ``max_k + 1`` of each group, in order."""
        return silently("Spark", lambda: self._top(question, max_k))

    def tally(self, question: Question) -> tuple[Any, Any]:
        """Return the candidates' own order and their positive counts."""
        return silently("Spark", lambda: self._tally(question))

    def _top(self, question: Question, max_k: int) -> list[tuple[Any, ...]]:
        votes, _ = self._bind(question)
        if question.grouping is None:
            tally = votes.distinct().groupBy("i").count().toDF("i", "n")
            best = tally.orderBy(tally["n"].desc(), tally["i"].asc()).limit(max_k + 1)
            rows = [(0, item, n) for item, n in best.collect()]
        else:
            tally = _bounded(votes, question.grouping).groupBy("g", "i").count().toDF("g", "i", "n")
            ranked = tally.selectExpr("*", "row_number() OVER (PARTITION BY g ORDER BY n DESC, i) AS place")
            best = ranked.where(f"place <= {max_k + 1}").select("g", "i", "n", "place")
            rows = [tuple(row)[:3] for row in sorted(best.collect(), key=lambda row: (row["g"], row["place"]))]
        _finish(question)
        return rows

    def _tally(self, question: Question) -> tuple[Any, Any]:
        votes, order = self._bind(question)
        if question.grouping is None:
            tally = votes.distinct().groupBy("i").count().selectExpr("0 AS g", "i", "count AS n")
        else:
            tally = _bounded(votes, question.grouping).groupBy("g", "i").count().toDF("g", "i", "n")
        counted = counted_table(tally.collect())
        _finish(question)
        return order, counted

    def _bind(self, question: Question) -> tuple[Any, Any]:
        """Return the DataFrame ``(u, i)`` or ``(u, i, g)`` of rows that count, and the candidates' own order.

        With candidates, ``i`` is the place in their list.
        """
        refuse_local_options(question, engine="Spark")
        if self.frame.isStreaming:
            raise SourceError(
                "a log must have an end", "a streaming DataFrame", "Pass a DataFrame that is not streaming."
            )
        check_names(question.columns, list(self.frame.columns))
        fields = {
            field.name: (f"c{i}", field.dataType.simpleString()) for i, field in enumerate(self.frame.schema.fields)
        }
        named = self.frame.toDF(*(f"c{i}" for i in range(len(self.frame.columns))))
        users, _, _ = _plain("user", question.user, *fields[question.user])
        items, declared, carrier = _plain("item", question.item, *fields[question.item])
        if question.candidates is None and declared == "VARCHAR":
            items = f"CASE WHEN {valid_text(self.frame.sparkSession.version).format(items)} THEN {items} END"
        values = [f"{users} AS u", f"{items} AS i"]
        grouping, order = question.grouping, None
        if grouping is not None:
            groups, group_type, group_carrier = _plain("by", grouping.column, *fields[grouping.column])
            values.append(f"{groups} AS b")
        votes = named.selectExpr(*values).where("u IS NOT NULL AND i IS NOT NULL")
        session = self.frame.sparkSession
        if question.candidates is not None:
            rows, order = listed_values("candidates", question.candidates, column=question.item, declared=declared)
            listed = _list(session, rows, f"place int, i {carrier}")
            votes = votes.join(listed, "i").drop("i").withColumnRenamed("place", "i")
        if grouping is not None:
            rows, _ = listed_values("groups", grouping.groups, column=grouping.column, declared=group_type)
            votes = votes.join(_list(session, rows, f"g int, b {group_carrier}"), "b").select("u", "i", "g")
        return votes, order


def _bounded(votes: Any, grouping: Grouping) -> Any:
    """Return distinct rows (u, i, g), of each user's own first groups only."""
    distinct = votes.distinct()
    if grouping.limit is None:
        return distinct
    salts = _list(votes.sparkSession, list(enumerate(grouping.salts)), "g int, salt string")
    # dense_rank counts a user's groups, not rows, so one shuffle by user is enough and the log is read once.
    chance = "substring(sha2(concat(salt, CAST(u AS STRING)), 256), 1, 12)"
    ranked = distinct.join(salts, "g").selectExpr("u", "i", "g", f"{chance} AS chance")
    ranked = ranked.selectExpr("u", "i", "g", "dense_rank() OVER (PARTITION BY u ORDER BY chance, g) AS place")
    return ranked.where(f"place <= {grouping.limit}").select("u", "i", "g")


def _list(session: Any, rows: Sequence[tuple[Any, ...]], schema: str) -> Any:
    frame = session.createDataFrame(list(rows), schema)
    return frame.hint("broadcast") if len(rows) < _BROADCAST else frame


def _plain(role: str, name: str, column: str, declared: str) -> tuple[str, str, str]:
    """Return the SQL of a column with NaN and dates beyond Python's as missing, its type in DuckDB, and that in Spark."""
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", declared)
    kind = f"DECIMAL({decimal[1]},{decimal[2]})" if decimal else _TYPES.get(declared)
    if kind is None:
        raise refuse_type(role, name, declared, known=_KNOWN)
    if kind in ("FLOAT", "DOUBLE"):
        return (
            f"CASE WHEN isnan({column}) THEN NULL WHEN {column} = 0 THEN CAST(0 AS {declared}) ELSE {column} END",
            kind,
            declared,
        )
    if declared == "date":
        return (
            f"CASE WHEN unix_date({column}) >= {_FIRST} AND unix_date({column}) < {_END} THEN {column} END",
            kind,
            declared,
        )
    if declared == "timestamp_ntz":
        low, high = "TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"
        return f"CASE WHEN {column} >= {low} AND {column} <= {high} THEN {column} END", kind, declared
    if declared == "timestamp":
        return _moment(column), kind, "string"
    if declared == "void":
        return f"CAST({column} AS STRING)", kind, "string"
    return column, kind, declared


def valid_text(version: str) -> str:
    """Return the SQL of whether a text is UTF-8, which Spark does not check; what is not comes back under one name for many.

    Up to version 3, encoding goes through Java's text and changes what is broken; from 4 on there is a function for it.
    """
    old = int(version.partition(".")[0]) < 4
    return "encode({0}, 'UTF-8') = CAST({0} AS BINARY)" if old else "is_valid_utf8({0})"


def _moment(column: str) -> str:
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


def _finish(question: Question) -> None:
    if question.progress is not None:
        question.progress(1.0)
