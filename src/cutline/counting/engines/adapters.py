r"""The one shape of an engine, and which engine reads which source.

A source is recognised by where its class comes from, so that nothing is imported for a source nobody passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from cutline.counting.engines.duck.adapter import Duck
from cutline.counting.engines.duck.files import open_log
from cutline.counting.engines.remote import silently
from cutline.counting.question import Question


class Adapter(Protocol):
    """A log together with the engine that counts it."""

    def check(self, question: Question, /) -> None:
        """Refuse a question that does not fit the log's declared columns; no row is counted."""

    def top(self, question: Question, /, *, max_k: int) -> list[tuple[Any, ...]]:
        """Return rows (group, item, count): the top ``max_k + 1`` of each group, count descending, then item."""

    def tally(self, question: Question, /) -> tuple[Any, Any]:
        """Return pyarrow tables: the candidates' places in the items' own order, and positive counts (g, place, n)."""


def adapter_of(source: object) -> Adapter:
    """Recognise a source, or refuse it."""
    kinds = {(base.__module__.partition(".")[0], base.__name__) for base in type(source).__mro__}
    if ("pyspark", "DataFrame") in kinds:
        from cutline.counting.engines.spark import Spark

        return Spark(frame=source)
    if ("ibis", "Table") in kinds:
        from cutline.counting.engines.ibis import warehouse_of

        warehouse = warehouse_of(source)
        return PolarsTable(table=source) if warehouse.backend == "polars" else warehouse
    return Duck(log=open_log(source))


@dataclass(frozen=True, slots=True, kw_only=True)
class PolarsTable:
    """A table of Ibis's Polars backend, which lives in this process: its frame is counted like any other."""

    table: Any

    def check(self, question: Question) -> None:
        """Bind the question to the table's columns; no row is read."""
        self._duck(self.table.limit(0)).check(question)

    def top(self, question: Question, *, max_k: int) -> list[tuple[Any, ...]]:
        """Return rows (group, item, count): the top ``max_k + 1`` of each group, in order."""
        return self._duck(self.table).top(question, max_k=max_k)

    def tally(self, question: Question) -> tuple[Any, Any]:
        """Return the candidates' own order and their positive counts."""
        return self._duck(self.table).tally(question)

    def _duck(self, table: Any) -> Duck:
        return Duck(log=open_log(silently("the backend", table.to_polars)))
