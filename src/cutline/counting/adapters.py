r"""The one shape of an engine, and which engine reads which source.

An adapter is recognised by where the source's class comes from, so that nothing is imported for a source nobody passed.
"""

from __future__ import annotations

from typing import Any, Protocol

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
    from cutline.counting.duck import Duck
    from cutline.counting.files import open_log

    return Duck(log=open_log(source))
