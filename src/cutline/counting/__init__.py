r"""From a log of (user, item) rows to counts of distinct users per item; the only place where SQL is written.

::

    ask ── bind ── Log.count         count, count_by and check are these three in one call
     │      │         │
     │      │         └ what leaves an engine, in the shape of a mechanism's input; kept: by rank, when it is asked for
     │      └ engines                all have one shape, Votes
     │          duck                 files and tables in memory, on a private DuckDB:
     │            files, frames          what the rows are, which columns they declare, and which cells can be read
     │            text_files, records    the same for CSV and JSON
     │            votes, lists, where    which rows count, under which names, and the counting itself
     │            bounded                the same with a bound on items per user
     │            engine                 one DuckDB, shut off, its errors replaced, its files on disk gone at the end
     │          spark, ibis          DataFrames of Spark and tables of Ibis, counted where they are
     └ question                      what is asked; public, and checked before a log is opened
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Unpack

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray
from cutline.counting.engines.duck.lists import bring_to_type
from cutline.counting.engines.duck.votes import bind_table, open_table
from cutline.counting.kept import Kept, bounded_histograms, closed_histograms
from cutline.counting.question import Columns, Progress, Question, ask, group_by
from cutline.errors import ParameterError
from cutline.histogram import (
    BoundedHistogram,
    ClosedHistogram,
    Histogram,
    Item,
    OpenHistogram,
    check_max_k,
    read_counts,
)

__all__ = [
    "Log",
    "Progress",
    "Question",
    "ask",
    "bind",
    "check",
    "count",
    "count_by",
    "group_by",
    "list_columns",
    "type_list",
]


class Votes(Protocol):
    """The rows of a log that count for one question, where they are; each is one user's vote for one item."""

    def top(self, max_k: int, progress: Progress | None = None, /) -> list[tuple[Any, ...]]:
        """Return rows (group, item, count): the top ``max_k + 1`` of each group, count descending, then item."""

    def tally(self, progress: Progress | None = None, /) -> tuple[Any, Any]:
        """Return pyarrow tables: the candidates' places in the items' own order, and positive counts (g, place, n)."""

    def keep(self, progress: Progress | None = None, /) -> Kept:
        """Count with the question's bound on items per user and without; the counts stay in the engine."""


class Log(Protocol):
    """A source that a question has been bound to: it can be counted, and nothing of it is open before that."""

    def count(self, max_k: int, progress: Progress | None = None) -> list[Histogram]:
        """Count, and return one histogram per group of the question, or one if it has no groups."""


def bind(source: object, question: Question) -> Log:
    r"""Open a source and bind a question to its declared columns; no row is counted.

    Whatever is refused for a public reason (a path, a name, a declared type, a filter, the caller's lists) is refused
    here, so a caller can pay between binding and counting. What was opened is closed again. The source is a log, or
    ready counts, as for :func:`count`; it is recognised by where its class comes from, so that nothing is imported for a
    source nobody passed.

    Examples
    --------
    >>> import pyarrow
    >>> log = bind(pyarrow.table({"who": [1, 2], "what": ["tea", "tea"]}), ask(user="who", item="what"))
    >>> [histogram.counts.tolist() for histogram in log.count(max_k=2)]
    [[2, 0, 0]]
    """
    if question.format is not None and not isinstance(source, str | os.PathLike):
        raise ParameterError("format is for files", repr(question.format), "Leave it out.")
    if isinstance(source, tuple):
        return _bind_pair(source, question)
    if isinstance(source, Mapping | np.ndarray):
        if question.max_items_per_user is not None:
            raise ParameterError(
                "with a bound on items per user, ready counts are a pair",
                type(source).__name__,
                "Pass (full, bounded), or leave max_items_per_user out.",
            )
        return _bind_counts(source, question)
    votes: Votes
    kinds = {(base.__module__.partition(".")[0], base.__name__) for base in type(source).__mro__}
    if ("pyspark", "DataFrame") in kinds:
        from cutline.counting.engines.spark import bind_frame

        votes = bind_frame(source, question)
    elif ("ibis", "Table") in kinds:
        from cutline.counting.engines.ibis import bind_ibis

        votes = bind_ibis(source, question)
    else:
        votes = bind_table(open_table(source, question.format), question)
    return _EngineLog(question=question, votes=votes)


def list_columns(source: object, *, format: str | None = None) -> list[str] | None:
    """Return the names of the columns that a log declares, or None if it declares none, like JSON; no row is read.

    Examples
    --------
    >>> import pyarrow
    >>> list_columns(pyarrow.table({"who": [1], "what": ["tea"]}))
    ['who', 'what']
    """
    if any((base.__module__.partition(".")[0], base.__name__) == ("ibis", "Table") for base in type(source).__mro__):
        return [str(name) for name in getattr(source, "columns", ())]
    present = open_table(source, format).columns()
    return None if present is None else [str(name) for name in present]


def type_list(source: object, values: Iterable[Item], *, column: str, format: str | None = None) -> list[Item]:
    """Return the values of a file as the declared type of a log's column has them; no row is read.

    What does not fit stays as it is, and is refused when the question is bound.

    Examples
    --------
    >>> import pyarrow
    >>> type_list(pyarrow.table({"item": [7]}), ["7", "x"], column="item")
    [7, 'x']
    """
    bound = bind_table(open_table(source, format), ask(user=column, item=column, format=format))
    _, declared = bound.values["item"]
    return [bring_to_type(value, declared) for value in values]


def count(
    source: object,
    *,
    user: str | None = None,
    item: str | None = None,
    max_k: int = 100,
    where: str | None = None,
    candidates: Iterable[Item] | None = None,
    memory_limit: str | None = None,
    max_items_per_user: int | None = None,
    format: str | None = None,
    progress: Progress | None = None,
) -> Histogram:
    r"""Count the distinct users of each item.

    Nothing is released: the result is private data for a mechanism. Rows without a user or an item are ignored, and
    nobody is told how many there were. An empty log, one item or all ties are counted like any other; refusals depend
    on public facts alone (paths, names, declared types, parameters).

    Parameters
    ----------
    source
        The path of a parquet, CSV or JSON file or a glob; a pandas or polars DataFrame; a pyarrow Table; a Spark
        DataFrame; an Ibis table; or ready counts: a mapping from item to count, or an integer array whose items are
        its indices; with ``max_items_per_user`` a pair of such, the full counts and the bounded ones.
    user, item
        The names of the two columns, matched exactly. Columns of CSV and JSON files and pandas object columns are
        read as text, all others in their declared type; NaN is missing.
    max_k
        The largest cut anyone may ask about. Only the top ``max_k + 1`` items leave the engine.
    where
        A condition on one row in SQL, such as ``country = 'FR'``; a row on which it fails is dropped.
    candidates
        All items there can be, as a public list; the domain is closed, and other items of the log are ignored.
    memory_limit
        An amount such as ``1GB``; what does not fit is spilled to a private directory. The counts of listed candidates are
        kept in memory beside it, at most one per candidate and group.
    max_items_per_user
        Count each user in at most this many items, beside the counts of all.
    format
        The format of a file, one of parquet, csv, tsv, json (a document whose outermost objects are the records) and jsonl (one
        object a line); by default that of its name. A row or cell that cannot be read is missing.
    progress
        Called from this thread, about ten times a second, with the share of the work that is done. It tells how far a
        running query is, which is as private as its running time: show it to the caller, never publish it.

    Returns
    -------
    OpenHistogram, ClosedHistogram or BoundedHistogram
        Closed if ``candidates`` are given, bounded if ``max_items_per_user`` is. Ties are in the item's own order.

    Raises
    ------
    ParameterError, SourceError, ColumnTypeError, WhereError, CountsError
        For what is public: see ``cutline.errors``.
    EngineError
        If the engine fails; its own words are withheld.

    Examples
    --------
    >>> import pyarrow
    >>> log = pyarrow.table({"who": ["ann", "ann", "bob", None], "what": ["tea", "tea", "tea", "milk"]})
    >>> histogram = count(log, user="who", item="what", max_k=3)
    >>> histogram.items, histogram.counts.tolist()
    (('tea',), [2, 0, 0, 0])
    >>> count({"tea": 2, "milk": 0}, max_k=3).counts.tolist()
    [2, 0, 0, 0]
    """
    check_max_k(max_k)
    question = ask(
        user=user,
        item=item,
        where=where,
        candidates=candidates,
        memory_limit=memory_limit,
        format=format,
        max_items_per_user=max_items_per_user,
    )
    (histogram,) = bind(source, question).count(max_k, progress)
    return histogram


def count_by(
    source: object,
    *,
    by: str | None = None,
    groups: Iterable[Item] | None = None,
    max_groups_per_user: int | None = None,
    key: str | bytes | None = None,
    max_k: int = 100,
    progress: Progress | None = None,
    **columns: Unpack[Columns],
) -> dict[Item, Histogram]:
    r"""Count the distinct users of each item in each of the listed groups, in one pass over the log.

    Nothing is released. A user who joins or leaves changes the histograms of the groups they count in and no other:
    all that they touch, or at most ``max_groups_per_user``. What is refused is what :func:`count` refuses.

    Parameters
    ----------
    source, max_k, progress, **columns
        As for :func:`count`; ready counts have no groups.
    by
        The column that names a row's group.
    groups
        The groups to count, as a public list of values of that column's declared type. Rows of other groups are
        ignored; a listed group without rows gets the histogram of an empty log.
    max_groups_per_user
        In how many of the listed groups one user counts. Of the groups in which a user has a row that counts, those
        are kept whose hash of key, group and user is smallest: a rule that reads this user's rows alone, whatever
        the key.
    key
        Of that hash; a fixed one by default. The same key gives the same choice on every engine for users that are
        text, whole numbers, truth values or dates.

    Returns
    -------
    dict
        One histogram per group, in the order of ``groups``; open, or closed if ``candidates`` are given.

    Examples
    --------
    >>> import pyarrow
    >>> log = pyarrow.table({"who": [1, 1, 2], "what": ["tea", "milk", "tea"], "day": ["mon", "tue", "mon"]})
    >>> days = count_by(log, user="who", item="what", by="day", groups=["mon", "tue", "wed"], max_k=2)
    >>> {day: (histogram.items, histogram.counts.tolist()) for day, histogram in days.items()}
    {'mon': (('tea',), [2, 0, 0]), 'tue': (('milk',), [1, 0, 0]), 'wed': ((), [0, 0, 0])}
    """
    check_max_k(max_k)
    grouping = group_by(by=by, groups=groups, max_groups_per_user=max_groups_per_user, key=key)
    log = bind(source, ask(**columns, grouping=grouping))
    return dict(zip(grouping.groups, log.count(max_k, progress), strict=True))


def check(
    source: object,
    *,
    by: str | None = None,
    groups: Iterable[Item] | None = None,
    max_groups_per_user: int | None = None,
    key: str | bytes | None = None,
    **columns: Unpack[Columns],
) -> None:
    r"""Refuse for a public reason what :func:`count` (with ``by``: :func:`count_by`) would refuse, without counting.

    The source is opened and its columns are bound to the question; no row is counted, and nothing is charged for it.

    Examples
    --------
    >>> import pyarrow
    >>> check(pyarrow.table({"who": [1], "what": ["tea"]}), user="who", item="drink")
    Traceback (most recent call last):
    ...
    cutline.errors.SourceError: the log must have the column; got 'drink'. Column names match exactly; there are: 'who', 'what'.
    """
    grouped = any(value is not None for value in (by, groups, max_groups_per_user, key))
    grouping = group_by(by=by, groups=groups, max_groups_per_user=max_groups_per_user, key=key) if grouped else None
    bind(source, ask(**columns, grouping=grouping))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class _EngineLog:
    """A log whose engine counts it."""

    question: Question
    votes: Votes

    def count(self, max_k: int, progress: Progress | None = None) -> list[Histogram]:
        check_max_k(max_k)
        groups, candidates, bound = (
            self.question.group_count,
            self.question.candidates,
            self.question.max_items_per_user,
        )
        if bound is not None:
            parts = self.question.vote_parts or 1
            return bounded_histograms(self.votes.keep(progress), groups=groups, max_items_per_user=bound, parts=parts)
        if candidates is None:
            return _open_histograms(self.votes.top(int(max_k), progress), groups=groups, max_k=int(max_k))
        order, counted = self.votes.tally(progress)
        return closed_histograms(candidates, order=order, counted=counted, groups=groups)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class _ReadyCounts:
    """Counts that somebody else has made; candidates that are not among them count 0, other items are ignored."""

    counts: Mapping[Item, int] | IntArray
    candidates: tuple[Item, ...] | None

    def count(self, max_k: int, progress: Progress | None = None) -> list[Histogram]:
        del progress  # there is nothing to wait for
        if self.candidates is None:
            return [OpenHistogram.from_counts(self.counts, max_k=max_k)]
        counts: Mapping[Item, int] = (
            self.counts if isinstance(self.counts, Mapping) else dict(enumerate(self.counts.tolist()))
        )
        return [ClosedHistogram.from_counts({name: counts.get(name, 0) for name in self.candidates})]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class _ReadyPair:
    """Full and bounded counts that somebody else has made, for the bound of the question."""

    histogram: BoundedHistogram

    def count(self, max_k: int, progress: Progress | None = None) -> list[Histogram]:
        del max_k, progress  # a bounded histogram has no window, and there is nothing to wait for
        return [self.histogram]


def _bind_pair(source: tuple[Any, ...], question: Question) -> _ReadyPair | _ReadyCounts:
    """Take a pair of ready counts, or refuse what it has no use for."""
    if len(source) != 2:
        raise ParameterError(
            "a pair of ready counts is full and bounded counts", f"{len(source)} in a tuple", "Pass (full, bounded)."
        )
    ready = [_bind_counts(part, question) for part in source]
    if question.max_items_per_user is None:  # nobody asks for the bounded ones
        return ready[0]
    bound, parts = question.max_items_per_user, question.vote_parts or 1
    return _ReadyPair(histogram=BoundedHistogram.from_counts(*source, max_items_per_user=bound, parts=parts))


def _bind_counts(source: Mapping[Any, int] | npt.NDArray[Any], question: Question) -> _ReadyCounts:
    """Take a copy of ready counts, or refuse what they have no use for; nothing is ranked yet."""
    if question.grouping is not None:
        raise ParameterError("ready counts have no groups", "by", "Pass a log, or ask group by group.")
    columns = {"user": question.user, "item": question.item, "where": question.where}
    given = [name for name, value in columns.items() if value is not None]
    if given:
        raise ParameterError("ready counts have no columns", ", ".join(given), "Leave user, item and where out.")
    items, values = read_counts(source)  # every count is checked, also of items that are no candidates
    counts = dict(zip(items, values.tolist(), strict=True)) if isinstance(source, Mapping) else values
    return _ReadyCounts(counts=counts, candidates=question.candidates)


def _open_histograms(rows: Iterable[Sequence[Any]], *, groups: int, max_k: int) -> list[Histogram]:
    """Pad rows (group, item, count), which come in order, to one histogram per group."""
    items: list[list[Item]] = [[] for _ in range(groups)]
    counts = np.zeros((groups, max_k + 1), dtype=np.int64)
    for group, item, count in rows:
        counts[group, len(items[group])] = count
        items[group].append(item)
    return [OpenHistogram(items=tuple(items[g]), counts=counts[g], max_k=max_k) for g in range(groups)]
