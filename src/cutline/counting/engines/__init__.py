r"""The engines that count logs, one shape for all, and which of them reads which source."""

from __future__ import annotations

from typing import Any, Protocol

from cutline.counting.engines.duck.votes import bind_table, open_table
from cutline.counting.question import Progress, Question


class Votes(Protocol):
    """The rows of a log that count for one question, where they are; each is one user's vote for one item."""

    def top(self, max_k: int, progress: Progress | None = None, /) -> list[tuple[Any, ...]]:
        """Return rows (group, item, count): the top ``max_k + 1`` of each group, count descending, then item."""

    def tally(self, progress: Progress | None = None, /) -> tuple[Any, Any]:
        """Return pyarrow tables: the candidates' places in the items' own order, and positive counts (g, place, n)."""


def bind_source(source: object, question: Question) -> Votes:
    """Let the engine of a source bind the question to its declared columns, or refuse; no row is counted.

    A source is recognised by where its class comes from, so that nothing is imported for a source nobody passed.
    """
    kinds = {(base.__module__.partition(".")[0], base.__name__) for base in type(source).__mro__}
    if ("pyspark", "DataFrame") in kinds:
        from cutline.counting.engines.spark import bind_frame

        return bind_frame(source, question)
    if ("ibis", "Table") in kinds:
        from cutline.counting.engines.ibis import bind_ibis

        return bind_ibis(source, question)
    return bind_table(open_table(source), question)
