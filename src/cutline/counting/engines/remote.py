r"""What the engines of other people share: refusals, the caller's lists, and errors that quote nothing."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from cutline.counting.engines.duck.engine import Engine
from cutline.counting.engines.duck.lists import ORDER_CANDIDATES, match_list
from cutline.counting.question import Grouping, Progress, Question, check_present
from cutline.errors import ColumnTypeError, CutlineError, EngineError, ParameterError, WhereError
from cutline.histogram import Item

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteVotes(ABC):
    """A query of another engine for the rows that count (:class:`cutline.counting.Votes`); nothing has been run yet.

    Parameters
    ----------
    votes
        The query, of columns ``(u, i)`` or ``(u, i, g)``; with candidates, ``i`` is the place in their list.
    order
        A pyarrow table of the candidates' places in the items' own order; None without candidates.
    grouping
        The groups, if there are any; ``g`` is the place in their list.
    bound, parts
        Of the question: in how many items one user counts, and in how many parts a vote is counted.
    """

    engine: ClassVar[str]
    votes: Any
    order: Any
    grouping: Grouping | None
    bound: int | None
    parts: int

    def top(self, max_k: int, progress: Progress | None = None) -> list[tuple[Any, ...]]:
        return self._run(lambda: self._fetch_top(max_k), progress)

    def tally(self, progress: Progress | None = None) -> tuple[Any, Any]:
        return self.order, self._run(lambda: _make_table(self._fetch_counts()), progress)

    def keep(self, progress: Progress | None = None) -> RemoteKept:
        return self._run(self._fetch_bounded, progress)

    def _run(self, query: Callable[[], T], progress: Progress | None) -> T:
        found = silently(self.engine, query)
        if progress is not None:
            progress(1.0)  # until then, another engine tells nothing
        return found

    @abstractmethod
    def _fetch_top(self, max_k: int) -> list[tuple[Any, ...]]:
        """Run the query and return rows (group, item, count) of the top ``max_k + 1`` of each group, in order."""

    @abstractmethod
    def _fetch_counts(self) -> Sequence[Sequence[Any]]:
        """Run the query and return all rows (group, item, count)."""

    @abstractmethod
    def _fetch_bounded(self) -> RemoteKept:
        """Run the query with the bound on items per user; what it counted stays in the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteKept(ABC):
    """Bounded and full counts (:class:`cutline.counting.kept.Kept`) in a table (g, i, h, n) that another engine keeps."""

    counted: Any
    engine: str

    def tally(self) -> Sequence[tuple[int, int, int]]:
        found = silently(self.engine, self._fetch_tally)
        return [(int(group), int(value), int(times)) for group, value, times in found]

    def find(self, group: int, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], tuple[Item, int]]:
        found = silently(self.engine, lambda: self._fetch_items(group, wanted))
        return {(int(value), int(place)): (item, int(count)) for value, place, item, count in found}

    @abstractmethod
    def _fetch_tally(self) -> Sequence[Sequence[Any]]:
        """Return rows (group, bounded count, how many items have it)."""

    @abstractmethod
    def _fetch_items(self, group: int, wanted: Sequence[tuple[int, int]]) -> Sequence[Sequence[Any]]:
        """Return rows (bounded count, place among its equals, item, full count) of the wanted ones of a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What a question is about: the value of each role in a row as the engine writes it, and its type as DuckDB calls it.

    The caller's lists are rows (place, value). One engine orders the candidates of all, so that no other engine's idea of
    order can differ.
    """

    values: Mapping[str, Any]
    kinds: Mapping[str, str]
    candidates: list[tuple[Any, ...]] | None
    groups: list[tuple[Any, ...]] | None
    order: Any


def bind_columns(
    question: Question, present: Sequence[str], plain_value: Callable[[str, str], tuple[Any, str]], *, engine: str
) -> Binding:
    """Bind a question to the columns that are present; ``plain_value`` gives the value and type of a role and its column.

    What only the engine of this process can do is refused.
    """
    where, limit = question.where, question.memory_limit
    local_only = f"is for files and tables in memory; {engine}"
    if where is not None:
        way_out = "Filter before you pass it on; each row must be kept or dropped by its own cells alone."
        raise WhereError(f"where {local_only} filters its own rows", repr(where)[:200], way_out)
    if limit is not None:
        raise ParameterError(f"memory_limit {local_only} has settings of its own", repr(limit), "Leave it out.")
    check_present(question.roles.values(), present)
    plain = {role: plain_value(role, name) for role, name in question.roles.items()}
    kinds = {role: kind for role, (_, kind) in plain.items()}
    lists: dict[str, list[tuple[Any, ...]]] = {}
    order = None
    if question.lists:
        with Engine() as local:
            for role in question.lists:
                match_list(local, question, role, kinds)
                lists[role] = local.rows(f"SELECT place, value FROM {role} ORDER BY place")
            order = local.arrow(ORDER_CANDIDATES) if "candidates" in lists else None
    values = {role: value for role, (value, _) in plain.items()}
    candidates, groups = lists.get("candidates"), lists.get("groups")
    return Binding(values=values, kinds=kinds, candidates=candidates, groups=groups, order=order)


def refuse_type(role: str, name: str, declared: str, *, known: str) -> ColumnTypeError:
    """Return the refusal of a column's type, which is public."""
    way_out = "Turn it into one of these first; each new value must come from its own row alone."
    return ColumnTypeError(f"the {role} column must hold {known}", f"{name!r} of type {declared[:80]}", way_out)


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
        way_out = f"Run the same table's count() in {engine} to see its own words."
        refusal = EngineError(f"{engine} must finish the count", "", way_out)
    raise refusal


def _make_table(rows: Sequence[Sequence[Any]]) -> Any:
    """Return rows (g, place, n) as a pyarrow table."""
    import pyarrow as pa

    places, kinds = ("g", "place", "n"), (pa.int32(), pa.int32(), pa.int64())
    return pa.table({name: pa.array([row[i] for row in rows], kinds[i]) for i, name in enumerate(places)})
