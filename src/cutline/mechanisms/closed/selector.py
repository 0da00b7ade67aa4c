r"""What the selectors of a closed domain share: what they are made of, what they refuse, and how they spend a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any, ClassVar, Self

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.errors import DomainError, ParameterError
from cutline.histogram import ClosedHistogram, Histogram
from cutline.mechanisms.base import Mechanism, Parameter, check_k, check_listable
from cutline.mechanisms.calibration import Step, largest_step
from cutline.privacy import Adjacency, BoundedRange, Budget, Cost, Filter
from cutline.privacy.curves.base import check_positive
from cutline.release import Items, Law, Outcome

_MOST_WORK = 10**8  # k times the candidates many integers of about k words, at worst


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedSelector(Mechanism):
    """What every selector of k candidates from a closed domain is made of: k, epsilon of one step, and who is protected."""

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
        """The cost of one release."""
        return (1 if self.one_step else self.k) * Cost.of(self.step(epsilon=self.epsilon), adjacency=self.adjacency)

    @property
    def rate(self) -> Fraction:
        """What a count, or a difference of two counts, is multiplied by in the exponent."""
        # Rounds compare counts. One draw of all k compares differences of two counts, which move like gaps.
        return Fraction(self.epsilon) / (self.adjacency.gap_range if self.one_step else self.adjacency.count_range)

    def check_domain(self, histogram: Histogram) -> ClosedHistogram:
        """Return the histogram if its domain is closed and neither too small nor too large; all of that is public."""
        # One draw of all k compares the set with what it leaves out, so there must be something outside.
        candidates = check_closed(histogram, name=self.name, k=self.k, spare=int(self.one_step))
        if self.one_step:
            check_work(candidates.size, k=self.k, name=self.name)
        return candidates

    def outcome(self, items: Items) -> Outcome:
        """Return the outcome in which these candidates go out."""
        return Outcome(items=items, k=self.k, steps=self.steps)

    def law_of_rounds(self, histogram: Histogram, chances_of: Callable[[IntArray, IntArray], FloatArray]) -> Law:
        """Return the law of sequences drawn one candidate after the other.

        ``chances_of`` takes the candidates' counts, and rows that say which of them are left (1) or gone (0); it returns each
        candidate's chance to be drawn next, row by row.
        """
        candidates = self.check_domain(histogram)
        size = candidates.size
        check_listable(math.perm(size, self.k), f"k={self.k}, {size} candidates", "Lower k, or sample.")
        counts, names = counts_by_rank(candidates), candidates.named(range(size))
        # What is drawn next depends on the set drawn so far and not on its order.
        chances: dict[tuple[int, ...], list[float]] = {}
        for drawn in range(self.k):
            sets = list(combinations(range(size), drawn))
            left = np.ones((len(sets), size), dtype=np.int64)
            np.put_along_axis(left, np.array(sets, dtype=np.int64).reshape(len(sets), drawn), 0, axis=1)
            chances |= zip(sets, chances_of(counts, left).tolist(), strict=True)
        law: dict[Outcome, float] = {}
        for ranks in permutations(range(size), self.k):
            steps = (chances[tuple(sorted(ranks[:n]))][rank] for n, rank in enumerate(ranks))
            law[self.outcome(tuple(names[rank] for rank in ranks))] = math.prod(steps)
        return law

    def public_parameters(self) -> dict[str, Any]:
        """Return the mechanism's own parameters as plain data."""
        return {"k": self.k, "epsilon": self.epsilon}


def check_closed(histogram: Histogram, *, name: str, k: int, spare: int = 0) -> ClosedHistogram:
    """Return the histogram if its domain is closed and has ``k + spare`` candidates; both are public."""
    if not isinstance(histogram, ClosedHistogram):
        raise DomainError(
            f"{name} needs a closed domain: on an open one, which items exist is itself private",
            "an open histogram",
            "List the candidates when counting, or use limited-domain.",
        )
    if histogram.size < k + spare:
        raise ParameterError(
            f"k must be {'below' if spare else 'at most'} the number of candidates",
            f"k={k}, {histogram.size} candidates",
            "Lower k or list more candidates.",
        )
    return histogram


def counts_by_rank(histogram: ClosedHistogram) -> IntArray:
    """Return one count per candidate, descending; for small domains."""
    return np.repeat(histogram.values, histogram.multiplicities)


def countable(size: int, *, k: int) -> bool:
    """Say whether counting subsets or sequences fits in memory at worst; it depends on public numbers only."""
    return k * k * size <= _MOST_WORK


def check_work(size: int, *, k: int, name: str) -> None:
    """Raise if there is more to count than fits in memory at worst."""
    if not countable(size, k=k):
        raise ParameterError(
            f"{name} takes k * k * candidates up to {_MOST_WORK:.0e}",
            f"k={k}, {size} candidates",
            "Use peeling-em, which takes any number.",
        )
