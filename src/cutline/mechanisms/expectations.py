r"""What a mechanism shows of public counts, in the mean: how much of the true top, how long a list, where it ends.

By the exact law where it is short enough to list; otherwise over seeded draws, as many as the wanted standard error takes. The
counts are public, like last year's published list, or one of three example shapes; never those of the log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutline.errors import CutlineError, LawTooLarge
from cutline.histogram import BoundedHistogram, ClosedHistogram, Histogram, OpenHistogram
from cutline.mechanisms.base import Mechanism
from cutline.outcome import Outcome
from cutline.sampling import SeededSource

_LISTED = 1_000  # sequences of k items up to which a law is listed; a longer one takes longer than draws
_BATCH, _MOST_RUNS = 20, 4_000
HARDLY_ANY = 0.05  # items in the mean, below which the cut of those that do go out is not worth a word
FIRST_ITEM = (100, 1_000, 10_000)  # users of the first item of the assumed tails; the item at rank i has 1/i of them
SHAPES: Mapping[str, str] = {
    "cliff": "the top items have 1,000 users each, the next one 500, and the item i ranks after the last of them 500/i",
    "long tail": "the first item has 1,000 users, and the item at rank i 1,000/i",
    "flat": "the first item has 1,000 users, and every item a little fewer than the one before it, all the way down to 0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What to expect of one mechanism on one log: the mean over its own randomness."""

    recall: float  # share of the true top that goes out
    items: float  # how many items go out; none, if the set is withheld
    k: float | None  # where the cut falls, in the mean of the answers that show a set and a cut
    withheld: float  # how often nothing goes out
    error: float = 0.0  # standard error of the recall; 0 by the exact law

    @property
    def exact(self) -> bool:
        """Whether the exact law was added up, instead of draws."""
        return self.error == 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data for JSON."""
        names = ("recall", "items", "k", "withheld", "error")
        return {name: getattr(self, name) for name in names} | {"exact": self.exact}


NOTHING = Expectation(recall=0.0, items=0.0, k=None, withheld=1.0)  # a budget too small to calibrate for


class _Sum:
    """Weighted sums over outcomes."""

    def __init__(self) -> None:
        self.weight = self.recall = self.squares = self.items = self.cuts = self.shown = self.withheld = 0.0
        self.size = 1  # of the true top

    def add(self, outcome: Outcome, truth: frozenset[Any], weight: float = 1.0) -> None:
        items, self.size = frozenset(outcome.items or ()), len(truth)
        recall = len(items & truth) / self.size
        self.weight += weight
        self.recall += weight * recall
        self.squares += weight * recall**2
        self.items += weight * len(items)
        self.withheld += weight * (outcome.items is None)
        if items and outcome.k:
            self.shown += weight
            self.cuts += weight * outcome.k

    def error(self) -> float:
        """Return the standard error of the recall, were these draws."""
        spread = max(self.squares / self.weight - (self.recall / self.weight) ** 2, 0.0)
        # One more draw might find, or miss, one item: no draws are so alike that nothing is left uncertain.
        return math.sqrt((spread + 1 / (self.size**2 * self.weight)) / self.weight)

    def expectation(self, *, error: float) -> Expectation:
        return Expectation(
            recall=self.recall / self.weight,
            items=self.items / self.weight,
            k=self.cuts / self.shown if self.shown else None,
            withheld=self.withheld / self.weight,
            error=error,
        )


class Trial:
    """One mechanism on one public log; the law is listed once, and draws that were made are kept when more are needed.

    With ``redraw``, every draw is made on a log of its own, whose counts are Poisson draws with the public ones as their means.
    """

    def __init__(self, mechanism: Mechanism, histogram: Histogram, *, k: int | None, redraw: bool = False) -> None:
        self._mechanism, self._histogram, self._k, self._redraw = mechanism, histogram, k, redraw
        self._truth = true_top(histogram, k=k)
        self._law, self._draws = _Sum(), _Sum()
        self._rng = SeededSource(0)  # a simulation on public counts, repeated exactly
        self._logs = np.random.default_rng(0)  # of made-up logs, not of anybody's
        if not redraw and (k is None or math.perm(_ranks(mechanism, histogram), k) <= _LISTED):
            try:
                for outcome, chance in mechanism.law(histogram).items():
                    self._law.add(outcome, self._truth, chance)
            except LawTooLarge:
                pass

    def expect(self, *, error: float) -> Expectation:
        """Return what to expect, with a standard error of the recall of about this at most; from 4,000 draws at most."""
        if self._law.weight:
            return self._law.expectation(error=0.0)
        draws, log, truth = self._draws, self._histogram, self._truth
        while draws.weight < _BATCH or (draws.error() > error and draws.weight < _MOST_RUNS):
            for _ in range(_BATCH):
                if self._redraw:
                    log = redraw(self._histogram, self._logs)
                    truth = true_top(log, k=self._k)
                draws.add(self._mechanism.run(log, self._rng)[0], truth)
        return draws.expectation(error=draws.error())


def redraw(histogram: Histogram, random: np.random.Generator) -> Histogram:
    """Return a log like this one: every count is a Poisson draw whose mean is the public count; an empty one is as it was."""
    if isinstance(histogram, BoundedHistogram):
        return histogram
    counts = (
        np.repeat(histogram.values, histogram.multiplicities)
        if isinstance(histogram, ClosedHistogram)
        else histogram.counts[: len(histogram.items)]
    )
    drawn = dict(zip(histogram.items, random.poisson(counts).tolist(), strict=True))
    if not any(drawn.values()):
        return histogram
    if isinstance(histogram, ClosedHistogram):
        return ClosedHistogram.from_counts(drawn)
    return OpenHistogram.from_counts(drawn, max_k=histogram.max_k)


def _ranks(mechanism: Mechanism, histogram: Histogram) -> int:
    """Return among how many ranks a mechanism that is told k may choose."""
    most = histogram.size if isinstance(histogram, ClosedHistogram) else len(histogram.items)
    return min(most, getattr(mechanism, "max_k", most))


def true_top(histogram: Histogram, *, k: int | None) -> frozenset[Any]:
    """Return the true top k; without k, what is above the largest gap."""
    if k is None and isinstance(histogram, OpenHistogram):
        k = int(histogram.gaps(histogram.max_k).argmax()) + 1
    elif k is None and isinstance(histogram, ClosedHistogram):
        k = int(histogram.gaps(histogram.size).argmax()) + 1
    top = frozenset(histogram.items if k is None else histogram.top(k))
    if not top:
        raise CutlineError("a prior must hold at least one item", "", "Leave the prior out.")
    return top


def example(shape: str, *, k: int | None, max_k: int, closed: bool, bound: int | None = None) -> Histogram:
    r"""Return counts of one of three example shapes, as `SHAPES` describes them; the cliff is at k, or at 10.

    Examples
    --------
    >>> [example(shape, k=2, max_k=4, closed=False).gaps(4).tolist() for shape in SHAPES]
    [[0, 500, 250, 84], [500, 167, 83, 50], [200, 200, 200, 200]]
    """
    cut = min(k or 10, max_k)
    ranks = range(1, max_k + 2 - closed)
    if shape == "cliff":
        counts = {rank: 1_000 if rank <= cut else 500 // (rank - cut) for rank in ranks}
    elif shape == "long tail":
        counts = {rank: 1_000 // rank for rank in ranks}
    else:
        counts = {rank: 1_000 - 1_000 * (rank - 1) // (max_k + 1) for rank in ranks}
    return _as_histogram(counts, max_k=max_k, closed=closed, bound=bound)


def long_tail(first: int, *, max_k: int, closed: bool, bound: int | None = None) -> Histogram:
    r"""Return counts that fall like 1/rank, as those of many logs do; a bound on items per user is met by all as they are.

    Examples
    --------
    >>> long_tail(100, max_k=4, closed=False).gaps(4).tolist()
    [50, 17, 8, 5]
    """
    counts = {rank: first // rank for rank in range(1, max_k + 2 - closed)}
    return _as_histogram(counts, max_k=max_k, closed=closed, bound=bound)


def _as_histogram(counts: dict[int, int], *, max_k: int, closed: bool, bound: int | None) -> Histogram:
    if bound is not None:
        return BoundedHistogram.from_counts(counts, counts, max_items_per_user=bound)
    return ClosedHistogram.from_counts(counts) if closed else OpenHistogram.from_counts(counts, max_k=max_k)
