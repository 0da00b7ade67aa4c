r"""Draw all k candidates at once: one exponential mechanism over sequences, priced by its worst place."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

import numpy as np

from cutline.arrays import IntArray
from cutline.histogram import ClosedHistogram, Histogram
from cutline.mechanisms.closed.selector import ClosedSelector, counts_by_rank, list_ranks
from cutline.outcome import Law, Outcome
from cutline.privacy import Cost
from cutline.sampling import Source, Weights, categorical, integers_below, probabilities
from cutline.sampling.draws import choice


@dataclass(frozen=True, slots=True, kw_only=True)
class JointEM(ClosedSelector):
    r"""A sequence of k candidates of a closed domain by one exponential mechanism, the first ranked first.

    The loss of a sequence s is ``max_i (h_(i) - h_{s_i})``: how far its worst place falls short of the count due there.

    **Privacy.** One user moves a loss by at most 1 under ADD_REMOVE and 2 under REPLACE, either way, so weights
    ``exp(-epsilon * loss / 2)`` and ``exp(-epsilon * loss / 4)`` are epsilon-bounded-range; one draw, whatever k is
    [GJM22; docs/proofs/joint-em.md].

    Examples
    --------
    >>> from cutline import Budget, ClosedHistogram
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
        candidates = self.check_domain(histogram)
        losses, sizes = count_by_loss(candidates.values, candidates.multiplicities, self.k)
        drawn = int(categorical(self._weigh(losses, sizes), rng=source)[0])
        ranks = self._sequence(candidates, losses[drawn], losses[drawn - 1] if drawn else None, source)
        return self.outcome(candidates.named(ranks)), self.cost

    def law(self, histogram: Histogram) -> Law:
        candidates = self.check_listable(histogram)
        counts, ranks = counts_by_rank(candidates), list_ranks(candidates.size, self.k, ordered=True)
        loss = (counts[: self.k] - counts[ranks]).max(axis=1)
        losses, sizes = count_by_loss(candidates.values, candidates.multiplicities, self.k)
        chances = probabilities(self._weigh(losses, sizes))[0] / np.array(sizes, dtype=np.float64)
        return self.list_law(candidates, ranks.tolist(), chances[np.searchsorted(losses, loss)].tolist())

    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that the k drawn are exactly the top ``k``, in any order.

        Sequences made of the top k alone are counted by loss in the same way, as a domain of their own.
        """
        candidates = self.check_domain(histogram)
        if k != self.k:
            return 0.0
        losses, sizes = count_by_loss(candidates.values, candidates.multiplicities, k)
        inside = np.diff(np.minimum(np.cumsum(candidates.multiplicities), k), prepend=0)
        own = zip(*count_by_loss(candidates.values[inside > 0], inside[inside > 0], k), strict=True)
        chances = probabilities(self._weigh(losses, sizes))[0].tolist()
        at = {loss: (chance, size) for loss, chance, size in zip(losses, chances, sizes, strict=True)}
        return math.fsum(at[loss][0] * float(Fraction(size, at[loss][1])) for loss, size in own)

    def _weigh(self, losses: list[int], sizes: list[int]) -> Weights:
        return self.weigh([-loss for loss in losses], sizes)

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


def count_by_loss(values: IntArray, multiplicities: IntArray, k: int) -> tuple[list[int], list[int]]:
    """Return all losses, ascending, and how many sequences lose exactly that much.

    Place i may hold any candidate whose count is at least ``h_(i) - loss``; these sets are nested, so
    ``prod_i (n_i - i + 1)`` sequences lose at most that much. As the loss grows past ``h_(i) - value``, one group of equals
    becomes possible at the places of another.
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
    return losses, [total - before for before, total in pairwise([0, *totals])]


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
