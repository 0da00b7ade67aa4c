r"""Every small input of one kind, and every ordered pair of neighbours among them.

A universe is named by a few public numbers and is only listed when a check runs, so that how many pairs there are is known
before anything is enumerated. There are five: histograms over a few items; histograms with a bound on items per user; ballot
boxes of a few teachers; plain counts, which are votes of more teachers than boxes can be listed for; and votes for one class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement, product
from math import comb, prod
from string import ascii_lowercase
from typing import Any, Self, TypeAlias

import numpy as np

from cutline.arrays import IntArray
from cutline.histogram import BoundedHistogram, ClosedHistogram, Histogram, OpenHistogram
from cutline.privacy import Adjacency

Pairs: TypeAlias = tuple[IntArray, IntArray]
Ballot: TypeAlias = tuple[int, ...]
Box: TypeAlias = tuple[Ballot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Universe(ABC):
    """Inputs that can all be listed, and the relation that makes neighbours of them."""

    adjacency: Adjacency

    @property
    @abstractmethod
    def size(self) -> int:
        """How many ordered pairs of neighbours there are, by a formula."""

    @abstractmethod
    def inputs(self) -> tuple[Any, ...]:
        """List every input."""

    @abstractmethod
    def pairs(self) -> Pairs:
        """List the indices of every ordered pair of different inputs that are neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts(Universe):
    """All vectors of that many counts up to ``largest``; votes are such, of ``largest`` teachers for that many labels."""

    items: int
    largest: int

    @property
    def size(self) -> int:
        # A count has `largest + 1` values, and `largest` of them have one above.
        values, steps = self.largest + 1, self.largest
        if self.adjacency is Adjacency.REPLACE:  # each count stays, rises or falls
            return int((values + 2 * steps) ** self.items - values**self.items)
        return int(2 * ((values + steps) ** self.items - values**self.items))

    def inputs(self) -> tuple[Any, ...]:
        return tuple(all_counts(self.items, self.largest))

    def pairs(self) -> Pairs:
        return neighbours(all_counts(self.items, self.largest), self.largest, self.adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Histograms(Counts):
    """All histograms with such counts; in an open domain an item with count 0 does not exist, and ``max_k`` ranks count."""

    domain: str
    max_k: int

    @classmethod
    def named(cls, name: str, adjacency: Adjacency, *, max_k: int) -> Self:
        """Return the universe named like ``open 4 x 6`` or ``closed 3 x 6``: domain, items, largest count."""
        domain, items, _, largest = name.split()
        return cls(domain=domain, items=int(items), largest=int(largest), adjacency=adjacency, max_k=max_k)

    def inputs(self) -> tuple[Histogram, ...]:
        return _histograms(self.domain, self.items, self.largest, self.max_k)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedHistograms(Universe):
    """All bounded histograms over a few items, and the full counts beside them.

    Bounded counts are up to ``largest``, full ones up to ``more`` above them. One user votes for any items, and counts in at
    most ``bound`` of them, whichever: so an item's bounded count never moves unless its full one may. The histograms say that
    the bound is 1, which every mechanism takes: what it was made for is its own claim.
    """

    items: int
    largest: int
    bound: int
    more: int = 0

    @property
    def size(self) -> int:
        # Of one item: in how many of its states each move is possible. Then items one by one, by how many rose and fell.
        ways = Counter({(0, 0): 1})
        for _ in range(self.items):
            after: Counter[tuple[int, int]] = Counter()
            for (up, down), n in ways.items():
                for rise, add in self._moves():
                    states = len(self._states_with(rise, add))
                    after[up + (rise > 0), down + (rise < 0)] += n * states
            ways = after
        states = ((self.largest + 1) * (self.more + 1)) ** self.items
        within = sum(n for (up, down), n in ways.items() if max(up, down) <= self.bound)
        return int((within - states) * (1 if self.adjacency is Adjacency.REPLACE else 2))

    def inputs(self) -> tuple[BoundedHistogram, ...]:
        return tuple(map(self._build, self._rows()))

    def pairs(self) -> Pairs:
        states = self._states()
        place = {state: n for n, state in enumerate(states)}
        base = len(states)
        # Per item: from which state to which, and how its bounded count moves.
        steps = [
            (place[h, m], place[h + rise, m + add], rise)
            for rise, add in self._moves()
            for h, m in self._states_with(rise, add)
        ]
        first = second = rose = fell = np.zeros(1, dtype=np.int64)
        one, other, moved = (np.array(column, dtype=np.int64) for column in zip(*steps, strict=True))
        for _ in range(self.items):
            first = (first[:, None] * base + one).reshape(-1)
            second = (second[:, None] * base + other).reshape(-1)
            rose = (rose[:, None] + (moved > 0)).reshape(-1)
            fell = (fell[:, None] + (moved < 0)).reshape(-1)
        kept = (np.maximum(rose, fell) <= self.bound) & (first != second)
        first, second = first[kept], second[kept]
        if self.adjacency is Adjacency.REPLACE:  # both directions are already among the moves
            return first, second
        return np.concatenate([first, second]), np.concatenate([second, first])

    def _moves(self) -> list[tuple[int, int]]:
        """Return how the bounded count of one item can move, and by how much more the full one does."""
        if self.adjacency is Adjacency.ADD_REMOVE:
            return [(0, 0), (0, 1), (1, 0)]
        return [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, -1), (-1, 1)]

    def _states(self) -> list[tuple[int, int]]:
        return list(product(range(self.largest + 1), range(self.more + 1)))

    def _states_with(self, rise: int, add: int) -> list[tuple[int, int]]:
        """Return the states of one item, its bounded count and what is above it, in which this move is possible."""
        return [(h, m) for h, m in self._states() if 0 <= h + rise <= self.largest and 0 <= m + add <= self.more]

    def _rows(self) -> Iterator[tuple[tuple[int, int], ...]]:
        return product(self._states(), repeat=self.items)

    def _build(self, row: tuple[tuple[int, int], ...]) -> BoundedHistogram:
        bounded = {name: h for name, (h, _) in zip(ascii_lowercase, row, strict=False)}
        full = {name: h + m for name, (h, m) in zip(ascii_lowercase, row, strict=False)}
        return BoundedHistogram.from_counts(full, bounded, max_items_per_user=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedHistograms(Universe):
    """All bounded histograms of weighted votes, in parts of a vote up to ``largest``.

    One user gives items weights of up to ``parts`` parts whose squares sum to at most ``bound`` whole votes; a changed user may
    give other weights to other items.
    """

    items: int
    largest: int
    parts: int
    bound: int

    @property
    def size(self) -> int:
        # Of each move: how many histograms have room for it.
        room = sum(prod(max(0, self.largest + 1 - abs(step)) for step in move) for move in self._moves())
        return room * (1 if self.adjacency is Adjacency.REPLACE else 2)

    def inputs(self) -> tuple[BoundedHistogram, ...]:
        return tuple(map(self._build, all_counts(self.items, self.largest).tolist()))

    def pairs(self) -> Pairs:
        counts = all_counts(self.items, self.largest)
        place = (self.largest + 1) ** np.arange(self.items - 1, -1, -1, dtype=np.int64)
        first, second = [], []
        for move in self._moves():
            step = np.array(move, dtype=np.int64)
            inside = np.flatnonzero(np.all((counts + step >= 0) & (counts + step <= self.largest), axis=1))
            first.append(inside)
            second.append(inside + int(step @ place))
        left, right = np.concatenate(first), np.concatenate(second)
        if self.adjacency is Adjacency.REPLACE:  # both directions are already among the moves
            return left, right
        return np.concatenate([left, right]), np.concatenate([right, left])

    def _moves(self) -> list[tuple[int, ...]]:
        """Return how one user can move the counts, other than not at all."""
        most = self.bound * self.parts**2
        ballots = [b for b in product(range(self.parts + 1), repeat=self.items) if sum(j * j for j in b) <= most]
        if self.adjacency is Adjacency.ADD_REMOVE:
            return [ballot for ballot in ballots if any(ballot)]
        moves = {tuple(b - a for a, b in zip(old, new, strict=True)) for old in ballots for new in ballots}
        return sorted(move for move in moves if any(move))

    def _build(self, row: list[int]) -> BoundedHistogram:
        counts = dict(zip(ascii_lowercase, row, strict=False))
        return BoundedHistogram.from_counts(counts, counts, max_items_per_user=1, parts=self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class BallotBoxes(Universe):
    """All boxes of ballots of at most a public number of teachers, as arrays (ballots, 1 query, labels).

    Under REPLACE all teachers vote and one ballot becomes any other; under ADD_REMOVE one ballot joins or leaves. Who cast
    which ballot plays no part, so a box is a multiset.
    """

    teachers: int
    labels: int

    @property
    def size(self) -> int:
        # Neighbours share all but one ballot (REPLACE), or the smaller box; what they share is any multiset of ballots.
        ballots, shared = 1 << self.labels, self.teachers - 1
        if self.adjacency is Adjacency.REPLACE:
            return comb(ballots + shared - 1, shared) * ballots * (ballots - 1)
        return 2 * ballots * sum(comb(ballots + n - 1, n) for n in range(self.teachers))

    def inputs(self) -> tuple[IntArray, ...]:
        return tuple(np.array(box, dtype=np.int64).reshape(len(box), 1, self.labels) for box in self.boxes())

    def pairs(self) -> Pairs:
        return _neighbouring_boxes(self)

    def boxes(self) -> list[Box]:
        """List every box: of exactly that many teachers under REPLACE, of at most that many under ADD_REMOVE."""
        fewest = self.teachers if self.adjacency is Adjacency.REPLACE else 0
        ballots = list(product((0, 1), repeat=self.labels))
        return [box for n in range(fewest, self.teachers + 1) for box in combinations_with_replacement(ballots, n)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassVotes(Universe):
    """All votes of that many teachers for one class each, or for none: counts whose sum is at most their number.

    Under REPLACE one vote passes from any of these choices to any other; under ADD_REMOVE one vote comes or goes.
    """

    teachers: int
    classes: int

    @property
    def size(self) -> int:
        if self.adjacency is Adjacency.REPLACE:  # what neighbours share is any multiset of all choices but one
            return comb(self.classes + self.teachers - 1, self.teachers - 1) * (self.classes + 1) * self.classes
        return 2 * self.classes * comb(self.teachers - 1 + self.classes, self.classes)

    def inputs(self) -> tuple[Any, ...]:
        return tuple(np.array(votes, dtype=np.int64) for votes in self._votes())

    def pairs(self) -> Pairs:
        places = {votes: place for place, votes in enumerate(self._votes())}
        steps = [tuple(int(c == at) for c in range(self.classes)) for at in range(self.classes)]
        moves = [*steps, *(tuple(-s for s in step) for step in steps)]
        if self.adjacency is Adjacency.REPLACE:
            moves += [
                tuple(a - b for a, b in zip(up, down, strict=True)) for up in steps for down in steps if up != down
            ]
        found = [
            (place, places[other])
            for votes, place in places.items()
            for move in moves
            if (other := tuple(n + m for n, m in zip(votes, move, strict=True))) in places
        ]
        first, second = (np.array(side, dtype=np.int64) for side in zip(*found, strict=True))
        return first, second

    def _votes(self) -> list[tuple[int, ...]]:
        return [v for v in product(range(self.teachers + 1), repeat=self.classes) if sum(v) <= self.teachers]


@lru_cache(maxsize=32)  # most mechanisms are checked on the same histograms, under both relations
def _histograms(domain: str, items: int, largest: int, max_k: int) -> tuple[Histogram, ...]:
    rows = [dict(zip(ascii_lowercase, row, strict=False)) for row in all_counts(items, largest).tolist()]
    if domain == "closed":
        return tuple(map(ClosedHistogram.from_counts, rows))
    return tuple(OpenHistogram.from_counts(row, max_k=max_k) for row in rows)


@lru_cache(maxsize=64)  # every aggregator is checked on the same boxes
def _neighbouring_boxes(universe: BallotBoxes) -> Pairs:
    boxes = universe.boxes()
    places = {box: place for place, box in enumerate(boxes)}
    replace = universe.adjacency is Adjacency.REPLACE
    arrivals: list[list[Ballot]] = [[b] for b in product((0, 1), repeat=universe.labels)] if replace else [[]]
    pairs: set[tuple[int, int]] = set()
    for place, box in enumerate(boxes):
        for gone in set(box):
            rest = Counter(box)
            rest[gone] -= 1
            for arrival in arrivals:
                other = tuple(sorted([*rest.elements(), *arrival]))
                if other != box:
                    pairs |= {(place, places[other]), (places[other], place)}
    first, second = (np.array(side, dtype=np.int64) for side in zip(*sorted(pairs), strict=True))
    return first, second


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
