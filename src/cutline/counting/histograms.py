r"""From what leaves an engine to histograms; the same for all engines.

Of an open domain, the top ``max_k + 1`` items of each group leave. Of a closed one, the positive counts of the candidates
leave, all at once, so that counts and names are of one reading of the log; they are ranked when somebody looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from cutline.arrays import IntArray
from cutline.histogram import ClosedHistogram, Histogram, Item, OpenHistogram
from cutline.ranking import Ranked, RankedIndices, tally


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
    places = order.column("place").to_numpy()
    own_ranks = np.empty(len(candidates), dtype=np.intp)
    own_ranks[places] = np.arange(len(candidates))
    group_of, place_of, counts = (counted.column(name).to_numpy() for name in ("g", "place", "n"))
    by_group = np.argsort(group_of, kind="stable")
    members = np.split(by_group, np.searchsorted(group_of[by_group], np.arange(1, groups)))
    tallies = [_tally_all(counts[part], len(candidates)) for part in members]

    # There is room for the order of one group: that of whoever looked last.
    @lru_cache(maxsize=1)
    def rank(group: int) -> RankedIndices:
        in_own_order = np.zeros(len(candidates), dtype=np.int64)
        in_own_order[own_ranks[place_of[members[group]]]] = counts[members[group]]
        return RankedIndices(in_own_order, *tallies[group])

    return [
        ClosedHistogram(
            items=RankedCandidates(candidates, places, partial(rank, group)),
            values=values,
            multiplicities=multiplicities,
        )
        for group, (values, multiplicities) in enumerate(tallies)
    ]


def _tally_all(counts: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return the distinct counts of ``size`` candidates and their multiplicities, from those counts that are positive."""
    values, multiplicities = tally(counts)
    if size == len(counts):
        return values, multiplicities
    return np.append(values, 0), np.append(multiplicities, size - len(counts))


class RankedCandidates(Ranked):
    """The candidates of one group by rank, from the rank of each in the items' own order."""

    __slots__ = ("_candidates", "_places", "_rank")

    def __init__(self, candidates: Sequence[Item], places: IntArray, rank: Callable[[], RankedIndices]) -> None:
        self._candidates, self._places, self._rank = candidates, places, rank

    def __len__(self) -> int:
        return len(self._candidates)

    def take(self, ranks: Iterable[int]) -> tuple[Item, ...]:
        return tuple(self._candidates[self._places[index]] for index in self._rank().take(ranks))
