r"""What the selectors of a closed domain share: what they are made of, what they refuse, and how they spend a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, permutations
from typing import Any, ClassVar, Self

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.errors import DomainError, ParameterError
from cutline.histogram import ClosedHistogram, Histogram
from cutline.mechanisms.base import Mechanism, Parameter, check_k, check_listable
from cutline.mechanisms.calibration import Step, largest_step
from cutline.outcome import Items, Law, Outcome
from cutline.privacy import Adjacency, BoundedRange, Budget, Cost, Filter
from cutline.privacy.curves.base import check_positive
from cutline.sampling import Weights

_MOST_WORK = 10**8  # k times the candidates many integers of about k words, at worst


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedSelector(Mechanism):
    r"""What every selector of k candidates from a closed domain is made of.

    Parameters
    ----------
    k
        How many candidates are drawn; at most as many as there are, and fewer where one step draws all of them.
    epsilon
        Of one step: of each of k rounds, or of the one draw of all k.

    Notes
    -----
    The time of a round grows with the number of distinct counts, not of candidates; k names are looked up.

    One draw of all k counts the possible answers by score: at most k times the number of distinct counts scores, each count an
    exact integer of up to k log2(m) bits (about 60 ms at m = 10^6 candidates, 2000 distinct counts, k = 10). If ``k^2 m`` is
    above 10^8 it is refused: the worst case would not fit in memory.
    """

    domains: ClassVar[tuple[str, ...]] = ("closed",)
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter(name="k"),)
    steps: ClassVar[tuple[str, ...]]  # which public steps run
    step: ClassVar[Step] = BoundedRange  # what one step costs
    one_step: ClassVar[bool] = False  # whether one step draws all k, or each of them takes one

    k: int
    epsilon: float

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)  # super() does not see through slots
        object.__setattr__(self, "k", check_k(self.k))
        check_positive("epsilon", self.epsilon)

    @classmethod
    def calibrate(
        cls, budget: Budget, *, adjacency: Adjacency = Adjacency.ADD_REMOVE, limits: Filter | None = None, k: int = 10
    ) -> Self:
        """Spend the whole budget evenly on the steps of its releases, from public numbers alone."""
        times = 1 if cls.one_step else check_k(k)
        epsilon = largest_step(budget, limits, step=cls.step, times=times)
        return cls(k=k, epsilon=epsilon, adjacency=Adjacency(adjacency), budget=budget)

    @property
    def cost(self) -> Cost:
        return (1 if self.one_step else self.k) * Cost.of(self.step(epsilon=self.epsilon), adjacency=self.adjacency)

    @property
    def rate(self) -> Fraction:
        """What a count, or a difference of two counts, is multiplied by in the exponent."""
        # Rounds compare counts. One draw of all k compares differences of two counts, which move like gaps.
        return Fraction(self.epsilon) / (self.adjacency.gap_range if self.one_step else self.adjacency.count_range)

    def check_domain(self, histogram: Histogram) -> ClosedHistogram:
        """Return the histogram if its domain is closed and neither too small nor too large; all of that is public."""
        # One draw of all k compares the set with what it leaves out, so there must be something outside.
        if not isinstance(histogram, ClosedHistogram):
            raise DomainError(
                f"{self.name} needs a closed domain: on an open one, which items exist is itself private",
                "an open histogram",
                "List the candidates when counting, or use limited-domain.",
            )
        given = f"k={self.k}, {histogram.size} candidates"
        if histogram.size < self.k + self.one_step:
            raise ParameterError(
                f"k must be {'below' if self.one_step else 'at most'} the number of candidates",
                given,
                "Lower k or list more candidates.",
            )
        if self.one_step and not countable(histogram.size, k=self.k):
            raise ParameterError(
                f"{self.name} takes k * k * candidates up to {_MOST_WORK:.0e}",
                given,
                "Use peeling-em, which takes any number.",
            )
        return histogram

    def outcome(self, items: Items) -> Outcome:
        """Return the outcome in which these candidates go out."""
        return Outcome(items=items, k=self.k, steps=self.steps)

    def law_of_rounds(self, histogram: Histogram, chances_of: Callable[[IntArray, IntArray], FloatArray]) -> Law:
        """Return the law of sequences drawn one candidate after the other.

        ``chances_of`` takes the candidates' counts, and rows that say which of them are left (1) or gone (0); it returns each
        candidate's chance to be drawn next, row by row.
        """
        candidates = self.check_listable(histogram)
        size, counts = candidates.size, counts_by_rank(candidates)
        # What is drawn next depends on the set drawn so far and not on its order.
        chances: dict[tuple[int, ...], list[float]] = {}
        for drawn in range(self.k):
            sets = list(combinations(range(size), drawn))
            left = np.ones((len(sets), size), dtype=np.int64)
            np.put_along_axis(left, np.array(sets, dtype=np.int64).reshape(len(sets), drawn), 0, axis=1)
            chances |= zip(sets, chances_of(counts, left).tolist(), strict=True)
        sequences = list(permutations(range(size), self.k))
        each = (
            math.prod(chances[tuple(sorted(ranks[:n]))][rank] for n, rank in enumerate(ranks)) for ranks in sequences
        )
        return self.list_law(candidates, sequences, each)

    def check_listable(self, histogram: Histogram) -> ClosedHistogram:
        """Return the histogram if the mechanism runs on it and there are not too many outcomes to list."""
        candidates = self.check_domain(histogram)
        outcomes = (math.perm if self.ordered else math.comb)(candidates.size, self.k)
        check_listable(outcomes, f"k={self.k}, {candidates.size} candidates", "Lower k, or sample.")
        return candidates

    def list_law(self, candidates: ClosedHistogram, drawn: Iterable[Sequence[int]], chances: Iterable[float]) -> Law:
        """Return the law in which these ranks are drawn with these probabilities."""
        names = candidates.named(range(candidates.size))
        law: dict[Outcome, float] = {}
        for ranks, chance in zip(drawn, chances, strict=True):
            items = tuple(names[rank] for rank in ranks)
            law[self.outcome(items if self.ordered else frozenset(items))] = chance
        return law

    def weigh(self, scores: list[int], sizes: list[int]) -> Weights:
        """Return the exponential mechanism over groups of answers, whose sizes are exact integers of any length."""
        multiplicities = np.empty((1, len(sizes)), dtype=object)
        multiplicities[0, :] = sizes
        return Weights(scores=np.array([scores], dtype=np.int64), rate=self.rate, multiplicities=multiplicities)

    def public_parameters(self) -> dict[str, Any]:
        return {"k": self.k, "epsilon": self.epsilon}


def counts_by_rank(histogram: ClosedHistogram) -> IntArray:
    """Return one count per candidate, descending; for small domains."""
    return np.repeat(histogram.values, histogram.multiplicities)


@lru_cache(maxsize=16)
def list_ranks(size: int, k: int, *, ordered: bool) -> IntArray:
    """Return the ranks of every outcome, a row each."""
    return np.array(list(permutations(range(size), k) if ordered else combinations(range(size), k)), dtype=np.int64)


def countable(size: int, *, k: int) -> bool:
    """Say whether counting subsets or sequences fits in memory at worst; it depends on public numbers only."""
    return k * k * size <= _MOST_WORK
