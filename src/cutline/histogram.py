r"""Counts of distinct users per item, in the two shapes a mechanism can be given.

An *open* domain takes its items from the data: an item nobody has does not exist, and only the top ``max_k + 1``
counts are ever looked at. A *closed* domain is a public list of candidates: every candidate exists, with count 0 if
nobody has it. What is private differs between the two, so they are two types and a mechanism says which it takes.

Both refuse to be pickled or compared, and their ``repr`` shows public shape only: a histogram is raw private data.
"""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray
from cutline.errors import CountsError, ParameterError
from cutline.ranking import RankedIndices, RankedTail, take, tally

Item: TypeAlias = Hashable

_ORDERED = (str, int, float, bool, bytes, datetime.date, datetime.time, decimal.Decimal, uuid.UUID)


class _Ranked:
    """Items by rank, as raw private data: it never leaves the process by accident."""

    __slots__ = ()
    items: Sequence[Item]

    def top(self, n: int) -> tuple[Item, ...]:
        """Return the ``n`` first items, or all of them if there are fewer; an open domain has those that were seen."""
        return tuple(self.items[:n])

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("A histogram is private data and is not pickled. Pickle the release instead.")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class OpenHistogram(_Ranked):
    r"""The top ``max_k + 1`` counts of an open domain.

    Parameters
    ----------
    items
        The seen items among the top ``max_k + 1``, by count descending, then by the item's own order.
    counts
        Exactly ``max_k + 1`` counts, descending; missing items count 0.
    max_k
        The largest cut anyone may ask about; public.

    Examples
    --------
    >>> histogram = OpenHistogram.from_counts({"a": 9, "b": 9, "c": 2}, max_k=4)
    >>> histogram.gaps(4).tolist(), histogram.top(2), histogram
    ([0, 7, 2, 0], ('a', 'b'), OpenHistogram(max_k=4))
    """

    items: Sequence[Item]
    counts: IntArray
    max_k: int

    @classmethod
    def from_counts(cls, counts: Mapping[Any, int] | npt.NDArray[Any], *, max_k: int) -> Self:
        """Keep the top ``max_k + 1`` of ready-made counts; items with count 0 are unseen."""
        check_max_k(max_k)
        items, values = read_counts(counts)
        order = _rank(items, values)[: max_k + 1]
        order = order[values[order] > 0]
        padded = np.zeros(max_k + 1, dtype=np.int64)
        padded[: len(order)] = values[order]
        return cls(items=tuple(items[i] for i in order), counts=padded, max_k=max_k)

    def gaps(self, max_k: int) -> IntArray:
        """Return ``h_(k) - h_(k+1)`` for k = 1..max_k."""
        if max_k > self.max_k:
            raise ParameterError(
                "the histogram must hold max_k + 1 counts",
                f"max_k={max_k}, counted with max_k={self.max_k}",
                "Count again with the larger max_k.",
            )
        return -np.diff(self.counts[: max_k + 1])

    def after(self, prefix: int) -> OpenHistogram:
        r"""Return what is left without the first ``prefix`` ranks; it looks at ``max_k - prefix`` ranks.

        Examples
        --------
        >>> left = OpenHistogram.from_counts({"a": 9, "b": 7, "c": 2}, max_k=4).after(2)
        >>> left, left.items, left.gaps(2).tolist()
        (OpenHistogram(max_k=2), ('c',), [2, 0])
        """
        return OpenHistogram(items=self.items[prefix:], counts=self.counts[prefix:], max_k=self.max_k - prefix)

    def without(self, items: Collection[Item]) -> OpenHistogram:
        r"""Return what is left without items listed from the top; it looks at as many ranks fewer.

        Examples
        --------
        >>> left = OpenHistogram.from_counts({"a": 9, "b": 7, "c": 2}, max_k=4).without(["b"])
        >>> left, left.items, left.gaps(3).tolist()
        (OpenHistogram(max_k=3), ('a', 'c'), [7, 2, 0])
        """
        listed = frozenset(items)
        kept = np.ones(len(self.counts), dtype=np.bool_)
        kept[: len(self.items)] = [item not in listed for item in self.items]
        rest = tuple(item for item in self.items if item not in listed)
        return OpenHistogram(items=rest, counts=self.counts[kept], max_k=self.max_k - len(listed))

    def up_to(self, prefix: int) -> ClosedHistogram:
        r"""Return the first ``prefix`` ranks as a closed domain: once released, they are a public list.

        Examples
        --------
        >>> above = OpenHistogram.from_counts({"a": 9, "b": 7, "c": 7, "d": 2}, max_k=4).up_to(3)
        >>> above, above.top(3), above.values.tolist(), above.multiplicities.tolist()
        (ClosedHistogram(candidates=3), ('a', 'b', 'c'), [9, 7], [1, 2])
        """
        items = self.top(prefix)
        values, multiplicities = tally(self.counts[: len(items)])
        return ClosedHistogram(items=items, values=values, multiplicities=multiplicities)

    def __repr__(self) -> str:
        return f"OpenHistogram(max_k={self.max_k})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ClosedHistogram(_Ranked):
    r"""All counts of a closed domain, as distinct values and how many candidates share each.

    Parameters
    ----------
    items
        The candidates by rank: count descending, then the item's own order. May be lazy, a `cutline.ranking.Ranked`.
    values
        The distinct counts, descending.
    multiplicities
        How many candidates have each of ``values``.

    Examples
    --------
    >>> histogram = ClosedHistogram.from_counts({"a": 9, "b": 0, "c": 9})
    >>> histogram.gaps(4).tolist(), histogram.top(3), histogram
    ([0, 9, 0, 0], ('a', 'c', 'b'), ClosedHistogram(candidates=3))
    """

    items: Sequence[Item]
    values: IntArray
    multiplicities: IntArray

    @classmethod
    def from_counts(cls, counts: Mapping[Any, int] | npt.NDArray[Any]) -> Self:
        """Take ready-made counts of all candidates; an array's items are its indices, ranked when looked at."""
        items, array = read_counts(counts)
        values, multiplicities = tally(array)
        ranked: Sequence[Item]
        if isinstance(items, range):
            ranked = RankedIndices(array, values, multiplicities)
        else:
            ranked = tuple(items[i] for i in _rank(items, array))
        return cls(items=ranked, values=values, multiplicities=multiplicities)

    @property
    def size(self) -> int:
        """The number of candidates; public."""
        return len(self.items)

    def named(self, ranks: Sequence[int]) -> tuple[Item, ...]:
        """Return the candidates at these ranks (from 0), in one look-up."""
        return take(self.items, ranks)

    def gaps(self, max_k: int) -> IntArray:
        """Return ``h_(k) - h_(k+1)`` for k = 1..max_k, with ``h_(i) = 0`` past the last candidate."""
        ends = np.cumsum(self.multiplicities)
        groups = np.searchsorted(ends, np.arange(min(max_k + 1, self.size)), side="right")
        counts = np.zeros(max_k + 1, dtype=np.int64)
        counts[: len(groups)] = self.values[groups]
        return -np.diff(counts)

    def after(self, prefix: int) -> ClosedHistogram:
        """Return the candidates without the first ``prefix`` ranks."""
        return self._between(prefix, self.size, RankedTail(self.items, prefix))

    def up_to(self, prefix: int) -> ClosedHistogram:
        """Return the candidates of the first ``prefix`` ranks."""
        items = self.top(prefix)
        return self._between(0, len(items), items)

    def upside_down(self) -> ClosedHistogram:
        r"""Return how far each candidate is below the first, so that the last ranks are on top.

        Counts that move by one person's doing still move by as much, in the other direction.

        Examples
        --------
        >>> turned = ClosedHistogram.from_counts({"a": 9, "b": 7, "c": 7}).upside_down()
        >>> turned.top(3), turned.values.tolist(), turned.multiplicities.tolist()
        (('c', 'b', 'a'), [2, 0], [2, 1])
        """
        return ClosedHistogram(
            items=tuple(self.items)[::-1],
            values=(self.values[:1] - self.values)[::-1],
            multiplicities=self.multiplicities[::-1],
        )

    def _between(self, first: int, last: int, items: Sequence[Item]) -> ClosedHistogram:
        """Return the ranks from ``first`` up to ``last``, which have these items."""
        ends = np.cumsum(self.multiplicities)
        sizes = np.clip(ends, first, last) - np.clip(ends - self.multiplicities, first, last)
        kept = sizes > 0
        return ClosedHistogram(items=items, values=self.values[kept], multiplicities=sizes[kept])

    def __repr__(self) -> str:
        return f"ClosedHistogram(candidates={self.size})"


Histogram: TypeAlias = OpenHistogram | ClosedHistogram


def check_max_k(max_k: int) -> None:
    """Refuse a ``max_k`` that is not a whole number of at least 1."""
    if isinstance(max_k, bool) or not isinstance(max_k, int | np.integer) or max_k < 1:
        raise ParameterError("max_k must be a whole number of at least 1", f"max_k={max_k}", "Try max_k=100.")


def read_counts(counts: Mapping[Any, int] | npt.NDArray[Any]) -> tuple[Sequence[Item], IntArray]:
    """Split ready-made counts into items and int64 values; no message ever quotes a count."""
    way_out = "Pass the number of distinct users of each item as an integer."
    if isinstance(counts, Mapping):
        items: Sequence[Item] = list(counts.keys())
        raw = list(counts.values())
        if any(isinstance(n, bool | np.bool_) or not isinstance(n, int | np.integer) for n in raw):
            raise CountsError("counts must be whole numbers", "another type", way_out)
        if any(not 0 <= int(n) < 2**42 for n in raw):
            raise CountsError("counts must be at least 0 and below 2**42", "", way_out)
        return items, np.array([int(n) for n in raw], dtype=np.int64)
    array = np.asarray(counts)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise CountsError(
            "counts must be one-dimensional whole numbers",
            f"{array.dtype} in {array.ndim} dimensions",
            way_out,
        )
    if array.size and (array.min() < 0 or array.max() >= 2**42):
        raise CountsError("counts must be at least 0 and below 2**42", "", way_out)
    return range(len(array)), array.astype(np.int64)


def item_key(item: Item) -> tuple[str, Any]:
    """Return the item's own place in an order that depends on nothing but the item: its type, then its value."""
    kind = type(item)
    if isinstance(item, float | decimal.Decimal) and math.isnan(item):
        return f"{kind.__name__}, not a number", repr(item)
    if isinstance(item, datetime.datetime | datetime.time):
        return kind.__name__, item.isoformat()
    return kind.__name__, item if kind in _ORDERED else repr(item)


def _rank(items: Sequence[Item], values: IntArray) -> npt.NDArray[np.intp]:
    """Order by count descending, then by the item's own order."""
    if isinstance(items, range):
        return np.argsort(-values, kind="stable")
    by_item = sorted(range(len(items)), key=lambda i: item_key(items[i]))
    ranked = np.array(by_item, dtype=np.intp)
    return ranked[np.argsort(-values[ranked], kind="stable")]
