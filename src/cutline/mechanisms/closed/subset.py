r"""Draw a set of k candidates at once: one exponential mechanism over sets, by how cleanly a set is cut off."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from cutline.arrays import IntArray
from cutline.histogram import Histogram
from cutline.mechanisms.closed.selector import ClosedSelector, counts_by_rank, list_ranks
from cutline.outcome import Law, Outcome
from cutline.privacy import Cost
from cutline.sampling import Source, categorical, probabilities
from cutline.sampling.draws import choice, integer_below, subset


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsetEM(ClosedSelector):
    r"""A set of k candidates of a closed domain by one exponential mechanism.

    The utility of a set is its smallest count inside minus the largest count outside: the gap below it, negative for all sets
    but the top ones.

    **Privacy.** One user moves a utility by at most 1 under ADD_REMOVE and 2 under REPLACE, either way, so weights
    ``exp(epsilon * u / 2)`` and ``exp(epsilon * u / 4)`` are epsilon-bounded-range; one draw, whatever k is
    [docs/proofs/subset-em.md]. The utility is that of canonical Lipschitz mechanisms [SL22].

    Examples
    --------
    >>> from cutline import Budget, ClosedHistogram
    >>> from cutline.sampling import SeededSource
    >>> mechanism = SubsetEM.calibrate(Budget(epsilon=1.0, delta=1e-6), k=2)
    >>> counts = ClosedHistogram.from_counts({"a": 340, "b": 210, "c": 90, "d": 0})
    >>> mechanism.release(counts, rng=SeededSource(0)).listed()
    ['a', 'b']
    """

    name: ClassVar[str] = "subset-em"
    ordered: ClassVar[bool] = False
    reference: ClassVar[str] = "SL22"
    cost_rule: ClassVar[str] = "one bounded-range step"
    steps: ClassVar[tuple[str, ...]] = ("draw",)
    one_step: ClassVar[bool] = True

    def run(self, histogram: Histogram, source: Source) -> tuple[Outcome, Cost]:
        candidates = self.check_domain(histogram)
        cells = Cells.of(candidates.values, candidates.multiplicities, self.k)
        drawn = int(categorical(self.weigh(cells.utilities, cells.sizes), rng=source)[0])
        return self.outcome(frozenset(candidates.named(sorted(cells.draw(drawn, source))))), self.cost

    def law(self, histogram: Histogram) -> Law:
        candidates = self.check_listable(histogram)
        counts, sets = counts_by_rank(candidates), list_ranks(candidates.size, self.k, ordered=False)
        # Ranks are listed in order: the last is the worst inside, and the first place that is not its own rank was left out.
        missing = np.where(sets == np.arange(self.k), self.k, np.arange(self.k)).min(axis=1)
        utilities = counts[sets[:, -1]] - counts[missing]
        cells = Cells.of(candidates.values, candidates.multiplicities, self.k)
        chances = probabilities(self.weigh(cells.utilities, cells.sizes))[0].tolist()
        by_utility = {u: p / int(n) for u, p, n in zip(cells.utilities, chances, cells.sizes, strict=True) if n}
        return self.list_law(candidates, sets.tolist(), (by_utility[utility] for utility in utilities.tolist()))

    def chance(self, histogram: Histogram, k: int) -> float:
        candidates = self.check_domain(histogram)
        if k != self.k:
            return 0.0
        cells = Cells.of(candidates.values, candidates.multiplicities, self.k)
        return float(probabilities(self.weigh(cells.utilities, cells.sizes))[0, 0])


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Cells:
    r"""All sets of k ranks: the top one, then by the group of the best rank outside and the group of the worst inside.

    ``comb(i - j, k - j)`` sets hold the first j ranks and none past the first i; every count here is a difference of such.
    """

    k: int
    utilities: list[int]
    sizes: list[int]
    bounds: list[tuple[int, int, int, int]]  # best outside in [0]..[1]-1, worst inside in [2]..[3]-1; the top set: none

    @classmethod
    def of(cls, values: IntArray, multiplicities: IntArray, k: int) -> Self:
        """Count the sets of a histogram's ranks."""
        ends = np.cumsum(multiplicities)
        starts = ends - multiplicities
        groups = values.tolist()
        above = [(v, int(s), min(int(e), k)) for v, s, e in zip(groups, starts, ends, strict=True) if s < k]
        below = [(v, max(int(s), k), int(e)) for v, s, e in zip(groups, starts, ends, strict=True) if e > k]
        utilities, sizes, bounds = [above[-1][0] - below[0][0]], [1], [(0, 0, 0, 0)]
        edges = [below[0][1], *(stop for _, _, stop in below)]
        holding = [math.comb(i, k) for i in edges]  # sets that hold the first j ranks and end by i, j = 0 at first
        for best, start, stop in above:
            fewer = [math.comb(i - stop, k - stop) for i in edges]
            for n, (worst, first, last) in enumerate(below):
                size = holding[n + 1] - fewer[n + 1] - holding[n] + fewer[n]
                utilities.append(worst - best)
                sizes.append(size)
                bounds.append((start, stop, first, last))
            holding = fewer
        return cls(k=k, utilities=utilities, sizes=sizes, bounds=bounds)

    def draw(self, cell: int, source: Source) -> set[int]:
        """Return a uniform set of ranks of one cell."""
        start, stop, first, last = self.bounds[cell]
        if start == stop:
            return set(range(self.k))

        def ending_by(j: int, i: int) -> int:
            """Count the sets whose best outside is rank j and whose ranks all lie below i."""
            return math.comb(i - j - 1, self.k - j)

        each = [ending_by(j, last) - ending_by(j, first) for j in range(start, stop)]
        out = start + choice(each, rng=source)
        pick = integer_below(each[out - start], rng=source) + ending_by(out, first)
        end = bisect_left(range(first + 1, last), pick + 1, key=lambda i: ending_by(out, i)) + first + 1
        between = subset(self.k - out - 1, end - out - 2, rng=source)
        return {*range(out), *(out + 1 + rank for rank in between), end - 1}
