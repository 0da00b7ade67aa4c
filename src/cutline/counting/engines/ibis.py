r"""A table of Ibis, counted by the backend it belongs to.

Backends differ in how they compare text. Text is counted only on those known to compare it byte by byte; on any other,
users, items and groups must be whole numbers. A table of the Polars backend is a frame of this process, and is counted as
one.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cutline.counting.engines.duck.columns import check_names
from cutline.counting.engines.remote import counted_table, listed_values, refuse_local_options, refuse_type, silently
from cutline.counting.question import Grouping, Question
from cutline.errors import ParameterError, SourceError

_WHOLE = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
}
_SIMPLE = _WHOLE | {"string": "VARCHAR", "boolean": "BOOLEAN", "float32": "FLOAT", "float64": "DOUBLE"}
# What has been tried. An unknown backend may fold case, order by language, or round.
_TRIED = {
    "duckdb": _SIMPLE | {"date": "DATE", "decimal": "DECIMAL"},
    "pyspark": _SIMPLE | {"date": "DATE", "decimal": "DECIMAL"},
    "sqlite": _SIMPLE,
}
_STORED = {"string": ("text",), "boolean": ("integer",), "float32": ("real",), "float64": ("real",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Warehouse:
    """An Ibis table and the name of its backend."""

    table: Any
    backend: str

    def check(self, question: Question) -> None:
        """Bind the question to the table's schema; nothing is run."""
        silently("the backend", lambda: self._bind(question))

    def top(self, question: Question, *, max_k: int) -> list[tuple[Any, ...]]:
        """Return rows (group, item, count): the top ``max_k + 1`` of each group, in order."""
        return silently("the backend", lambda: self._top(question, max_k))

    def tally(self, question: Question) -> tuple[Any, Any]:
        """Return the candidates' own order and their positive counts."""
        return silently("the backend", lambda: self._tally(question))

    def _top(self, question: Question, max_k: int) -> list[tuple[Any, ...]]:
        import ibis

        votes, _ = self._bind(question)
        tally = self._counted(votes, question.grouping)
        order = [ibis.desc("n"), ibis.asc("i")]
        if question.grouping is None:
            best = tally.order_by(order).limit(max_k + 1)
        else:
            place = ibis.row_number().over(ibis.window(group_by="g", order_by=order))
            best = tally.mutate(place=place).filter(lambda t: t.place <= max_k).order_by([ibis.asc("g"), *order])
        rows = best.select("g", "i", "n").to_pyarrow().to_pylist()
        _finish(question)
        return [(row["g"], row["i"], row["n"]) for row in rows]

    def _tally(self, question: Question) -> tuple[Any, Any]:
        votes, order = self._bind(question)
        answer = self._counted(votes, question.grouping).select("g", "i", "n").to_pyarrow()
        counted = counted_table([(row["g"], row["i"], row["n"]) for row in answer.to_pylist()])
        _finish(question)
        return order, counted

    def _counted(self, votes: Any, grouping: Grouping | None) -> Any:
        import ibis

        distinct = votes.distinct()
        if grouping is None:
            return distinct.group_by("i").aggregate(n=distinct.count()).mutate(g=ibis.literal(0, "int32"))
        if grouping.limit is not None:
            salts = _list(list(enumerate(grouping.salts)), "g", "salt", "string")
            salted = distinct.join(salts, "g")
            salted = salted.mutate(chance=self._hash(salted.salt + _text(salted.u)).substr(0, 12))
            place = ibis.dense_rank().over(ibis.window(group_by="u", order_by=["chance", "g"]))
            distinct = salted.mutate(place=place).filter(lambda t: t.place < grouping.limit).select("u", "i", "g")
        return distinct.group_by(["g", "i"]).aggregate(n=lambda t: t.count())

    def _hash(self, text: Any) -> Any:
        """Return SHA-256 in hexadecimal; SQLite has none, but runs functions of this process."""
        import ibis

        if self.backend != "sqlite":
            return text.hexdigest("sha256")

        @ibis.udf.scalar.python(name="cutline_sha256", signature=(("string",), "string"))
        def digest(value):  # type: ignore[no-untyped-def]
            return None if value is None else hashlib.sha256(value.encode()).hexdigest()

        return digest(text)

    def _bind(self, question: Question) -> tuple[Any, Any]:
        """Return the table ``(u, i)`` or ``(u, i, g)`` of rows that count, and the candidates' own order.

        With candidates, ``i`` is the place in their list.
        """
        refuse_local_options(question, engine="the backend")
        grouping, order = question.grouping, None
        if grouping is not None and grouping.limit is not None and self.backend not in _TRIED:
            raise ParameterError(
                "max_groups_per_user needs a backend whose hash function is known",
                repr(self.backend),
                f"Leave it out, or use one of {', '.join(sorted(_TRIED))}.",
            )
        check_names(question.columns, list(self.table.columns))
        users, _ = self._plain("user", question.user)
        items, declared = self._plain("item", question.item)
        values = {"u": users, "i": items}
        if grouping is not None:
            values["b"], group_type = self._plain("by", grouping.column)
        votes = self.table.select(**values).filter(lambda t: t.u.notnull() & t.i.notnull())
        if question.candidates is not None:
            rows, order = listed_values("candidates", question.candidates, column=question.item, declared=declared)
            votes = votes.join(_list(rows, "place", "i", items.type()), "i").drop("i").rename(i="place")
        if grouping is not None:
            rows, _ = listed_values("groups", grouping.groups, column=grouping.column, declared=group_type)
            votes = votes.join(_list(rows, "g", "b", values["b"].type()), "b")
        return votes.select("u", "i", *(() if grouping is None else ("g",))), order

    def _plain(self, role: str, name: str) -> tuple[Any, str]:
        """Return a column with NaN and dates beyond Python's as missing, and its type in DuckDB."""
        import ibis

        column = self.table[name]
        declared = str(column.type().copy(nullable=True))
        known = _TRIED.get(self.backend, _WHOLE)
        family = "decimal" if declared.startswith("decimal(") else declared
        kind = known.get(family)
        if kind == "DECIMAL":
            precision, scale = column.type().precision, column.type().scale
            kind = None if precision is None or scale is None else f"DECIMAL({precision},{scale})"
        if kind is None:
            names = ", ".join(sorted(known))
            raise refuse_type(role, name, declared, known=f"one of {names} on the backend {self.backend}")
        missing = ibis.null(column.type().copy(nullable=True))
        if self.backend == "sqlite":
            column = _as_declared(column, declared)
        elif self.backend == "duckdb" and declared == "string":
            column = self._uncollated(column)
        elif self.backend == "pyspark" and declared == "string":
            column = _valid(column, version=self.table.get_backend().version).ifelse(column, missing)
        elif self.backend == "duckdb" and declared.startswith("float"):
            # Asked by its text: from parquet statistics, which leave NaN out, DuckDB concludes that isnan() is false.
            column = column.cast("string").contains("nan").ifelse(missing, column)
        elif declared.startswith("float"):
            column = column.isnan().ifelse(missing, column)
        if declared.startswith("float"):
            column = (column == 0).ifelse(ibis.literal(0.0).cast(declared), column)
        if declared == "date":
            within = (column >= ibis.date("0001-01-01")) & (column <= ibis.date("9999-12-31"))
            column = within.ifelse(column, missing)
        return column, kind

    def _uncollated(self, column: Any) -> Any:
        """Drop a collation that DuckDB's column may have; with it, whose row came first would name everybody's items."""
        import ibis

        ((collation,),) = self.table.get_backend().raw_sql("SELECT current_setting('default_collation')").fetchall()
        if collation.lower() not in ("", "binary", "c", "posix"):
            raise ParameterError(
                "text is compared byte by byte", f"default_collation={collation!r}", "RESET default_collation first."
            )

        @ibis.udf.scalar.builtin(name="encode", signature=(("string",), "binary"))
        def encoded(value): ...  # type: ignore[no-untyped-def]

        @ibis.udf.scalar.builtin(name="decode", signature=(("binary",), "string"))
        def decoded(value): ...  # type: ignore[no-untyped-def]

        return decoded(encoded(column))


def warehouse_of(table: Any) -> Warehouse:
    """Find the backend of an Ibis table, or refuse one that has none."""
    with suppress(Exception):  # several backends, or none
        return Warehouse(table=table, backend=table.get_backend().name)
    raise SourceError("an Ibis table must belong to one backend", "another number", "Take it from one connection.")


def _as_declared(column: Any, declared: str) -> Any:
    """Drop cells of another type than declared, which SQLite lets into any column, and a collation the column may have."""
    import ibis

    kept = column.typeof().isin(_STORED.get(declared, ("integer",)))
    if declared == "boolean":
        kept &= column.cast("int64").isin((0, 1))
    elif declared in _WHOLE and declared != "int64":  # a wider number would come back as another one
        bounds = column.type().bounds
        exact = column.cast("int64")
        kept &= (exact >= bounds.lower) & (exact <= min(bounds.upper, 2**63 - 1))
    elif declared == "string":
        column = _decoded(column)
    return kept.ifelse(column, ibis.null(declared))


def _decoded(column: Any) -> Any:
    """Read SQLite's text as UTF-8, with what is none as missing: SQLite checks nothing, and fetching such a cell fails."""
    import ibis

    @ibis.udf.scalar.python(name="cutline_text", signature=(("binary",), "string"))
    def decoded(value):  # type: ignore[no-untyped-def]
        try:
            return None if value is None else value.decode()
        except (UnicodeDecodeError, AttributeError):
            return None

    return decoded(column.cast("binary"))


def _valid(column: Any, *, version: str) -> Any:
    """Ask Spark whether a text is UTF-8; see ``spark.valid_text``."""
    import ibis

    @ibis.udf.scalar.builtin(name="is_valid_utf8", signature=(("string",), "boolean"))
    def valid(value): ...  # type: ignore[no-untyped-def]

    @ibis.udf.scalar.builtin(name="encode", signature=(("string", "string"), "binary"))
    def encoded(value, charset): ...  # type: ignore[no-untyped-def]

    old = int(version.partition(".")[0]) < 4
    return encoded(column, "UTF-8") == column.cast("binary") if old else valid(column)


def _text(users: Any) -> Any:
    if users.type().is_boolean():
        return users.ifelse("true", "false")
    return users if users.type().is_string() else users.cast("string")


def _list(rows: list[tuple[int, Any]], place: str, value: str, kind: Any) -> Any:
    import ibis

    columns = {place: [row[0] for row in rows], value: [row[1] for row in rows]}
    return ibis.memtable(columns, schema={place: "int32", value: kind})


def _finish(question: Question) -> None:
    if question.progress is not None:
        question.progress(1.0)
