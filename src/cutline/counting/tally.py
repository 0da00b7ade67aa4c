r"""Distinct users per item, exactly, inside the engine.

Both functions read the engine's view ``votes (u, i)``, whose rows all have a user and an item.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cutline.counting.candidates import RankedCandidates
from cutline.counting.engine import Engine
from cutline.histogram import ClosedHistogram, Item, OpenHistogram

# Distinct users of the items of one table (i, place): pairs with a small number take less room than pairs with a name.
_TALLY = """
    SELECT i, n FROM (
        SELECT place, count(*) AS n FROM (SELECT DISTINCT place, u FROM votes JOIN {0} USING (i)) GROUP BY place
    ) JOIN {0} USING (place)
"""
_TALLY_ALL = "SELECT i, count(*) AS n FROM (SELECT DISTINCT i, u FROM votes) GROUP BY i"
_PLACED = "SELECT i, CAST(row_number() OVER () AS INTEGER) AS place FROM"


def tally_open(engine: Engine, *, max_k: int, cheap: bool) -> OpenHistogram:
    r"""Return the top ``max_k + 1`` items.

    An item has at most as many users as rows, and rows are cheap to count. So users are told apart only for items
    that can still reach the top: first for the ``2 (max_k + 1)`` with most rows, whose (max_k + 1)-th best count bounds
    the result from below; then for all others with at least that many rows (rarely any). Each row is told apart once.
    """
    if cheap:
        engine.run("CREATE TEMP TABLE loads AS SELECT i, count(*) AS n FROM votes GROUP BY i")
        engine.run(
            f"CREATE TEMP TABLE heads AS {_PLACED} (SELECT i FROM loads ORDER BY n DESC, i LIMIT {2 * (max_k + 1)})"
        )
        engine.run("CREATE TEMP TABLE tally AS " + _TALLY.format("heads"))
        bound = f"(SELECT coalesce(min(n), 1) FROM (SELECT n FROM tally ORDER BY n DESC LIMIT 1 OFFSET {max_k}))"
        engine.run(f"CREATE TEMP TABLE others AS {_PLACED} loads ANTI JOIN heads USING (i) WHERE n >= {bound}")
        if engine.rows("SELECT count(*) FROM others") != [(0,)]:
            engine.run("INSERT INTO tally " + _TALLY.format("others"))
    else:
        engine.run("CREATE TEMP TABLE tally AS " + _TALLY_ALL)
    top = engine.rows(f"SELECT i, n FROM tally ORDER BY n DESC, i LIMIT {max_k + 1}")
    counts = np.zeros(max_k + 1, dtype=np.int64)
    counts[: len(top)] = [n for _, n in top]
    return OpenHistogram(items=tuple(i for i, _ in top), counts=counts, max_k=max_k)


def tally_closed(engine: Engine, candidates: Sequence[Item], *, memory_limit: str | None) -> ClosedHistogram:
    """Return how many candidates have each count, and their order; items outside the list are ignored."""
    engine.run("CREATE TEMP TABLE tally AS " + _TALLY.format("candidates"))
    engine.run(
        "CREATE TEMP TABLE ranked AS SELECT place, i, coalesce(n, 0) AS n FROM candidates LEFT JOIN tally USING (i)"
    )
    groups: list[tuple[Any, ...]] = engine.rows("SELECT n, count(*) FROM ranked GROUP BY n ORDER BY n DESC")
    order = engine.arrow("SELECT place FROM ranked ORDER BY n DESC, i")
    return ClosedHistogram(
        items=RankedCandidates(candidates, order, memory_limit=memory_limit),
        values=np.array([n for n, _ in groups], dtype=np.int64),
        multiplicities=np.array([m for _, m in groups], dtype=np.int64),
    )
