r"""Items by rank, looked up only when somebody asks for them, and the distinct counts of a count array.

A mechanism on groups of equal counts asks for a handful of names at the end. Ranking every candidate for that costs more than
all its draws together, so an array is tallied at once and ranked only as deep as somebody looks. Where the order comes from
differs (a count array, an engine that has counted, a longer ranking), what one can ask does not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray

Indices: TypeAlias = npt.NDArray[np.intp]

_BINS = 1 << 16  # counts below it are tallied by address; two bytes are also what numpy sorts by radix
_SHALLOW = 4096  # ranks that are always worth finding by a threshold
_FEW_GROUPS = 16  # so many groups are found one by one before it is quicker to rank everything


def tally(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct values, descending, and how often each occurs.

    Examples
    --------
    >>> [part.tolist() for part in tally(np.array([3, 0, 3, 70_000]))]
    [[70000, 3, 0], [1, 2, 1]]
    """
    times = np.bincount(np.minimum(counts, _BINS))[:_BINS]
    low = np.flatnonzero(times)
    high, high_times = np.unique(counts[counts >= _BINS], return_counts=True)
    values = np.concatenate([high[::-1], low[::-1]]).astype(np.int64)
    return values, np.concatenate([high_times[::-1], times[low][::-1]]).astype(np.int64)


class Ranked(ABC, Sequence[Hashable]):
    """Items by rank, from 0, that are looked up only when somebody asks for them."""

    __slots__ = ()

    @abstractmethod
    def take(self, ranks: Iterable[int]) -> tuple[Hashable, ...]:
        """Return the items at these ranks, which exist, in one look-up."""

    def remembered(self) -> Mapping[int, Hashable]:
        """Return items that were looked up before, by rank, as far as they were kept."""
        return {}

    @overload
    def __getitem__(self, index: int) -> Hashable: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hashable, ...]: ...
    def __getitem__(self, index: int | slice) -> Hashable | tuple[Hashable, ...]:
        ranks = range(len(self))[index]
        return self.take([ranks])[0] if isinstance(ranks, int) else self.take(ranks)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.take(range(len(self))))


def take(items: Sequence[Hashable], ranks: Iterable[int]) -> tuple[Hashable, ...]:
    """Return the items at these ranks, in one look-up if they are looked up at all."""
    return items.take(ranks) if isinstance(items, Ranked) else tuple(items[rank] for rank in ranks)


class RankedTail(Ranked):
    """A ranked sequence without its first items; nothing is copied, and nothing looked up before it is asked for."""

    __slots__ = ("_items", "_skipped")

    def __init__(self, items: Sequence[Hashable], skipped: int) -> None:
        self._items, self._skipped = items, min(skipped, len(items))

    def __len__(self) -> int:
        return len(self._items) - self._skipped

    def take(self, ranks: Iterable[int]) -> tuple[Hashable, ...]:
        """Return the items at these ranks of what is left."""
        return take(self._items, [self._skipped + rank for rank in ranks])


class RankedIndices(Ranked):
    """Indices of a count array by count descending, then by index; ranked no deeper than asked.

    Parameters
    ----------
    counts
        One count per index; kept, so it must not change.
    values, multiplicities
        What `tally` says of them.
    """

    __slots__ = ("_counts", "_ends", "_members", "_order", "_shallow", "_values")

    def __init__(self, counts: IntArray, values: IntArray, multiplicities: IntArray) -> None:
        self._counts = counts
        self._values = values
        self._ends = np.cumsum(multiplicities)
        # The first ranks, in whole groups, are found by a threshold; a group below them by its count.
        groups = int(np.searchsorted(self._ends, _SHALLOW + len(counts) // 16, side="right"))
        self._shallow = int(self._ends[groups - 1]) if groups else 0
        self._order: Indices = np.empty(0, dtype=np.intp)  # of the first ranks, as many as were needed so far
        self._members: dict[int, Indices] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def take(self, ranks: Iterable[int]) -> tuple[int, ...]:
        """Return the indices at these ranks."""
        wanted = np.fromiter(ranks, dtype=np.int64)
        known = wanted < len(self._order)
        if not known.all():
            groups = np.searchsorted(self._ends, wanted, side="right")
            deep = wanted >= self._shallow
            if len(np.unique(groups[deep])) > _FEW_GROUPS:
                self._order = self._sorted()
            elif not known[~deep].all():
                self._order = self._above(int(groups[~deep].max()))
            known = wanted < len(self._order)
        found = np.empty(len(wanted), dtype=np.intp)
        found[known] = self._order[wanted[known]]
        for at in np.flatnonzero(~known).tolist():
            group = int(groups[at])
            found[at] = self._group(group)[wanted[at] - self._ends[group]]  # counted from the group's end
        return tuple(found.tolist())

    def _above(self, group: int) -> Indices:
        """Rank the groups down to this one."""
        found = np.flatnonzero(self._counts >= self._values[group])
        return found[np.argsort(-self._counts[found], kind="stable")]

    def _group(self, group: int) -> Indices:
        """Return the members of one group, found once."""
        if group not in self._members:
            self._members[group] = np.flatnonzero(self._counts == self._values[group])
        return self._members[group]

    def _sorted(self) -> Indices:
        """Rank everything. Two bytes are sorted in linear time; only counts they cannot tell apart are sorted once more."""
        order = np.argsort((_BINS - 1 - np.minimum(self._counts, _BINS - 1)).astype(np.uint16), kind="stable")
        alike = int(np.searchsorted(-self._values, -(_BINS - 1), side="right"))
        head = order[: self._ends[alike - 1] if alike else 0]
        order[: len(head)] = head[np.argsort(-self._counts[head], kind="stable")]
        self._members.clear()
        return order
