r"""Distinct users per item, exactly, inside DuckDB.

All functions read the engine's view ``votes (u, i)``, or ``votes (u, i, b)`` with groups, whose rows all have a user and
an item. Lists are tables ``candidates (place, value)`` and ``groups (place, value)``.
"""

from __future__ import annotations

from typing import Any

from cutline.counting.engines.duck.engine import Engine
from cutline.counting.question import Grouping

# Distinct users of the items of one table (i, place): pairs with a small number take less room than pairs with a name.
_TALLY = """
    SELECT i, n FROM (
        SELECT place, count(*) AS n FROM (SELECT DISTINCT place, u FROM votes JOIN {0} USING (i)) GROUP BY place
    ) JOIN {0} USING (place)
"""
_TALLY_ALL = "SELECT i, count(*) AS n FROM (SELECT DISTINCT i, u FROM votes) GROUP BY i"
_PLACED = "SELECT i, CAST(row_number() OVER () AS INTEGER) AS place FROM"
# A user's groups in an order of the user's own: 48 bits of a hash are compared within one user only.
_KEPT = """
    SELECT g, u FROM (SELECT DISTINCT g, u FROM pairs) JOIN salts USING (g)
    QUALIFY row_number() OVER (PARTITION BY u ORDER BY left(sha256(salt || CAST(u AS VARCHAR)), 12), g) <= {0}
"""


def top_of_all(engine: Engine, *, max_k: int, cheap: bool) -> list[tuple[Any, ...]]:
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


def top_of_groups(engine: Engine, grouping: Grouping, *, max_k: int) -> list[tuple[Any, ...]]:
    """Return rows (group, item, count) of the top ``max_k + 1`` items of each group, from one pass over the log."""
    source = "SELECT DISTINCT groups.place AS g, i, u FROM votes JOIN groups ON b = groups.value"
    _tally_groups(engine, grouping, source, named="i")
    return engine.rows(
        "SELECT g, i, n FROM tally "
        f"QUALIFY row_number() OVER (PARTITION BY g ORDER BY n DESC, i) <= {max_k + 1} ORDER BY g, n DESC, i"
    )


def tally_candidates(engine: Engine, grouping: Grouping | None) -> tuple[Any, Any]:
    """Return pyarrow tables: the candidates' places in the items' own order, and the positive counts (g, place, n)."""
    if grouping is None:
        engine.run(
            "CREATE TEMP TABLE tally AS SELECT 0 AS g, place, count(*) AS n FROM "
            "(SELECT DISTINCT place, u FROM votes JOIN candidates ON i = value) GROUP BY place",
            until=0.98,
        )
    else:
        source = (
            "SELECT DISTINCT groups.place AS g, candidates.place AS place, u FROM votes "
            "JOIN groups ON b = groups.value JOIN candidates ON i = candidates.value"
        )
        _tally_groups(engine, grouping, source, named="place")
    return engine.arrow("SELECT place FROM candidates ORDER BY value"), engine.arrow("SELECT g, place, n FROM tally")


def _tally_groups(engine: Engine, grouping: Grouping, source: str, *, named: str) -> None:
    """Count ``source``, distinct triples of group, item and user, into the table ``tally``."""
    if grouping.limit is None:
        engine.run(
            f"CREATE TEMP TABLE tally AS SELECT g, {named}, count(*) AS n FROM ({source}) GROUP BY g, {named}",
            until=0.95,
        )
        return
    import pyarrow as pa

    engine.register("salts", pa.table({"g": pa.array(range(len(grouping.salts)), pa.int32()), "salt": grouping.salts}))
    engine.run(f"CREATE TEMP TABLE pairs AS {source}", until=0.6)
    engine.run(f"CREATE TEMP TABLE kept AS {_KEPT.format(grouping.limit)}", until=0.8)
    engine.run(
        f"CREATE TEMP TABLE tally AS SELECT g, {named}, count(*) AS n FROM pairs SEMI JOIN kept USING (g, u) "
        f"GROUP BY g, {named}",
        until=0.95,
    )
