r"""Draw all k candidates at once: one exponential mechanism over sequences, priced by its worst place."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from typing import Any, ClassVar

import numpy as np

from cutline.arrays import IntArray
from cutline.histogram import ClosedHistogram, Histogram
from cutline.mechanisms.base import check_listable
from cutline.mechanisms.closed.selector import ClosedSelector, counts_by_rank
from cutline.privacy import Cost
from cutline.release import Law, Outcome
from cutline.sampling import Source, Weights, categorical, integers_below, probabilities
from cutline.sampling.draws import choice


@dataclass(frozen=True, slots=True, kw_only=True)
class JointEM(ClosedSelector):
    r"""A sequence of k candidates of a closed domain by one exponential mechanism, the first ranked first.

    The loss of a sequence s is ``max_i (h_(i) - h_{s_i})``: how far its worst place falls short of the count due there.

    **Privacy.** One user moves a loss by at most 1 under ADD_REMOVE and 2 under REPLACE, either way, so weights
    ``exp(-epsilon * loss / 2)`` and ``exp(-epsilon * loss / 4)`` are epsilon-bounded-range; one draw, whatever k is
    [GJM22; docs/proofs/joint-em.md].

    Parameters
    ----------
    k
        How many candidates are drawn; fewer than there are.
    epsilon
        Of the draw.
    adjacency, budget
        As of every `Mechanism`.

    Notes
    -----
    Sequences are counted by loss: at most k times the number of distinct counts losses, each an exact integer of up to
    k log2(m) bits (about 60 ms at m = 10^6, 2000 distinct counts, k = 10). If ``k^2 m`` is above 10^8 the mechanism refuses:
    the worst case would not fit in memory.

    References
    ----------
    [GJM22].

    Examples
    --------
    >>> from cutline.privacy import Budget
    >>> from cutline.sampling import SeededSource
    >>> mechanism = JointEM.calibrate(Budget(epsilon=1.0, delta=1e-6), k=2)
    >>> counts = ClosedHistogram.from_counts({"a": 340, "b": 210, "c": 90, "d": 0})
    >>> mechanism.release(counts, rng=SeededSource(0)).items
    ('a', 'b')
    """

    name: ClassVar[str] = "joint-em"
    ordered: ClassVar[bool] = True
    reference: ClassVar[str] = "GJM22"
    cost_rule: ClassVar[str] = "one bounded-range step"
    steps: ClassVar[tuple[str, ...]] = ("draw",)
    one_step: ClassVar[bool] = True

    def run(self, histogram: Histogram, source: Source) -> tuple[Outcome, Cost]:
        """Draw one outcome on a closed histogram, and return it with its cost."""
        candidates = self.check_domain(histogram)
        losses, totals = count_by_loss(candidates.values, candidates.multiplicities, self.k)
        drawn = int(categorical(self._weights(losses, totals), rng=source)[0])
        ranks = self._sequence(candidates, losses[drawn], losses[drawn - 1] if drawn else None, source)
        return self.outcome(candidates.named(ranks)), self.cost

    def law(self, histogram: Histogram) -> Law:
        """Return the exact probability of every sequence, to a relative 1e-12."""
        candidates = self.check_domain(histogram)
        size = candidates.size
        check_listable(math.perm(size, self.k), f"k={self.k}, {size} candidates", "Lower k, or sample.")
        counts, ranks = counts_by_rank(candidates), _sequences(size, self.k)
        loss = (counts[: self.k] - counts[ranks]).max(axis=1)
        losses, totals = count_by_loss(candidates.values, candidates.multiplicities, self.k)
        chances = probabilities(self._weights(losses, totals))[0] / np.diff(totals, prepend=0).astype(np.float64)
        each = chances[np.searchsorted(losses, loss)].tolist()
        names = candidates.named(range(size))
        law: dict[Outcome, float] = {}
        for sequence, chance in zip(ranks.tolist(), each, strict=True):
            law[self.outcome(tuple(names[rank] for rank in sequence))] = chance
        return law

    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that the k drawn are exactly the top ``k``, in any order.

        Sequences made of the top k alone are counted by loss in the same way, as a domain of their own.
        """
        candidates = self.check_domain(histogram)
        if k != self.k:
            return 0.0
        losses, totals = count_by_loss(candidates.values, candidates.multiplicities, k)
        inside = np.diff(np.minimum(np.cumsum(candidates.multiplicities), k), prepend=0)
        own_losses, own_totals = count_by_loss(candidates.values[inside > 0], inside[inside > 0], k)
        chances = probabilities(self._weights(losses, totals))[0]
        sizes = dict(zip(losses, np.diff(totals, prepend=0).tolist(), strict=True))
        at = {loss: float(chance) for loss, chance in zip(losses, chances, strict=True)}
        own = zip(own_losses, np.diff(own_totals, prepend=0).tolist(), strict=True)
        return math.fsum(at[loss] * float(Fraction(size, sizes[loss])) for loss, size in own)

    def _weights(self, losses: list[int], totals: Any) -> Weights:
        scores = -np.array([losses], dtype=np.int64)
        return Weights(scores=scores, rate=self.rate, multiplicities=np.diff(totals, prepend=0)[None, :])

    def _sequence(self, candidates: ClosedHistogram, loss: int, before: int | None, source: Source) -> list[int]:
        """Draw a uniform sequence whose loss is exactly ``loss``, ``before`` being the next smaller one."""
        within = _reach(candidates, self.k, loss)
        inside = [0] * self.k if before is None else _reach(candidates, self.k, before)
        # Let i be the first place with the full loss: the places before it stay inside, those after it may be anywhere within.
        heads, tails = [1], [1]
        for i in range(self.k):
            heads.append(heads[-1] * max(inside[i] - i, 0))
            tails.append(tails[-1] * (within[self.k - 1 - i] - (self.k - 1 - i)))
        first = choice([heads[i] * (within[i] - inside[i]) * tails[self.k - 1 - i] for i in range(self.k)], rng=source)
        places = [
            inside[i] - i if i < first else within[i] - inside[i] if i == first else within[i] - i
            for i in range(self.k)
        ]
        taken: list[int] = []
        ranks = []
        for i, pick in enumerate(integers_below(places, rng=source).tolist()):
            rank = inside[i] + pick if i == first else _free(pick, taken)
            insort(taken, rank)
            ranks.append(rank)
        return ranks


def count_by_loss(values: IntArray, multiplicities: IntArray, k: int) -> tuple[list[int], Any]:
    """Return all losses, ascending, and how many sequences lose at most that much (an object array of exact integers).

    Place i may hold any candidate whose count is at least ``h_(i) - loss``; these sets are nested, so there are
    ``prod_i (n_i - i + 1)`` sequences. As the loss grows past ``h_(i) - value``, one group of equals becomes possible at the
    places of another.
    """
    ends = np.cumsum(multiplicities)
    tops = int(np.searchsorted(ends, k, side="left")) + 1
    starts = (ends - multiplicities)[:tops].tolist()
    places = np.diff(np.minimum(ends[:tops], k), prepend=0).tolist()
    gaps = values[:tops, None] - values[None, :]
    top, group = np.nonzero(gaps >= 0)
    when = gaps[top, group]
    order = np.argsort(when, kind="stable")
    reached = ends.tolist()
    factors = [0] * tops
    total = 0
    losses: list[int] = []
    totals: list[int] = []
    joining = zip(when[order].tolist(), top[order].tolist(), group[order].tolist(), strict=True)
    for loss, at, joins in joining:
        factor = math.perm(reached[joins] - starts[at], places[at])
        factors_were, factors[at] = factors[at], factor
        total = total // factors_were * factor if factors_were and total else math.prod(factors)
        if losses and losses[-1] == loss:
            totals[-1] = total
        else:
            losses.append(loss)
            totals.append(total)
    exact = np.empty(len(totals), dtype=object)
    exact[:] = totals
    return losses, exact


def _reach(candidates: ClosedHistogram, k: int, loss: int) -> list[int]:
    """Return, for each place, how many candidates fall short of its count by at most ``loss``."""
    ends = np.cumsum(candidates.multiplicities)
    counts = candidates.values[np.searchsorted(ends, np.arange(k), side="right")]
    groups = np.searchsorted(-candidates.values, loss - counts, side="right")
    reached: list[int] = ends[groups - 1].tolist()
    return reached


def _free(pick: int, taken: list[int]) -> int:
    """Return the rank that is number ``pick`` among those not taken."""
    rank = pick
    while (shifted := pick + bisect_right(taken, rank)) != rank:
        rank = shifted
    return rank


@lru_cache(maxsize=16)
def _sequences(size: int, k: int) -> IntArray:
    return np.array(list(permutations(range(size), k)), dtype=np.int64)
