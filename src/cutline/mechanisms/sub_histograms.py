r"""Histograms without items that are already public, and the closed domain that released items are."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from cutline.arrays import IntArray
from cutline.histogram import ClosedHistogram, Histogram, Item, OpenHistogram
from cutline.ranking import RankedTail


def remaining(histogram: Histogram, prefix: int) -> Histogram:
    r"""Return the histogram without its first ``prefix`` ranks; an open one then looks at ``max_k - prefix`` ranks.

    Examples
    --------
    >>> left = remaining(OpenHistogram.from_counts({"a": 9, "b": 7, "c": 2}, max_k=4), 2)
    >>> left, left.items, left.gaps(2).tolist()
    (OpenHistogram(max_k=2), ('c',), [2, 0])
    """
    if isinstance(histogram, OpenHistogram):
        return OpenHistogram(
            items=histogram.items[prefix:], counts=histogram.counts[prefix:], max_k=histogram.max_k - prefix
        )
    values, multiplicities = _between(histogram, prefix, histogram.size)
    return ClosedHistogram(items=RankedTail(histogram.items, prefix), values=values, multiplicities=multiplicities)


def without(histogram: Histogram, items: Collection[Item]) -> Histogram:
    r"""Return an open histogram without items listed from its top; it then looks at as many ranks fewer.

    Examples
    --------
    >>> left = without(OpenHistogram.from_counts({"a": 9, "b": 7, "c": 2}, max_k=4), ["b"])
    >>> left, left.items, left.gaps(3).tolist()
    (OpenHistogram(max_k=3), ('a', 'c'), [7, 2, 0])
    """
    if not items or not isinstance(histogram, OpenHistogram):
        return histogram
    gone = frozenset(items)
    kept = np.ones(len(histogram.counts), dtype=np.bool_)
    kept[: len(histogram.items)] = [item not in gone for item in histogram.items]
    return OpenHistogram(
        items=tuple(item for item in histogram.items if item not in gone),
        counts=histogram.counts[kept],
        max_k=histogram.max_k - len(gone),
    )


def inside(histogram: Histogram, prefix: int) -> ClosedHistogram:
    r"""Return the first ``prefix`` ranks as a closed domain: once released, they are a public list.

    Examples
    --------
    >>> above = inside(OpenHistogram.from_counts({"a": 9, "b": 7, "c": 7, "d": 2}, max_k=4), 3)
    >>> above, above.top(3), above.values.tolist(), above.multiplicities.tolist()
    (ClosedHistogram(candidates=3), ('a', 'b', 'c'), [9, 7], [1, 2])
    """
    items = histogram.top(prefix)
    if isinstance(histogram, OpenHistogram):
        values, sizes = np.unique(histogram.counts[: len(items)], return_counts=True)
        return ClosedHistogram(items=items, values=values[::-1], multiplicities=sizes[::-1].astype(np.int64))
    values, sizes = _between(histogram, 0, len(items))
    return ClosedHistogram(items=items, values=values, multiplicities=sizes)


def upside_down(histogram: ClosedHistogram) -> ClosedHistogram:
    r"""Return the histogram of how far each candidate is below the first, so that the last ranks are on top.

    Counts that move by one person's doing still move by as much, in the other direction.

    Examples
    --------
    >>> turned = upside_down(ClosedHistogram.from_counts({"a": 9, "b": 7, "c": 7}))
    >>> turned.top(3), turned.values.tolist(), turned.multiplicities.tolist()
    (('c', 'b', 'a'), [2, 0], [2, 1])
    """
    return ClosedHistogram(
        items=tuple(histogram.top(histogram.size)[::-1]),
        values=(histogram.values[0] - histogram.values)[::-1] if histogram.size else histogram.values,
        multiplicities=histogram.multiplicities[::-1],
    )


def _between(histogram: ClosedHistogram, first: int, last: int) -> tuple[IntArray, IntArray]:
    """Return distinct counts and multiplicities of the ranks from ``first`` up to ``last``."""
    ends = np.cumsum(histogram.multiplicities)
    sizes = np.clip(ends, first, last) - np.clip(ends - histogram.multiplicities, first, last)
    kept = sizes > 0
    return histogram.values[kept], sizes[kept]
