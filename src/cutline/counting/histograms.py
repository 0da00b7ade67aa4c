r"""From what leaves an engine to histograms; the same for all engines.

Of an open domain, the top ``max_k + 1`` items of each group leave. Of a closed one, a table of candidates by place with
their counts leaves, all at once, so that counts and names are of one reading of the log; it goes straight into an engine
of this process and is asked rank by rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cutline.counting.engines.duck.engine import Engine
from cutline.histogram import ClosedHistogram, Histogram, Item, OpenHistogram
from cutline.ranking import Ranked

# Candidates by rank within one group: count descending, then the item's own order, which was fixed when they were listed.
_RANKED = """
    SELECT place, row_number() OVER (ORDER BY coalesce(n, 0) DESC, rank) - 1 AS rank
    FROM listed LEFT JOIN (SELECT place, n FROM counted WHERE g = {}) USING (place)
"""


def open_histograms(rows: Iterable[Sequence[Any]], *, groups: int, max_k: int) -> list[Histogram]:
    """Pad rows (group, item, count), which come in order, to one histogram per group."""
    items: list[list[Item]] = [[] for _ in range(groups)]
    counts = np.zeros((groups, max_k + 1), dtype=np.int64)
    for group, item, count in rows:
        counts[group, len(items[group])] = count
        items[group].append(item)
    return [OpenHistogram(items=tuple(items[g]), counts=counts[g], max_k=max_k) for g in range(groups)]


def closed_histograms(candidates: Sequence[Item], *, order: Any, counted: Any, groups: int) -> list[Histogram]:
    """Return one histogram per group.

    Parameters
    ----------
    candidates
        The caller's list.
    order
        A pyarrow table ``place``: the places in that list in the items' own order.
    counted
        A pyarrow table ``g, place, n``: the positive counts.
    groups
        How many groups there are, from 0.
    """
    # Without a limit: the tables are in memory already, and how full they are, which is private, must not decide a refusal.
    engine = Engine()
    engine.register("given_order", order)
    engine.register("given_counts", counted)
    engine.run("CREATE TABLE listed AS SELECT place, row_number() OVER () AS rank FROM given_order")
    engine.run("CREATE TABLE counted AS SELECT g, place, n FROM given_counts ORDER BY g")
    shares: list[dict[int, int]] = [{} for _ in range(groups)]
    for g, n, candidates_with_it in engine.rows("SELECT g, n, count(*) FROM counted GROUP BY g, n ORDER BY g, n DESC"):
        shares[g][n] = candidates_with_it
    counted_candidates = _CountedCandidates(candidates, engine)
    histograms: list[Histogram] = []
    for g, share in enumerate(shares):
        unseen = len(candidates) - sum(share.values())
        if unseen:
            share[0] = unseen
        histograms.append(
            ClosedHistogram(
                items=RankedCandidates(counted_candidates, group=g),
                values=np.array(list(share), dtype=np.int64),
                multiplicities=np.array(list(share.values()), dtype=np.int64),
            )
        )
    return histograms


class _CountedCandidates:
    """The counts of all groups in an engine, with room for the order of one of them: that of whoever looked last."""

    __slots__ = ("_candidates", "_engine", "_group")

    def __init__(self, candidates: Sequence[Item], engine: Engine) -> None:
        self._candidates = candidates
        self._engine = engine
        self._group: int | None = None

    def __len__(self) -> int:
        return len(self._candidates)

    def take(self, group: int, ranks: Iterable[int]) -> tuple[Item, ...]:
        """Return the candidates at these ranks of a group, in one query."""
        wanted = [int(rank) for rank in ranks]
        if not wanted:
            return ()
        if group != self._group:
            self._engine.run(f"CREATE OR REPLACE TABLE ranked AS {_RANKED.format(group)}")
            self._group = group
        low, high = min(wanted), max(wanted)
        if high - low < 2 * len(wanted):  # a run of ranks; a long list of them would be slow to hand over
            run = "SELECT place FROM ranked WHERE rank BETWEEN $1 AND $2 ORDER BY rank"
            places = [place for (place,) in self._engine.rows(run, [low, high])]
            return tuple(self._candidates[places[rank - low]] for rank in wanted)
        listed = "SELECT rank, place FROM ranked WHERE rank IN (SELECT unnest($1))"
        place_of = dict(self._engine.rows(listed, [wanted]))
        return tuple(self._candidates[place_of[rank]] for rank in wanted)


class RankedCandidates(Ranked):
    """The candidates of one group by rank; the order stays in the engine."""

    __slots__ = ("_counted", "_group")

    def __init__(self, counted: _CountedCandidates, *, group: int) -> None:
        self._counted = counted
        self._group = group

    def __len__(self) -> int:
        return len(self._counted)

    def take(self, ranks: Iterable[int]) -> tuple[Item, ...]:
        """Return the candidates at these ranks in one look-up."""
        return self._counted.take(self._group, ranks)
