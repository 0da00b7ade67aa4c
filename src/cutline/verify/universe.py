r"""Every small histogram, and every pair of neighbours among them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from cutline.arrays import IntArray
from cutline.histogram import ClosedHistogram, OpenHistogram
from cutline.privacy import Adjacency

Pairs: TypeAlias = tuple[IntArray, IntArray]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Universe:
    """Inputs, and the indices of all ordered neighbouring pairs among them."""

    inputs: tuple[Any, ...]
    pairs: Pairs
    adjacency: Adjacency


def all_counts(items: int, largest: int) -> IntArray:
    """Return every vector of counts from 0 to ``largest``, one row each, in lexicographic order."""
    return np.array(list(product(range(largest + 1), repeat=items)), dtype=np.int64)


def neighbours(counts: IntArray, largest: int, adjacency: Adjacency) -> Pairs:
    """Return the indices of all ordered pairs of different rows that are neighbours; rows as `all_counts` gives them."""
    items = counts.shape[1]
    moves = (-1, 0, 1) if adjacency is Adjacency.REPLACE else (0, 1)
    place = (largest + 1) ** np.arange(items - 1, -1, -1, dtype=np.int64)
    first, second = [], []
    for move in product(moves, repeat=items):
        step = np.array(move, dtype=np.int64)
        if not step.any():
            continue
        inside = np.flatnonzero(np.all((counts + step >= 0) & (counts + step <= largest), axis=1))
        first.append(inside)
        second.append(inside + int(step @ place))
    left, right = np.concatenate(first), np.concatenate(second)
    if adjacency is Adjacency.REPLACE:  # both directions are already among the moves
        return left, right
    return np.concatenate([left, right]), np.concatenate([right, left])


def histograms(
    *, items: int, largest: int, adjacency: Adjacency, build: Callable[[dict[Hashable, int]], Any]
) -> Universe:
    """Return all histograms over that many items with counts up to ``largest``."""
    counts = all_counts(items, largest)
    names = [chr(ord("a") + i) for i in range(items)]
    inputs = tuple(build(dict(zip(names, row, strict=True))) for row in counts.tolist())
    return Universe(inputs=inputs, pairs=neighbours(counts, largest, adjacency), adjacency=adjacency)


def open_histograms(*, items: int, largest: int, adjacency: Adjacency, max_k: int) -> Universe:
    """Return all open histograms: an item with count 0 does not exist."""
    return histograms(
        items=items,
        largest=largest,
        adjacency=adjacency,
        build=lambda counts: OpenHistogram.from_counts(counts, max_k=max_k),
    )


def closed_histograms(*, items: int, largest: int, adjacency: Adjacency) -> Universe:
    """Return all closed histograms over that many candidates."""
    return histograms(items=items, largest=largest, adjacency=adjacency, build=ClosedHistogram.from_counts)
