r"""Draw k candidates one after the other, each by an exponential mechanism on the counts of those left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cutline.histogram import Histogram
from cutline.mechanisms.closed.selector import ClosedSelector
from cutline.outcome import Law, Outcome
from cutline.privacy import Cost
from cutline.sampling import Source, Weights, probabilities
from cutline.sampling.peeling import peel

_GRID = 1 / 64  # of the logarithm of time


@dataclass(frozen=True, slots=True, kw_only=True)
class PeelingEM(ClosedSelector):
    r"""The top k of a closed domain by k exponential mechanisms without replacement, in the order drawn.

    Released: k candidates, the first drawn first. Equal in law to adding Gumbel noise to every count once and listing the k
    largest sums.

    **Privacy.** One user moves the counts by amounts that span 1 under ADD_REMOVE and 2 under REPLACE, so each round with
    weights ``exp(epsilon * count / range)`` is epsilon-bounded-range [DR19; docs/proofs/bounded-range.md], given what was drawn
    before; k rounds cost k times its curve [CR21; docs/proofs/peeling-em.md].

    Examples
    --------
    >>> from cutline import Budget, ClosedHistogram
    >>> from cutline.sampling import SeededSource
    >>> mechanism = PeelingEM.calibrate(Budget(epsilon=1.0, delta=1e-6), k=2)
    >>> counts = ClosedHistogram.from_counts({"a": 340, "b": 210, "c": 90, "d": 0})
    >>> mechanism.release(counts, rng=SeededSource(0)).items
    ('a', 'b')
    """

    name: ClassVar[str] = "peeling-em"
    ordered: ClassVar[bool] = True
    reference: ClassVar[str] = "DR19"
    cost_rule: ClassVar[str] = "k bounded-range steps"
    steps: ClassVar[tuple[str, ...]] = ("peel",)

    def run(self, histogram: Histogram, source: Source) -> tuple[Outcome, Cost]:
        candidates = self.check_domain(histogram)
        weights = Weights(
            scores=candidates.values[None, :], rate=self.rate, multiplicities=candidates.multiplicities[None, :]
        )
        return self.outcome(candidates.named(peel(weights, self.k, rng=source).tolist())), self.cost

    def law(self, histogram: Histogram) -> Law:
        return self.law_of_rounds(
            histogram,
            lambda scores, left: probabilities(
                Weights(scores=np.broadcast_to(scores, left.shape), rate=self.rate, multiplicities=left)
            ),
        )

    def chance(self, histogram: Histogram, k: int) -> float:
        r"""Return the probability that the k drawn are exactly the top ``k``, in any order.

        Draws without replacement are a race of exponential clocks with the weights as rates: the top k win if all of them ring
        before any other, ``integral of prod_i (1 - exp(-w_i t)) exp(-t) dt`` with the weight of all others as unit. In the
        logarithm of t the trapezoidal rule converges geometrically.
        """
        candidates = self.check_domain(histogram)
        if k != self.k or k == candidates.size:
            return float(k == self.k)
        inside = np.diff(np.minimum(np.cumsum(candidates.multiplicities), k), prepend=0)
        outside = candidates.multiplicities - inside
        exponents = float(self.rate) * (candidates.values - candidates.values[outside > 0][0])
        others = math.log(float(np.sum(outside[outside > 0] * np.exp(exponents[outside > 0]))))
        top = inside > 0
        logs = np.arange(-45.0, math.log(100 + k + 20 * math.sqrt(k)), _GRID)
        with np.errstate(divide="ignore", under="ignore"):
            rings = np.exp(np.minimum(exponents[top, None] - others + logs, 700.0))
            log_products = (inside[top, None] * np.log(-np.expm1(-rings))).sum(axis=0)
            return min(1.0, float(np.sum(np.exp(log_products + logs - np.exp(logs))) * _GRID))
