r"""Exact draws without replacement from groups of equals: the exponential mechanism, peeled.

Each draw is the one of `categorical` on the members that are left, bit for bit: the same words give the same groups.
Only the fast path is different. Weights are evaluated once for a window of groups below the best one left, and kept
while members go; a draw is then one cumulative sum and one search. Whenever that leaves a doubt, `categorical` itself
decides with the words already drawn.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from cutline.arrays import IntArray, WordArray
from cutline.errors import ParameterError
from cutline.sampling.draws import WORD_BITS, integers_below
from cutline.sampling.source import Source, resolve
from cutline.sampling.weights import Weights, categorical

_TAIL_BITS = 44  # what lies below the window weighs less than 2^-44 of the whole
_RATE_LIMIT = 2**64  # as in `Weights`: past it a lower score is impossible beside any number of members
_WIDEST = 2.0**60  # a wider window holds all groups


def peel(weights: Weights, draws: int, *, rng: Source | None = None) -> IntArray:
    r"""Draw members one after the other without replacement, each with probability its share of the weight left.

    The weights are one row of groups by score, descending, with whole multiplicities. Returned are the ranks of the
    drawn members in the order drawn: the members of the first group have the ranks from 0, those of the next group
    follow.

    Notes
    -----
    *Certainty.* Let the window begin at the best group left and hold every group within ``2 reach`` of the score
    it was built for, ``reach * rate = ln(members) + 44 ln 2``; it is used while the best score left is within ``reach``
    of that one. What lies below weighs at most ``members * exp(-reach * rate) = 2^-44`` of the best group left, so
    leaving it out moves a boundary by less than 2^-44. Weights have relative error below 2^-42 (an exponent of size
    below 250 with three roundings), sums add 2^-53 per group: together less than the 4 gamma of
    `cutline.sampling.draws.invert`. A draw is accepted only if its whole interval is farther than that band from every
    boundary, the window's lower end included.

    *Members.* Equals are interchangeable: a uniform integer picks one of those left in the group, by a shuffle that
    remembers only what it moved.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> three = Weights(scores=np.array([[900, 5]]), rate=Fraction(1), multiplicities=np.array([1, 2]))
    >>> sorted(peel(three, 3, rng=SeededSource(0)).tolist())
    [0, 1, 2]
    """
    source = resolve(rng)
    groups, left = peel_groups(weights, draws, rng=source)
    picks = integers_below(left, rng=source)
    starts = np.cumsum(_members(weights)) - _members(weights)
    moved: dict[int, int] = {}
    ranks = np.empty(draws, dtype=np.int64)
    for n, (start, bound, pick) in enumerate(zip(starts[groups].tolist(), left.tolist(), picks.tolist(), strict=True)):
        last = start + bound - 1
        ranks[n] = moved.get(start + pick, start + pick)
        moved[start + pick] = moved.get(last, last)
    return ranks


def peel_groups(weights: Weights, draws: int, *, rng: Source | None = None) -> tuple[IntArray, IntArray]:
    """Return the group of each draw, and how many members it had left before."""
    source = resolve(rng)
    members = _members(weights)
    if weights.scores.shape[0] != 1 or np.any(np.diff(weights.scores[0]) > 0) or not 0 <= draws <= members.sum():
        raise ParameterError("peeling takes one row of groups by score, descending, and no more draws than members")
    window = _Window(weights.scores[0], members.copy(), weights.rate)
    groups, left = np.empty(draws, dtype=np.int64), np.empty(draws, dtype=np.int64)
    for n, word in enumerate(source.words(draws).tolist()):
        group = window.find(word)
        if group is None:
            exact = Weights(scores=weights.scores, rate=weights.rate, multiplicities=window.left)
            group = int(categorical(exact, rng=Kept(word, source))[0])
        groups[n], left[n] = group, window.left[group]
        window.remove(group)
    return groups, left


class Kept:
    """A source that first hands out a word already drawn: doubts are settled with it, never by drawing again."""

    __slots__ = ("_kept", "_source", "seeded")

    def __init__(self, word: int, source: Source) -> None:
        self._kept = np.array([word], dtype=np.uint64)
        self._source = source
        self.seeded = source.seeded

    def words(self, n: int) -> WordArray:
        """Return the kept word, then those of the source."""
        first, self._kept = self._kept[:n], self._kept[n:]
        return np.append(first, self._source.words(n - len(first)))


class _Window:
    """Float weights of the groups that matter, from the best one with members left."""

    __slots__ = ("_begin", "_falling", "_masses", "_rate", "_reach", "_scores", "_stop", "_units", "first", "left")

    def __init__(self, scores: IntArray, left: IntArray, rate: Fraction) -> None:
        self.left = left
        self.first = 0
        self._scores = scores
        self._falling = -scores
        self._rate = float(min(rate, Fraction(_RATE_LIMIT)))
        span = math.log(max(int(left.sum()), 1)) + _TAIL_BITS * math.log(2)
        self._reach = span / self._rate if self._rate * _WIDEST > span else math.inf
        self._begin = self._stop = 0
        self._units = self._masses = np.empty(0)

    def find(self, word: int) -> int | None:
        """Return the group at the uniform real that begins with ``word``, or None where floats leave a doubt."""
        while not self.left[self.first]:
            self.first += 1
        if self.first >= self._stop or self._scores[self._begin] - self._scores[self.first] > self._reach:
            self._build()
        sums = np.cumsum(self._masses[self.first - self._begin :])
        band = 4 * (2.0**-40 + len(sums) * 2.0**-53) + 2.0**-50
        low, total = word * 2.0**-WORD_BITS, float(sums[-1])
        at = int(sums.searchsorted((low - band) * total))
        if (low + band) * total < sums[at]:
            return self.first + at
        return None

    def remove(self, group: int) -> None:
        """Take one member out of a group."""
        self.left[group] -= 1
        if self._begin <= group < self._stop:
            self._masses[group - self._begin] = self._units[group - self._begin] * self.left[group]

    def _build(self) -> None:
        self._begin = self.first
        best = int(self._scores[self.first])
        self._stop = len(self._scores)
        if self._reach < math.inf:
            self._stop = int(self._falling.searchsorted(int(2 * self._reach) - best, side="right"))
        with np.errstate(under="ignore"):
            self._units = np.exp(self._rate * (self._scores[self._begin : self._stop] - best))
        self._masses = self._units * self.left[self._begin : self._stop]


def _members(weights: Weights) -> IntArray:
    if weights.multiplicities is None:
        return np.ones(weights.scores.shape[1], dtype=np.int64)
    if weights.multiplicities.dtype == object:
        raise ParameterError("peeling takes multiplicities of at most 63 bits")
    members: IntArray = np.broadcast_to(weights.multiplicities, weights.scores.shape)[0].astype(np.int64)
    return members
