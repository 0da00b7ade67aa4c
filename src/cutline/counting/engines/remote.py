r"""What the engines of other people share: refusals, the caller's lists, and errors that quote nothing."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from cutline.counting.engines.duck.engine import Engine
from cutline.counting.engines.duck.lists import match_list
from cutline.counting.question import Grouping, Progress, Question
from cutline.errors import ColumnTypeError, CutlineError, EngineError, ParameterError, WhereError
from cutline.histogram import Item

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteVotes(ABC):
    """A query of another engine for the rows that count; nothing has been run yet.

    Parameters
    ----------
    votes
        The query, of columns ``(u, i)`` or ``(u, i, g)``; with candidates, ``i`` is the place in their list.
    order
        A pyarrow table of the candidates' places in the items' own order; None without candidates.
    grouping
        The groups, if there are any; ``g`` is the place in their list.
    """

    engine: ClassVar[str]
    votes: Any
    order: Any
    grouping: Grouping | None

    def top(self, max_k: int, progress: Progress | None = None) -> list[tuple[Any, ...]]:
        """Return rows (group, item, count): the top ``max_k + 1`` of each group, in order."""
        rows = silently(self.engine, lambda: self._fetch_top(max_k))
        _report_end(progress)
        return rows

    def tally(self, progress: Progress | None = None) -> tuple[Any, Any]:
        """Return pyarrow tables: the candidates' places in the items' own order, and positive counts (g, place, n)."""
        counted = silently(self.engine, lambda: _make_table(self._fetch_counts()))
        _report_end(progress)
        return self.order, counted

    @abstractmethod
    def _fetch_top(self, max_k: int) -> list[tuple[Any, ...]]:
        """Run the query and return rows (group, item, count) of the top ``max_k + 1`` of each group, in order."""

    @abstractmethod
    def _fetch_counts(self) -> Sequence[Sequence[Any]]:
        """Run the query and return all rows (group, item, count)."""


def refuse_local_options(question: Question, *, engine: str) -> None:
    """Refuse what only the engine of this process can do."""
    if question.where is not None:
        raise WhereError(
            f"where is for files and tables in memory; {engine} filters its own rows",
            repr(question.where)[:200],
            "Filter before you pass it on; each row must be kept or dropped by its own cells alone.",
        )
    if question.memory_limit is not None:
        raise ParameterError(
            f"memory_limit is for files and tables in memory; {engine} has settings of its own",
            repr(question.memory_limit),
            "Leave it out.",
        )


def refuse_type(role: str, name: str, declared: str, *, known: str) -> ColumnTypeError:
    """Return the refusal of a column's type, which is public."""
    return ColumnTypeError(
        f"the {role} column must hold {known}",
        f"{name!r} of type {declared[:80]}",
        "Turn it into one of these first; each new value must come from its own row alone.",
    )


def silently(engine: str, action: Callable[[], T]) -> T:
    """Run a call of another engine; replace what it raises and drop what it warns of, because both can quote cells."""
    refusal: CutlineError
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return action()
    except CutlineError as error:
        refusal = error
    except Exception:
        refusal = EngineError(
            f"{engine} must finish the count", "", f"Run the same table's count() in {engine} to see its own words."
        )
    raise refusal


def match_lists(
    question: Question, declared: dict[str, str]
) -> tuple[list[tuple[int, Any]] | None, list[tuple[int, Any]] | None, Any]:
    """Bring the caller's lists to the types of their columns, as DuckDB calls them.

    Returns rows (place, value) of the candidates and of the groups, each None if there are none, and a pyarrow table of
    the candidates' places in the items' own order. One engine orders the candidates of all, so that no other engine's
    idea of order can differ.
    """
    candidates = groups = order = None
    if question.candidates is None and question.grouping is None:
        return candidates, groups, order
    with Engine() as engine:
        if question.candidates is not None:
            candidates = _match(engine, "candidates", question.candidates, question.roles["item"], declared["item"])
            order = engine.arrow("SELECT place FROM candidates ORDER BY value")
        if question.grouping is not None:
            groups = _match(engine, "groups", question.grouping.groups, question.grouping.column, declared["by"])
    return candidates, groups, order


def _match(engine: Engine, role: str, values: Sequence[Item], column: str, declared: str) -> list[tuple[int, Any]]:
    match_list(engine, role, values, column=column, declared=declared)
    return [(place, value) for place, value in engine.rows(f"SELECT place, value FROM {role} ORDER BY place")]


def _make_table(rows: Sequence[Sequence[Any]]) -> Any:
    """Return rows (g, place, n) as a pyarrow table."""
    import pyarrow as pa

    places, kinds = ("g", "place", "n"), (pa.int32(), pa.int32(), pa.int64())
    return pa.table({name: pa.array([row[i] for row in rows], kinds[i]) for i, name in enumerate(places)})


def _report_end(progress: Progress | None) -> None:
    """Report that all work is done; until then, another engine tells nothing."""
    if progress is not None:
        progress(1.0)
