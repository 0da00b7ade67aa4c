r"""Histograms whose names are looked up by rank: of candidates from arrays, of bounded counts where they were counted.

A mechanism on such a histogram reads how many items have which count, and asks for a handful of names at the end. So names
leave their place only when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np

from cutline.arrays import IntArray
from cutline.errors import EngineError
from cutline.histogram import BoundedHistogram, ClosedHistogram, Histogram, Item
from cutline.ranking import Ranked, RankedIndices, tally


class Kept(Protocol):
    """Bounded and full counts of items, which stay in the engine that counted them; one reading of the log made both."""

    def tally(self) -> Sequence[tuple[int, int, int]]:
        """Return rows (group, bounded count, number of items that have it); bounded counts of 0 are left out."""

    def find(self, group: int, wanted: Sequence[tuple[int, int]], /) -> dict[tuple[int, int], tuple[Item, int]]:
        """Return the item and its full count at each wanted (bounded count, place among its equals in the items' own order)."""


def bounded_histograms(kept: Kept, *, groups: int, max_items_per_user: int, parts: int) -> list[Histogram]:
    """Return one histogram per group; names and full counts stay where they are until somebody asks for them."""
    counted: list[list[tuple[int, int]]] = [[] for _ in range(groups)]
    for group, value, times in kept.tally():
        counted[group].append((value, times))
    histograms: list[Histogram] = []
    for group, own in enumerate(counted):
        table = np.array(sorted(own, reverse=True), dtype=np.int64).reshape(-1, 2)
        values, multiplicities = table[:, 0].copy(), table[:, 1].copy()
        items = _KeptItems(kept, group, values, multiplicities)
        histograms.append(
            BoundedHistogram(
                items=items,
                values=values,
                multiplicities=multiplicities,
                full_counts=items.full_counts,
                max_items_per_user=max_items_per_user,
                parts=parts,
            )
        )
    return histograms


class _KeptItems(Ranked):
    """The items of one group by rank; what was asked for once is remembered."""

    __slots__ = ("_ends", "_found", "_group", "_kept", "_values")

    def __init__(self, kept: Kept, group: int, values: IntArray, multiplicities: IntArray) -> None:
        self._kept, self._group, self._values = kept, group, values
        self._ends = np.cumsum(multiplicities)
        self._found: dict[int, tuple[Item, int]] = {}

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def take(self, ranks: Iterable[int]) -> tuple[Item, ...]:
        return tuple(item for item, _ in self._look_up(ranks))

    def remembered(self) -> dict[int, Item]:
        return {rank: item for rank, (item, _) in self._found.items()}

    def full_counts(self, ranks: Iterable[int]) -> IntArray:
        """Return the full counts of the items at these ranks."""
        return np.array([count for _, count in self._look_up(ranks)], dtype=np.int64)

    def _look_up(self, ranks: Iterable[int]) -> list[tuple[Item, int]]:
        asked = [int(rank) for rank in ranks]
        new = np.array(sorted(set(asked) - self._found.keys()), dtype=np.int64)
        if len(new):
            equals = np.searchsorted(self._ends, new, side="right")
            starts = np.concatenate([[0], self._ends])[equals]
            wanted = list(zip(self._values[equals].tolist(), (new - starts).tolist(), strict=True))
            found = self._kept.find(self._group, wanted)
            if len(found) != len(wanted):
                raise EngineError(
                    "the counts must stay as they were counted", "", "Count again when nobody writes to the log."
                )
            self._found.update(zip(new.tolist(), (found[place] for place in wanted), strict=True))
        return [self._found[rank] for rank in asked]


def closed_histograms(candidates: Sequence[Item], *, order: Any, counted: Any, groups: int) -> list[Histogram]:
    """Return one histogram per group; the positive counts are of one reading of the log, and are ranked when somebody looks.

    ``order`` is a pyarrow table ``place``, the places of the candidates in the items' own order, and ``counted`` one of
    ``g, place, n``, the positive counts.
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
            items=_RankedCandidates(candidates, places, partial(rank, group)),
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


class _RankedCandidates(Ranked):
    """The candidates of one group by rank, from the rank of each in the items' own order."""

    __slots__ = ("_candidates", "_places", "_rank")

    def __init__(self, candidates: Sequence[Item], places: IntArray, rank: Callable[[], RankedIndices]) -> None:
        self._candidates, self._places, self._rank = candidates, places, rank

    def __len__(self) -> int:
        return len(self._candidates)

    def take(self, ranks: Iterable[int]) -> tuple[Item, ...]:
        return tuple(self._candidates[self._places[index]] for index in self._rank().take(ranks))
