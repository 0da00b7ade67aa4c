r"""The rows of a file or of a table in memory that count, and the counting itself, on a private DuckDB.

A column's type is a public fact of the source and never comes from the rows. Inside the engine the columns that were
asked for are called ``c0``, ``c1``, ...: the caller's names are matched in Python, exactly, and never reach SQL as
identifiers. Counting reads the view ``votes (u, i)``, with groups ``votes (u, i, b)``, whose rows all have a user and an
item, and the tables ``candidates (place, value)`` and ``groups (place, value)`` of the caller's lists.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from cutline.counting.engines.duck.bounded import DuckKept, count_bounded
from cutline.counting.engines.duck.engine import Engine, check_root, spill_directory
from cutline.counting.engines.duck.files import open_files
from cutline.counting.engines.duck.frames import frame_of
from cutline.counting.engines.duck.lists import ORDER_CANDIDATES, WHOLE, PublicList, match_list
from cutline.counting.engines.duck.where import parse_where
from cutline.counting.question import QUERY_NAMES, Grouping, Progress, Question, check_present
from cutline.errors import ColumnTypeError, EngineError, SourceError, WhereError
from cutline.termination import clean_termination

T = TypeVar("T")

_FLOAT = frozenset({"FLOAT", "DOUBLE"})
_PLAIN = frozenset({*WHOLE.values(), "HUGEINT", "UHUGEINT", "VARCHAR", "BOOLEAN", "TIME", "UUID"})
# Python knows the years 1 to 9999; a value outside would come out as text, or as another date.
_DATED = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"})
# Named by their text: Python has no value, or no exact one, for them.
_ZONED = {"TIME WITH TIME ZONE", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"}
_AS_TEXT = frozenset({"NULL", '"NULL"', "JSON", "TIMESTAMP_NS", "TIME_NS", *_ZONED})

# Distinct users of the items of one table (i, place): pairs with a small number take less room than pairs with a name.
_TALLY = """
    SELECT i, n FROM (
        SELECT place, count(*) AS n FROM (SELECT DISTINCT place, u FROM votes JOIN {0} USING (i)) GROUP BY place
    ) JOIN {0} USING (place)
"""
_TALLY_ALL = "SELECT i, count(*) AS n FROM (SELECT DISTINCT i, u FROM votes) GROUP BY i"
_GROUPED = "SELECT DISTINCT groups.place AS g, i, u FROM votes JOIN groups ON b = groups.value"
_PLACED = "SELECT i, CAST(row_number() OVER () AS INTEGER) AS place FROM"
# A user's groups in an order of the user's own: 48 bits of a hash are compared within one user only.
_KEPT = """
    SELECT g, u FROM (SELECT DISTINCT g, u FROM triples) JOIN salts USING (g)
    QUALIFY row_number() OVER (PARTITION BY u ORDER BY left(sha256(salt || CAST(u AS VARCHAR)), 12), g) <= {0}
"""


class Table(Protocol):
    """Files or a frame that DuckDB can read."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that the engine may open."""

    @property
    def cheap(self) -> bool:
        """Whether reading it twice costs little."""

    def shape(self) -> Table:
        """Return a table of the same columns, without rows where leaving them out saves work."""

    def prepare(self, spill: Path, /) -> Sequence[Table]:
        """Return the tables that the engine should read instead, best first; the last is read whatever its rows hold.

        All have the same rows. The engine may fail on any but the last; copies of rows go to the directory ``spill``.
        """

    def columns(self) -> Sequence[object] | None:
        """Return the names of the columns; None if only rows could tell them."""

    def scan(self, engine: Engine, wanted: Sequence[str], /) -> str:
        """Return a query that gives the wanted columns, which exist, as c0, c1, ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckVotes:
    """The rows of a table that count for one question (:class:`cutline.counting.Votes`); no engine is open before counting.

    Parameters
    ----------
    table, question
        The table, and what is asked of it.
    wanted
        The columns that are read: those of the question and of its filter.
    values
        The SQL and the type of each role's value in a row; the roles are user, item and, with groups, by.
    condition
        The SQL of the filter, or None.
    lists
        The caller's lists, in the types of their columns.
    """

    table: Table
    question: Question
    wanted: tuple[str, ...]
    values: Mapping[str, tuple[str, str]]
    condition: str | None
    lists: tuple[PublicList, ...]

    def top(self, max_k: int, progress: Progress | None = None) -> list[tuple[Any, ...]]:
        def count(engine: Engine) -> list[tuple[Any, ...]]:
            if self.question.grouping is None:
                return _top_of_all(engine, max_k=max_k, cheap=self.table.cheap)
            return _top_of_groups(engine, self.question.grouping, max_k=max_k)

        with clean_termination(), ExitStack() as stack:
            return self._count(count, progress, stack)[1]

    def tally(self, progress: Progress | None = None) -> tuple[Any, Any]:
        with clean_termination(), ExitStack() as stack:
            return self._count(lambda engine: _tally_candidates(engine, self.question.grouping), progress, stack)[1]

    def keep(self, progress: Progress | None = None) -> DuckKept:
        grouping = self.question.grouping

        def count(engine: Engine) -> None:
            count_bounded(
                engine,
                "(SELECT DISTINCT i, u FROM votes)" if grouping is None else _list_triples(engine, grouping, _GROUPED),
                grouped=grouping is not None,
                bound=self.question.max_items_per_user or 1,
                parts=self.question.vote_parts or 1,
            )

        with clean_termination(), ExitStack() as stack:
            engine, _ = self._count(count, progress, stack)
            return DuckKept(engine=engine, closing=stack.pop_all())

    @contextmanager
    def show(self, progress: Progress | None) -> Iterator[Engine]:
        """Open an engine with the view ``votes``, the view ``log`` behind it, and the tables of the lists in it."""
        with (
            clean_termination(),
            spill_directory() as spill,
            self._open(self.table.prepare(spill)[-1], spill, progress) as engine,
        ):
            yield engine
            engine.report_end()

    def _count(self, count: Callable[[Engine], T], progress: Progress | None, stack: ExitStack) -> tuple[Engine, T]:
        """Open an engine and count with it; the stack closes it. Where a quick way of reading fails, the next is taken."""
        spill = stack.enter_context(spill_directory())
        told = None if progress is None else _rising(progress)
        *quick, last = self.table.prepare(spill)
        for table in quick:
            with suppress(EngineError, SourceError), ExitStack() as attempt:
                engine = attempt.enter_context(self._open(table, spill, told))
                counted = count(engine)
                stack.push(attempt.pop_all())
                break
        else:
            engine = stack.enter_context(self._open(last, spill, told))
            counted = count(engine)
        engine.report_end()
        return engine, counted

    @contextmanager
    def _open(self, table: Table, spill: Path, progress: Progress | None) -> Iterator[Engine]:
        """Open an engine, with the view ``votes`` and the tables of the lists in it."""
        with Engine(
            spill=spill,
            memory_limit=self.question.memory_limit,
            paths=table.paths,
            row_local=self.condition is not None,
            progress=progress,
        ) as engine:
            declared = _show_log(engine, table, self.wanted)
            if _read_values(self.question, declared) != self.values:
                rule = "the log must keep the types of its columns until it is counted"
                raise SourceError(rule, "another type than before", "Ask again when nobody writes to it.")
            for listed in self.lists:
                listed.register(engine)
            selected = ", ".join(f"{sql} AS {QUERY_NAMES[role]}" for role, (sql, _) in self.values.items())
            kept = [f"({self.values[role][0]}) IS NOT NULL" for role in ("user", "item")]
            kept += [] if self.condition is None else [self.condition]
            engine.run(f"CREATE TEMP VIEW votes AS SELECT {selected} FROM log WHERE {' AND '.join(kept)}")
            yield engine


def _rising(progress: Progress) -> Progress:
    """Return the same function, but told no less than before when the work begins again."""
    highest = 0.0

    def tell(share: float) -> None:
        nonlocal highest
        highest = max(highest, share)
        progress(highest)

    return tell


def open_table(source: object, form: str | None = None) -> Table:
    """Recognise a path, a glob or a table in memory, or refuse the source; ``form`` is the format of files."""
    if isinstance(source, str | os.PathLike):
        return open_files(source, form)
    frame = frame_of(source)
    if frame is None:
        kind = f"{type(source).__module__}.{type(source).__qualname__}"
        rule = "the log must be a path, a pandas or polars DataFrame, a pyarrow Table, or ready counts"
        raise SourceError(rule, kind, "Collect a lazy frame first; pass ready counts as a mapping or an integer array.")
    return frame


def bind_table(table: Table, question: Question) -> DuckVotes:
    """Bind a question to the declared columns of a table, or refuse it for a public reason; no row is counted.

    The engine that is asked here is closed again, so nothing stays open if nobody counts.
    """
    check_root()
    named = tuple(dict.fromkeys(question.roles.values()))
    with Engine(paths=table.paths, row_local=question.where is not None) as engine:
        condition = None if question.where is None else parse_where(engine, question.where)
        filtered = condition.columns if condition else ()
        wanted = tuple(dict.fromkeys((*named, *filtered)))
        present = table.columns()
        if present is not None:
            check_present(named, present)
            check_present(filtered, present, refusal=WhereError)
        declared = _show_log(engine, table.shape(), wanted)
        values = _read_values(question, declared)
        filter_sql = None if condition is None else condition.bind(engine, declared)
        kinds = {role: kind for role, (_, kind) in values.items()}
        lists = tuple(match_list(engine, question, role, kinds) for role in question.lists)
    return DuckVotes(table=table, question=question, wanted=wanted, values=values, condition=filter_sql, lists=lists)


def _show_log(engine: Engine, table: Table, wanted: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Create the view ``log`` of the wanted columns; return the name and the type that each has in it."""
    engine.run(f"CREATE TEMP VIEW log AS {table.scan(engine, wanted)}")
    kinds = [kind for _, kind, *_ in engine.rows("DESCRIBE log")]
    return {name: (f"c{i}", kind) for i, (name, kind) in enumerate(zip(wanted, kinds, strict=True))}


def _read_values(question: Question, declared: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the SQL and the type of each role's value in a row of the view ``log``."""
    return {role: plain_value(role, name, *declared[name]) for role, name in question.roles.items()}


def plain_value(role: str, name: str, column: str, declared: str) -> tuple[str, str]:
    r"""Return the SQL expression of a user or item column and its type, with NaN and dates beyond Python's as missing.

    Examples
    --------
    >>> plain_value("item", "price", "c1", "DOUBLE")
    ("CASE WHEN contains(CAST(c1 AS VARCHAR), 'nan') THEN NULL WHEN c1 = 0 THEN 0 ELSE c1 END", 'DOUBLE')
    >>> plain_value("item", "colour", "c1", "ENUM('red', 'blue')")
    ('CAST(c1 AS VARCHAR)', 'VARCHAR')
    """
    if declared in _PLAIN or declared.startswith("DECIMAL("):
        return column, declared
    if declared in _DATED:
        return f"CASE WHEN {column} >= DATE '0001-01-01' AND {column} < DATE '10000-01-01' THEN {column} END", declared
    if declared in _FLOAT:
        # Asked by its text: parquet statistics leave NaN out, and from them the engine concludes that isnan() is false.
        # The two zeros are one value with two names; whose row came first must not decide between them.
        missing = f"contains(CAST({column} AS VARCHAR), 'nan')"
        return f"CASE WHEN {missing} THEN NULL WHEN {column} = 0 THEN 0 ELSE {column} END", declared
    if declared in _AS_TEXT or (declared.startswith("ENUM(") and not declared.endswith("]")):
        return f"CAST({column} AS VARCHAR)", "VARCHAR"
    rule = f"the {role} column must hold text, numbers, dates or truth values"
    way_out = "Turn it into text first, for example with CAST(... AS VARCHAR) where the log is written."
    raise ColumnTypeError(rule, f"{name!r} of type {declared[:80]}", way_out)


def _top_of_all(engine: Engine, *, max_k: int, cheap: bool) -> list[tuple[Any, ...]]:
    r"""Return rows (0, item, count) of the top ``max_k + 1`` items.

    An item has at most as many users as rows, and rows are cheap to count. So users are told apart only for items
    that can still reach the top: first for the ``2 (max_k + 1)`` with most rows, whose (max_k + 1)-th best count bounds
    the result from below; then for all others with at least that many rows (rarely any). Each row is told apart once.
    """
    if cheap:
        engine.run("CREATE TEMP TABLE loads AS SELECT i, count(*) AS n FROM votes GROUP BY i", until=0.4)
        engine.run(
            f"CREATE TEMP TABLE heads AS {_PLACED} (SELECT i FROM loads ORDER BY n DESC, i LIMIT {2 * (max_k + 1)})"
        )
        engine.run("CREATE TEMP TABLE tally AS " + _TALLY.format("heads"), until=0.9)
        bound = f"(SELECT coalesce(min(n), 1) FROM (SELECT n FROM tally ORDER BY n DESC LIMIT 1 OFFSET {max_k}))"
        engine.run(f"CREATE TEMP TABLE others AS {_PLACED} loads ANTI JOIN heads USING (i) WHERE n >= {bound}")
        if engine.rows("SELECT count(*) FROM others") != [(0,)]:
            engine.run("INSERT INTO tally " + _TALLY.format("others"), until=0.98)
    else:
        engine.run("CREATE TEMP TABLE tally AS " + _TALLY_ALL, until=0.98)
    return engine.rows(f"SELECT 0, i, n FROM tally ORDER BY n DESC, i LIMIT {max_k + 1}")


def _top_of_groups(engine: Engine, grouping: Grouping, *, max_k: int) -> list[tuple[Any, ...]]:
    """Return rows (group, item, count) of the top ``max_k + 1`` items of each group, from one pass over the log."""
    _tally(engine, _list_triples(engine, grouping, _GROUPED), named="i")
    return engine.rows(
        "SELECT g, i, n FROM tally "
        f"QUALIFY row_number() OVER (PARTITION BY g ORDER BY n DESC, i) <= {max_k + 1} ORDER BY g, n DESC, i"
    )


def _tally_candidates(engine: Engine, grouping: Grouping | None) -> tuple[Any, Any]:
    """Return pyarrow tables: the candidates' places in the items' own order, and the positive counts (g, place, n)."""
    if grouping is None:
        source = "SELECT 0 AS g, * FROM (SELECT DISTINCT place, u FROM votes JOIN candidates ON i = value)"
    else:
        source = (
            "SELECT DISTINCT groups.place AS g, candidates.place AS place, u FROM votes "
            "JOIN groups ON b = groups.value JOIN candidates ON i = candidates.value"
        )
    _tally(engine, _list_triples(engine, grouping, source), named="place")
    return engine.arrow(ORDER_CANDIDATES), engine.arrow("SELECT g, place, n FROM tally")


def _list_triples(engine: Engine, grouping: Grouping | None, source: str) -> str:
    """Return the SQL of what is counted of ``source``, distinct triples of group, item and user: those of the groups kept."""
    if grouping is None or grouping.limit is None:
        return f"({source})"
    import pyarrow as pa

    places = pa.array(range(len(grouping.salts)), pa.int32())
    engine.register("salts", pa.table({"g": places, "salt": grouping.salts}))
    engine.run(f"CREATE TEMP TABLE triples AS {source}", until=0.6)
    engine.run(f"CREATE TEMP TABLE kept AS {_KEPT.format(grouping.limit)}", until=0.8)
    return "triples SEMI JOIN kept USING (g, u)"


def _tally(engine: Engine, counted: str, *, named: str) -> None:
    """Count distinct triples of group, item and user into the table ``tally``."""
    engine.run(
        f"CREATE TEMP TABLE tally AS SELECT g, {named}, count(*) AS n FROM {counted} GROUP BY g, {named}", until=0.95
    )
