r"""A table of Ibis, counted by the backend it belongs to.

Backends differ in how they compare text. Text is counted only on those known to compare it byte by byte; on any other,
users, items and groups must be whole numbers. A table of the Polars backend is a frame of this process, and is counted as
one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from cutline.counting.engines.duck.engine import Engine
from cutline.counting.engines.duck.frames import Frame
from cutline.counting.engines.duck.lists import WHOLE
from cutline.counting.engines.duck.votes import DuckVotes, bind_table
from cutline.counting.engines.remote import RemoteKept, RemoteVotes, bind_columns, refuse_type, silently
from cutline.counting.question import DIGITS, PRIME, QUERY_NAMES, SALTS, Question, vote_limits
from cutline.errors import ParameterError, SourceError

_SIMPLE = WHOLE | {"string": "VARCHAR", "boolean": "BOOLEAN", "float32": "FLOAT", "float64": "DOUBLE"}
# What has been tried. An unknown backend may fold case, order by language, or round.
_TRIED = {
    "duckdb": _SIMPLE | {"date": "DATE", "decimal": "DECIMAL"},
    "pyspark": _SIMPLE | {"date": "DATE", "decimal": "DECIMAL"},
    "sqlite": _SIMPLE,
}
_STORED = {"string": ("text",), "boolean": ("integer",), "float32": ("real",), "float64": ("real",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class IbisVotes(RemoteVotes):
    """The rows of an Ibis table that count.

    Parameters
    ----------
    table
        The table.
    backend
        The name of its backend.
    compares_text
        Whether a user, an item or a group is text.
    """

    engine = "the backend"
    table: Any
    backend: str
    compares_text: bool

    def _fetch_top(self, max_k: int) -> list[tuple[Any, ...]]:
        import ibis

        counts = self._count()
        order = [ibis.desc("n"), ibis.asc("i")]
        if self.grouping is None:
            return _fetch_rows(counts.order_by(order).limit(max_k + 1))
        place = ibis.row_number().over(ibis.window(group_by="g", order_by=order))
        best = counts.mutate(place=place).filter(lambda t: t.place <= max_k)
        return _fetch_rows(best.order_by([ibis.asc("g"), *order]))

    def _fetch_counts(self) -> Sequence[Sequence[Any]]:
        return _fetch_rows(self._count())

    def _fetch_bounded(self) -> RemoteKept:
        counted = self._weigh().group_by(["g", "i"]).aggregate(h=lambda t: t.weight.sum(), n=lambda t: t.count())
        kept = counted.mutate(h=counted.h.cast("int64")).filter(lambda t: t.h > 0).cache()
        if self.backend != "pyspark":
            return IbisKept(counted=kept, engine=self.engine)
        from cutline.counting.engines.spark import keep_frame

        backend = self.table.get_backend()
        return keep_frame(backend.raw_sql(backend.compile(kept)))

    def _count(self) -> Any:
        """Return the query (g, i, n) of distinct users."""
        return self._list_distinct().group_by(["g", "i"]).aggregate(n=lambda t: t.count())

    def _list_distinct(self) -> Any:
        """Return the distinct votes (u, i, g); without groups, g is 0."""
        import ibis

        if self.backend == "duckdb" and self.compares_text:
            _check_collation(self.table)
        distinct, grouping = self.votes.distinct(), self.grouping
        if grouping is None:
            return distinct.mutate(g=ibis.literal(0, "int32"))
        if grouping.limit is None:
            return distinct
        salts = _make_table(list(enumerate(grouping.salts)), "g", "salt", "string")
        salted = distinct.join(salts, "g")
        salted = salted.mutate(chance=self._hash(salted.salt + _as_text(salted.u)).substr(0, 12))
        place = ibis.dense_rank().over(ibis.window(group_by="u", order_by=["chance", "g"]))
        return salted.mutate(place=place).filter(lambda t: t.place < grouping.limit).select("u", "i", "g")

    def _weigh(self) -> Any:
        """Return the distinct votes with their weights."""
        import ibis

        bound, own = self.bound or 1, ["u", "g"]
        sized = self._list_distinct()
        if self.backend == "sqlite":  # whose parser has no room for all of it in one nest
            sized = sized.cache()
        sized = sized.mutate(size=sized.count().over(ibis.window(group_by=own)))
        if self.parts > 1:
            weight = sum((sized.size <= limit).ifelse(1, 0) for limit in vote_limits(bound, self.parts))
            return sized.mutate(weight=weight)
        hashed = sized.mutate(
            **{
                f"{value}{part}": (sized.size > bound).ifelse(self._number(SALTS[value], sized[value], part), 0)
                for value in ("u", "i")
                for part in (0, 1)
            }
        )
        placed = hashed.mutate(chance=(hashed.i0 + hashed.u0) * (hashed.i1 + hashed.u1) % PRIME)
        place = ibis.row_number().over(ibis.window(group_by=own, order_by=["chance", "i"]))
        return placed.mutate(place=place).mutate(weight=lambda t: (t.place < bound).ifelse(1, 0))

    def _number(self, salt: str, value: Any, part: int) -> Any:
        """Return one of the two numbers that a user or an item is hashed to."""
        import ibis

        digits = self._hash(ibis.literal(salt) + _as_text(value)).substr(part * DIGITS, DIGITS)
        if self.backend == "duckdb":
            return (ibis.literal("0x") + digits).cast("int64")
        if self.backend == "sqlite":
            read = ibis.udf.scalar.python(name="cutline_number", signature=(("string",), "int64"))
            return read(lambda value: None if value is None else int(value, 16))(digits)
        convert = ibis.udf.scalar.builtin(name="conv", signature=(("string", "int32", "int32"), "string"))
        return convert(lambda _value, _old, _new: None)(digits, 16, 10).cast("int64")

    def _hash(self, text: Any) -> Any:
        """Return SHA-256 in hexadecimal; SQLite has none, but runs functions of this process."""
        import ibis

        if self.backend != "sqlite":
            return text.hexdigest("sha256")

        @ibis.udf.scalar.python(name="cutline_sha256", signature=(("string",), "string"))
        def digest(value):  # type: ignore[no-untyped-def]
            return None if value is None else hashlib.sha256(value.encode()).hexdigest()

        return digest(text)


class IbisKept(RemoteKept):
    """Counts that stay in a temporary table of their backend."""

    __slots__ = ()

    def _fetch_tally(self) -> Sequence[Sequence[Any]]:
        return _fetch_rows(self.counted.group_by(["g", "h"]).aggregate(times=lambda t: t.count()), "g", "h", "times")

    def _fetch_items(self, group: int, wanted: Sequence[tuple[int, int]]) -> Sequence[Sequence[Any]]:
        import ibis

        columns = dict(zip(("h", "place"), zip(*wanted, strict=True), strict=True))
        listed = ibis.memtable(
            {name: list(values) for name, values in columns.items()}, schema=dict.fromkeys(columns, "int64")
        )
        near = self.counted.filter(lambda t: (t.g == group) & t.h.isin(sorted(set(columns["h"]))))
        place = ibis.row_number().over(ibis.window(group_by="h", order_by="i")).cast("int64")
        return _fetch_rows(near.mutate(place=place).join(listed, ["h", "place"]), "h", "place", "i", "n")


class PolarsTable(Frame):
    """A table of Ibis's Polars backend, which lives in this process: its frame is counted by DuckDB like any other."""

    __slots__ = ()

    def shape(self) -> Frame:
        return self._collect(self.table.limit(0))

    def scan(self, engine: Engine, wanted: Sequence[str]) -> str:
        return self._collect(self.table).scan(engine, wanted)

    def _collect(self, table: Any) -> Frame:
        return Frame(kind="polars", table=silently(IbisVotes.engine, table.to_polars))


def bind_ibis(table: Any, question: Question) -> IbisVotes | DuckVotes:
    """Bind a question to the schema of an Ibis table, or refuse it; nothing is run."""
    backend = None
    with suppress(Exception):  # several backends, or none
        backend = table.get_backend().name
    if backend is None:
        raise SourceError("an Ibis table must belong to one backend", "another number", "Take it from one connection.")
    if backend == "polars":
        return bind_table(PolarsTable(kind="polars", table=table), question)
    return bind_backend(table, question, backend=backend)


def bind_backend(table: Any, question: Question, *, backend: str) -> IbisVotes:
    """Bind a question to the schema of a table that its backend counts."""
    return silently(IbisVotes.engine, lambda: _bind(table, question, backend=backend))


def _bind(table: Any, question: Question, *, backend: str) -> IbisVotes:
    grouping = question.grouping
    chosen = {
        "max_groups_per_user": grouping is not None and grouping.limit is not None,
        "max_items_per_user": question.max_items_per_user is not None and question.vote_parts is None,
    }
    if any(chosen.values()) and backend not in _TRIED:
        raise ParameterError(
            f"{next(name for name, given in chosen.items() if given)} needs a backend whose hash function is known",
            repr(backend),
            f"Leave it out, or use one of {', '.join(sorted(_TRIED))}.",
        )
    bound = bind_columns(
        question, list(table.columns), partial(_plain_value, table, backend=backend), engine=IbisVotes.engine
    )
    values = {QUERY_NAMES[role]: column for role, column in bound.values.items()}
    votes = table.select(**values).filter(lambda t: t.u.notnull() & t.i.notnull())
    if bound.candidates is not None:
        listed = _make_table(bound.candidates, "place", "i", values["i"].type())
        votes = votes.join(listed, "i").drop("i").rename(i="place")
    if bound.groups is not None:
        votes = votes.join(_make_table(bound.groups, "g", "b", values["b"].type()), "b")
    return IbisVotes(
        votes=votes.select("u", "i", *(() if bound.groups is None else ("g",))),
        order=bound.order,
        grouping=grouping,
        bound=question.max_items_per_user,
        parts=question.vote_parts or 1,
        table=table,
        backend=backend,
        compares_text="VARCHAR" in bound.kinds.values(),
    )


def _plain_value(table: Any, role: str, name: str, *, backend: str) -> tuple[Any, str]:
    """Return a column with NaN and dates beyond Python's as missing, and its type in DuckDB."""
    import ibis

    column = table[name]
    declared = str(column.type().copy(nullable=True))
    known = _TRIED.get(backend, WHOLE)
    family = "decimal" if declared.startswith("decimal(") else declared
    kind = known.get(family)
    if kind == "DECIMAL":
        precision, scale = column.type().precision, column.type().scale
        kind = None if precision is None or scale is None else f"DECIMAL({precision},{scale})"
    if kind is None:
        names = ", ".join(sorted(known))
        raise refuse_type(role, name, declared, known=f"one of {names} on the backend {backend}")
    missing = ibis.null(column.type().copy(nullable=True))
    if backend == "sqlite":
        column = _as_declared(column, declared)
    elif backend == "duckdb" and declared == "string":
        _check_collation(table)
        column = _drop_collation(column)
    elif backend == "pyspark" and declared == "string":
        column = _is_valid(column, version=table.get_backend().version).ifelse(column, missing)
    elif backend == "duckdb" and declared.startswith("float"):
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


def _check_collation(table: Any) -> None:
    """Refuse a DuckDB session that folds all text; it is a setting that anybody may change between two queries."""
    ((collation,),) = table.get_backend().raw_sql("SELECT current_setting('default_collation')").fetchall()
    if collation.lower() not in ("", "binary", "c", "posix"):
        raise ParameterError(
            "text is compared byte by byte", f"default_collation={collation!r}", "RESET default_collation first."
        )


def _drop_collation(column: Any) -> Any:
    """Drop a collation that DuckDB's column may have; with it, whose row came first would name everybody's items."""
    import ibis

    @ibis.udf.scalar.builtin(name="encode", signature=(("string",), "binary"))
    def encoded(value): ...  # type: ignore[no-untyped-def]

    @ibis.udf.scalar.builtin(name="decode", signature=(("binary",), "string"))
    def decoded(value): ...  # type: ignore[no-untyped-def]

    return decoded(encoded(column))


def _as_declared(column: Any, declared: str) -> Any:
    """Drop cells of another type than declared, which SQLite lets into any column, and a collation the column may have."""
    import ibis

    kept = column.typeof().isin(_STORED.get(declared, ("integer",)))
    if declared == "boolean":
        kept &= column.cast("int64").isin((0, 1))
    elif declared in WHOLE and declared != "int64":  # a wider number would come back as another one
        bounds = column.type().bounds
        exact = column.cast("int64")
        kept &= (exact >= bounds.lower) & (exact <= min(bounds.upper, 2**63 - 1))
    elif declared == "string":
        column = _decode(column)
    return kept.ifelse(column, ibis.null(declared))


def _decode(column: Any) -> Any:
    """Read SQLite's text as UTF-8, with what is none as missing: SQLite checks nothing, and fetching such a cell fails."""
    import ibis

    @ibis.udf.scalar.python(name="cutline_text", signature=(("binary",), "string"))
    def decoded(value):  # type: ignore[no-untyped-def]
        try:
            return None if value is None else value.decode()
        except (UnicodeDecodeError, AttributeError):
            return None

    return decoded(column.cast("binary"))


def _is_valid(column: Any, *, version: str) -> Any:
    """Ask Spark whether a text is UTF-8; the ``spark`` module says why."""
    import ibis

    @ibis.udf.scalar.builtin(name="is_valid_utf8", signature=(("string",), "boolean"))
    def valid(value): ...  # type: ignore[no-untyped-def]

    @ibis.udf.scalar.builtin(name="encode", signature=(("string", "string"), "binary"))
    def encoded(value, charset): ...  # type: ignore[no-untyped-def]

    old = int(version.partition(".")[0]) < 4
    return encoded(column, "UTF-8") == column.cast("binary") if old else valid(column)


def _as_text(users: Any) -> Any:
    if users.type().is_boolean():
        return users.ifelse("true", "false")
    return users if users.type().is_string() else users.cast("string")


def _make_table(rows: Sequence[tuple[Any, ...]], place: str, value: str, kind: Any) -> Any:
    import ibis

    columns = {place: [row[0] for row in rows], value: [row[1] for row in rows]}
    return ibis.memtable(columns, schema={place: "int32", value: kind})


def _fetch_rows(query: Any, *columns: str) -> list[tuple[Any, ...]]:
    """Run a query and return its rows, by default (g, i, n)."""
    wanted = columns or ("g", "i", "n")
    return [tuple(row[name] for name in wanted) for row in query.select(*wanted).to_pyarrow().to_pylist()]
