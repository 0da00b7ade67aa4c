r"""Counting with a bound on items per user, on a private DuckDB, beside the counts of all users.

Most users have few items, and whoever has no more than the bound counts in all of them. So users are told apart once, as for
any count, and only the pairs of users with more items are ranked; the others need no hash. Users and items are hashed once
each, and a pair's place among its user's comes from whole numbers.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import ExitStack

from cutline.counting.engines.duck.engine import Engine
from cutline.counting.question import DIGITS, PRIME, SALTS, vote_limits
from cutline.histogram import Item

_HEAP = 1000  # bounds up to this are kept in a heap per user; DuckDB's own limit is a million
# Heaps and sorts are not spilled, so about a million pairs are ranked at a time; each time all of them are passed once.
_AT_ONCE, _MOST_SLICES = 2**20, 64
_MASK = 2**32 - 1
# The chance of a pair, and below it the item's place in the items' own order: no two items of a user are equal.
_ORDERED = f"((((x + a) * (y + b)) % {PRIME}) << 32) | place"


class DuckKept:
    """The table ``bounded (g, i, h, n)`` of an engine that stays open until nobody refers to it any more."""

    __slots__ = ("__weakref__", "_engine", "_finalize")

    def __init__(self, *, engine: Engine, closing: ExitStack) -> None:
        self._engine = engine
        self._finalize = weakref.finalize(self, closing.close)

    def tally(self) -> Sequence[tuple[int, int, int]]:
        found = self._engine.rows("SELECT g, h, count(*) FROM bounded GROUP BY g, h")
        return [(int(group), int(value), int(times)) for group, value, times in found]

    def find(self, group: int, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], tuple[Item, int]]:
        import pyarrow as pa

        values, places = zip(*wanted, strict=True)
        self._engine.register(
            "wanted", pa.table({"h": pa.array(values, pa.int64()), "place": pa.array(places, pa.int64())})
        )
        found = self._engine.rows(
            "SELECT h, place, i, n FROM ("
            "SELECT h, i, n, row_number() OVER (PARTITION BY h ORDER BY i) - 1 AS place FROM bounded "
            f"WHERE g = {group} AND h IN (SELECT h FROM wanted)) JOIN wanted USING (h, place)"
        )
        return {(int(value), int(place)): (item, int(count)) for value, place, item, count in found}


def count_bounded(engine: Engine, source: str, *, grouped: bool, bound: int, parts: int) -> None:
    """Count distinct pairs (i, u), or triples (g, i, u), into the table ``bounded`` of bounded counts h and full counts n.

    ``parts`` above 1 weighs votes instead of keeping some.
    """
    group = "g, " if grouped else ""
    engine.run(f"CREATE TEMP TABLE pairs AS SELECT {group}i, u FROM {source}", until=0.7)
    engine.run(f"CREATE TEMP TABLE totals AS SELECT {group}i, count(*) AS n FROM pairs GROUP BY {group}i", until=0.75)
    engine.run(
        f"CREATE TEMP TABLE busy AS SELECT {group}u, count(*) AS n FROM pairs GROUP BY {group}u HAVING count(*) > {bound}",
        until=0.8,
    )
    if engine.rows("SELECT count(*) FROM busy") == [(0,)]:
        engine.run("CREATE TEMP TABLE moved AS SELECT *, 0 AS kept FROM totals LIMIT 0")
    elif parts > 1:
        weight = " + ".join(f"CAST(busy.n <= {limit} AS INTEGER)" for limit in vote_limits(bound, parts))
        engine.run(
            f"CREATE TEMP TABLE moved AS SELECT {group}i, count(*) AS n, sum({weight}) AS kept "
            f"FROM pairs JOIN busy USING ({group}u) GROUP BY {group}i",
            until=0.95,
        )
    else:
        _move_kept(engine, group, bound=bound)
    place = "g" if grouped else "0"
    engine.run(
        f"CREATE TEMP TABLE bounded AS SELECT {place} AS g, i, CAST(h AS BIGINT) AS h, n FROM ("
        f"SELECT {group}i, totals.n AS n, {parts} * (totals.n - coalesce(moved.n, 0)) + coalesce(kept, 0) AS h "
        f"FROM totals LEFT JOIN moved USING ({group}i)) WHERE h > 0",
        until=0.98,
    )
    for table in ("pairs", "totals", "busy", "moved"):
        engine.run(f"DROP TABLE {table}")


def _move_kept(engine: Engine, group: str, *, bound: int) -> None:
    """Count into ``moved`` the users with more items than the bound, of each item: all (n), and those who keep it (kept)."""
    engine.run(
        f"CREATE TEMP TABLE users AS SELECT {group}u, row_number() OVER () AS who, {_hashed('u', 'a', 'b')} FROM busy"
    )
    ((pairs, items),) = engine.rows("SELECT (SELECT CAST(sum(n) AS BIGINT) FROM busy), (SELECT count(*) FROM totals)")
    # Only the items of these users are needed; to hash a few more costs less than to find out which those are.
    named = "totals" if items <= pairs else f"pairs SEMI JOIN busy USING ({group}u)"
    engine.run(
        f"CREATE TEMP TABLE items AS SELECT i, place, {_hashed('i', 'x', 'y')} "
        f"FROM (SELECT i, row_number() OVER (ORDER BY i) AS place FROM (SELECT DISTINCT i FROM {named}))"
    )
    engine.run(
        f"CREATE TEMP TABLE ranked AS SELECT {group}who, {_ORDERED} AS chance "
        f"FROM pairs JOIN users USING ({group}u) JOIN items USING (i)",
        until=0.88,
    )
    engine.run(f"CREATE TEMP TABLE choices AS SELECT {group}chance AS place, 0 AS kept FROM ranked LIMIT 0")
    slices = min(pairs // _AT_ONCE + 1, _MOST_SLICES)
    for part in range(slices):
        own = f"FROM ranked WHERE who % {slices} = {part}"
        if bound <= _HEAP:
            lowest = f"SELECT {group}min(chance, {bound}) AS lowest {own} GROUP BY {group}who"
            kept = f"SELECT {group}unnest(lowest) & {_MASK} AS place FROM ({lowest})"
        else:
            order = f"row_number() OVER (PARTITION BY {group}who ORDER BY chance)"
            kept = f"SELECT {group}chance & {_MASK} AS place {own} QUALIFY {order} <= {bound}"
        engine.run(
            f"INSERT INTO choices SELECT {group}place, count(*) AS kept FROM ({kept}) GROUP BY {group}place",
            until=0.88 + 0.07 * (part + 1) / slices,
        )
    engine.run(
        f"CREATE TEMP TABLE moved AS SELECT {group}i, n, kept "
        f"FROM (SELECT {group}chance & {_MASK} AS place, count(*) AS n FROM ranked GROUP BY ALL) JOIN items USING (place) "
        f"LEFT JOIN (SELECT {group}place, sum(kept) AS kept FROM choices GROUP BY {group}place) USING ({group}place)",
        until=0.96,
    )
    for table in ("users", "items", "ranked", "choices"):
        engine.run(f"DROP TABLE {table}")


def _hashed(value: str, first: str, second: str) -> str:
    """Return the SQL of the two numbers that a user or an item is hashed to."""
    digest = f"sha256('{SALTS[value]}' || CAST({value} AS VARCHAR))"
    parts = zip((1, 1 + DIGITS), (first, second), strict=True)
    return ", ".join(f"CAST('0x' || substr({digest}, {start}, {DIGITS}) AS BIGINT) AS {name}" for start, name in parts)
