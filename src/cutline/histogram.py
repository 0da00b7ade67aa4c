r"""Counts of distinct users per item, in the three shapes a mechanism can be given.

An *open* domain takes its items from the data: an item nobody has does not exist, and only the top ``max_k + 1``
counts are ever looked at. A *closed* domain is a public list of candidates: every candidate exists, with count 0 if
nobody has it. A *bounded* histogram is of an open domain too, and counts each user in a public number of items at most; beside
it the full counts can be looked up. What is private differs between them, so they are types of their own and a mechanism says
which it takes.

All refuse to be pickled or compared, and their ``repr`` shows public shape only: a histogram is raw private data.
"""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray
from cutline.errors import CountsError, DomainError, ParameterError, shortened
from cutline.privacy.curves.base import check_whole
from cutline.ranking import RankedIndices, RankedTail, take, tally

Item: TypeAlias = Hashable

MOST_RANKS = 10**7  # that can be asked for

_ORDERED = (str, int, float, bool, bytes, datetime.date, datetime.time, decimal.Decimal, uuid.UUID)
_LARGEST_BOUND = 10**6  # items per user
_SAME_KIND = "Pass two mappings from item to count, or two arrays over the same items, counted from the same log."


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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class BoundedHistogram(_Ranked):
    r"""Counts of an open domain in which each user counts for at most ``max_items_per_user`` items, and all counts beside them.

    Let h be the bounded counts: of each user that many items at most are kept, by a rule that reads this user's rows alone.
    Let g be the full counts, of all users of an item. One user moves h by at most 1 in at most that many items, and g by at
    most 1. All of h is here as a tally; a name or a count of g leaves its engine only when it is asked for.

    Parameters
    ----------
    items
        The items with h of at least ``start``, by h descending, then by the item's own order. May be lazy, a
        `cutline.ranking.Ranked`.
    values, multiplicities
        The distinct h of those items, descending, and how many items have each.
    full_counts
        Returns g of the items at some ranks (from 0), in one look-up.
    max_items_per_user
        The bound; public.
    start
        The smallest h that was kept; public, and 1 unless the tail was left where it is.
    parts
        In how many parts a user's vote is counted; public. 1: a vote counts whole or not at all. 8: h is in eighths of a vote,
        and the squares of the weights that a user gives sum to at most ``max_items_per_user``.

    Examples
    --------
    >>> histogram = BoundedHistogram.from_counts({"a": 9, "b": 8, "c": 2}, {"a": 3, "b": 5}, max_items_per_user=1)
    >>> histogram.named([0, 1]), histogram.values.tolist(), histogram.full_counts([0, 1]).tolist(), histogram
    (('b', 'a'), [5, 3], [8, 9], BoundedHistogram(max_items_per_user=1))
    """

    items: Sequence[Item]
    values: IntArray
    multiplicities: IntArray
    full_counts: Callable[[Sequence[int]], IntArray]
    max_items_per_user: int
    start: int = 1
    parts: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_items_per_user", check_bound(self.max_items_per_user))

    @classmethod
    def from_counts(
        cls,
        full: Mapping[Any, int] | npt.NDArray[Any],
        bounded: Mapping[Any, int] | npt.NDArray[Any],
        *,
        max_items_per_user: int,
        start: int = 1,
        parts: int = 1,
    ) -> Self:
        """Take ready-made counts, full and bounded; an item that ``bounded`` does not name counts 0 there."""
        items, g = read_counts(full)
        names, h = read_counts(bounded)
        matched = isinstance(full, Mapping) == isinstance(bounded, Mapping) and len(h) <= len(g)
        if isinstance(full, Mapping) and matched:
            counted = dict(zip(names, h.tolist(), strict=True))
            h = np.array([counted.pop(item, 0) for item in items], dtype=np.int64)
            matched = not any(counted.values())
        if not matched or len(h) != len(g) or np.any(h > parts * g):
            raise CountsError("a bounded count is at most the full count of its item", "", _SAME_KIND)
        order = _rank(items, h)
        order = order[h[order] >= start]
        values, multiplicities = tally(h[order])
        ranked_full = g[order]
        return cls(
            items=tuple(items[i] for i in order),
            values=values,
            multiplicities=multiplicities,
            full_counts=lambda ranks: ranked_full[np.asarray(ranks, dtype=np.int64)],
            max_items_per_user=max_items_per_user,
            start=start,
            parts=parts,
        )

    def named(self, ranks: Sequence[int]) -> tuple[Item, ...]:
        """Return the items at these ranks (from 0), in one look-up."""
        return take(self.items, ranks)

    def chosen(self, ranks: Sequence[int]) -> ClosedHistogram:
        r"""Return the full counts of the items at these ranks as a closed domain: once they went out, they are a public list.

        Examples
        --------
        >>> histogram = BoundedHistogram.from_counts({"a": 9, "b": 8, "c": 9}, {"a": 3, "b": 5}, max_items_per_user=1)
        >>> public = histogram.chosen([0, 1])
        >>> public.top(2), public.values.tolist()
        (('a', 'b'), [9, 8])
        """
        counts = self.full_counts(ranks)
        return ClosedHistogram.from_counts(dict(zip(self.named(ranks), counts.tolist(), strict=True)))

    def gaps(self, max_k: int) -> NoReturn:
        """Refuse: which gaps are stable is asked of full counts."""
        del max_k
        raise DomainError(
            "this mechanism works on the counts of all users",
            "counts with a bound on items per user",
            "Leave max_items_per_user out, or take find-then-choose or table-threshold.",
        )

    after = up_to = gaps  # are about gaps too

    def __repr__(self) -> str:
        return f"BoundedHistogram(max_items_per_user={self.max_items_per_user})"


Histogram: TypeAlias = OpenHistogram | ClosedHistogram | BoundedHistogram


def check_bound(max_items_per_user: object) -> int:
    """Return the bound as an integer; raise if it is not a whole number from 1 to 10^6."""
    number = max_items_per_user
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 1 <= number <= _LARGEST_BOUND:
        raise ParameterError(
            f"max_items_per_user must be a whole number from 1 to {_LARGEST_BOUND}",
            f"max_items_per_user={shortened(number)}",
            "Try max_items_per_user=50.",
        )
    return int(number)


def check_max_k(max_k: int) -> None:
    """Refuse a ``max_k`` that is not a whole number from 1 to ten million."""
    check_whole("max_k", max_k, "Try max_k=100.", most=MOST_RANKS)


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
