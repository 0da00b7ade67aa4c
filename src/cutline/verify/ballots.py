r"""Every small ballot box, and every pair of neighbours among them.

A box is the ballots that came, of at most a public number of teachers. Under REPLACE all teachers vote and one ballot becomes
any other; under ADD_REMOVE one ballot joins or leaves. Who cast which ballot plays no part, so a box is a multiset.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import combinations_with_replacement, product
from typing import TypeAlias

import numpy as np

from cutline.arrays import IntArray
from cutline.privacy import Adjacency
from cutline.verify.universe import Universe, all_counts, neighbours

Ballot: TypeAlias = tuple[int, ...]
Box: TypeAlias = tuple[Ballot, ...]


def ballots_of(labels: int, limit: int | None = None) -> list[Ballot]:
    """Return every ballot with at most ``limit`` ones, in lexicographic order."""
    return [ballot for ballot in product((0, 1), repeat=labels) if limit is None or sum(ballot) <= limit]


def boxes(teachers: int, labels: int, adjacency: Adjacency, limit: int | None = None) -> list[Box]:
    """Return every box: of exactly that many teachers under REPLACE, of at most that many under ADD_REMOVE."""
    fewest = teachers if adjacency is Adjacency.REPLACE else 0
    known = ballots_of(labels, limit)
    return [box for n in range(fewest, teachers + 1) for box in combinations_with_replacement(known, n)]


@lru_cache(maxsize=64)
def ballot_boxes(*, teachers: int, labels: int, adjacency: Adjacency, limit: int | None = None) -> Universe:
    """Return all boxes as arrays (ballots, 1 query, labels), and all ordered pairs of different neighbours."""
    found = boxes(teachers, labels, adjacency, limit)
    places = {box: place for place, box in enumerate(found)}
    pairs: set[tuple[int, int]] = set()
    for place, box in enumerate(found):
        for gone in set(box):
            rest = Counter(box)
            rest[gone] -= 1
            others = ballots_of(labels, limit) if adjacency is Adjacency.REPLACE else [None]
            for new in others:
                other = tuple(sorted([*rest.elements(), *([] if new is None else [new])]))
                if other != box:
                    pairs |= {(place, places[other]), (places[other], place)}
    first, second = (np.array(side, dtype=np.int64) for side in zip(*sorted(pairs), strict=True))
    inputs = tuple(_array(box, labels) for box in found)
    return Universe(inputs=inputs, pairs=(first, second), adjacency=adjacency)


def vote_counts(*, teachers: int, labels: int, adjacency: Adjacency) -> Universe:
    """Return all vectors of votes, for more teachers than boxes can be listed for; every count moves as the relation says."""
    counts = all_counts(labels, teachers)
    pairs = neighbours(counts, teachers, adjacency)
    return Universe(inputs=tuple(counts), pairs=pairs, adjacency=adjacency)


def _array(box: Box, labels: int) -> IntArray:
    return np.array(box, dtype=np.int64).reshape(len(box), 1, labels)
