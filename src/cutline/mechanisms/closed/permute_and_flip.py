r"""Draw k candidates one after the other by permute-and-flip: never a worse expected count than the exponential mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.errors import LawTooLarge
from cutline.histogram import Histogram
from cutline.mechanisms.base import LARGEST_LAW
from cutline.mechanisms.calibration import Step
from cutline.mechanisms.closed.selector import ClosedSelector
from cutline.outcome import Law, Outcome
from cutline.privacy import Cost, Pure
from cutline.sampling import Source, integers_below
from cutline.sampling.race import race

_NODES = 64  # Gauss-Legendre with n nodes is exact for polynomials of degree below 2n
_CHUNK = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAndFlip(ClosedSelector):
    r"""The top k of a closed domain by k rounds of permute-and-flip without replacement, in the order drawn.

    One round visits the candidates left in random order and takes the first whose coin of probability
    ``exp(epsilon * (count - best) / range)`` says yes. Released: k candidates, the first drawn first.

    **Privacy.** A round is report-noisy-max with exponential noise of scale ``range / epsilon``, range 1 under ADD_REMOVE and 2
    under REPLACE, hence epsilon-DP [MS20; DKS21; docs/proofs/permute-and-flip.md]. It is *not* bounded-range: k rounds are
    charged as k pure steps, which is dearer than peeling EM at the same epsilon.

    Examples
    --------
    >>> from cutline import Budget, ClosedHistogram
    >>> from cutline.sampling import SeededSource
    >>> mechanism = PermuteAndFlip.calibrate(Budget(epsilon=1.0, delta=1e-6), k=2)
    >>> counts = ClosedHistogram.from_counts({"a": 340, "b": 210, "c": 90, "d": 0})
    >>> mechanism.release(counts, rng=SeededSource(0)).items
    ('a', 'b')
    """

    name: ClassVar[str] = "permute-and-flip"
    ordered: ClassVar[bool] = True
    reference: ClassVar[str] = "MS20"
    cost_rule: ClassVar[str] = "k pure steps"
    steps: ClassVar[tuple[str, ...]] = ("permute-and-flip",)
    step: ClassVar[Step] = Pure

    def run(self, histogram: Histogram, source: Source) -> tuple[Outcome, Cost]:
        candidates = self.check_domain(histogram)
        left, values = candidates.multiplicities.copy(), candidates.values
        starts = np.cumsum(left) - left
        moved: dict[int, int] = {}
        ranks, best = [], 0
        for _ in range(self.k):
            while not left[best]:
                best += 1
            group = best + race(values[best] - values[best:], left[best:], self.rate, rng=source)
            pick = int(starts[group] + integers_below(left[group], rng=source))
            last = int(starts[group] + left[group] - 1)
            # A shuffle that remembers only what it moved: the last member takes the place of the one that leaves.
            ranks.append(moved.get(pick, pick))
            moved[pick] = moved.get(last, last)
            left[group] -= 1
        return self.outcome(candidates.named(ranks)), self.cost

    def law(self, histogram: Histogram) -> Law:
        return self.law_of_rounds(histogram, lambda scores, left: member_chances(scores, left, self.rate))

    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that the k drawn are exactly the top ``k``, in any order.

        Adds up over how many of each group of equals have gone, at most 10^5 such states.
        """
        candidates = self.check_domain(histogram)
        if k != self.k or k == candidates.size:
            return float(k == self.k)
        inside = np.diff(np.minimum(np.cumsum(candidates.multiplicities), k), prepend=0)
        top = inside[inside > 0].tolist()
        if math.prod(n + 1 for n in top) > LARGEST_LAW:
            raise LawTooLarge(
                f"a chance is added up over at most {LARGEST_LAW} states", f"k={k}", "Lower k, or sample."
            )
        states: dict[tuple[int, ...], float] = {(0,) * len(top): 1.0}
        for _ in range(k):
            gone = np.array(list(states))
            left = np.broadcast_to(candidates.multiplicities, (len(states), len(candidates.values))).copy()
            left[:, : len(top)] -= gone
            each = member_chances(candidates.values, left, self.rate)[:, : len(top)] * (np.array(top) - gone)
            states = _advance(states, each)
        return sum(states.values())


def member_chances(scores: IntArray, left: IntArray, rate: Fraction) -> FloatArray:
    r"""Return, for rows of how many are left of each group, the chance that one given member is drawn.

    With ``a = exp(-rate * (best - score))`` it is ``a * integral over z in [0, 1] of prod_j (1 - a_j z)``, the product over all
    other members. The integrand is a polynomial that is nowhere negative, and so are Gauss-Legendre weights: nothing cancels.
    Up to 128 members the rule is exact; above, halving intervals towards 0 keep the integrand tame on each that matters.
    """
    members = int(left.sum(axis=1).max())
    nodes, weights = _quadrature(members)
    best = np.where(left > 0, scores, scores.min()).max(axis=1, keepdims=True)
    with np.errstate(under="ignore"):
        accept = np.where(left > 0, np.exp(float(rate) * np.minimum(scores - best, 0)), 0.0)
    rows = max(1, _CHUNK // (accept.shape[1] * len(nodes)))
    chances = np.empty(accept.shape)
    for at in range(0, len(accept), rows):
        part, counts = accept[at : at + rows], left[at : at + rows]
        with np.errstate(under="ignore"):
            logs = np.log1p(-part[:, :, None] * nodes)
            others = np.exp((counts[:, :, None] * logs).sum(axis=1, keepdims=True) - logs)
            chances[at : at + rows] = part * (others @ weights)
    return chances


@lru_cache(maxsize=_NODES)
def _gauss(nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre nodes and weights on [0, 1]; to find them takes longer than to use them."""
    places, weights = np.polynomial.legendre.leggauss(nodes)
    return (places + 1) / 2, weights / 2


def _quadrature(members: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights on [0, 1] for polynomials with one factor per member."""
    nodes, weights = _gauss(max(min((members + 1) // 2, _NODES), 1))
    halvings = members.bit_length() if members > 2 * _NODES else 0
    ends = [0.0, *(2.0**-j for j in range(halvings, -1, -1))]
    widths = np.diff(ends)
    return (
        np.concatenate([low + width * nodes for low, width in zip(ends, widths, strict=False)]),
        np.concatenate([width * weights for width in widths]),
    )


def _advance(states: dict[tuple[int, ...], float], each: FloatArray) -> dict[tuple[int, ...], float]:
    following: dict[tuple[int, ...], float] = {}
    for (state, chance), row in zip(states.items(), each.tolist(), strict=True):
        for group, step in enumerate(row):
            if step > 0:
                after = (*state[:group], state[group] + 1, *state[group + 1 :])
                following[after] = following.get(after, 0.0) + chance * step
    return following
