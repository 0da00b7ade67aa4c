r"""What the selectors of a closed domain share: their refusals, and how equal steps spend a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from cutline.arrays import IntArray
from cutline.errors import BudgetError, DomainError, LawTooLarge, ParameterError
from cutline.histogram import ClosedHistogram, Histogram
from cutline.mechanisms.base import Mechanism, Parameter
from cutline.privacy import Adjacency, BoundedRange, Budget, Cost, Filter, Pure, largest
from cutline.privacy.conversion import rdp_within
from cutline.privacy.curves.base import check_positive
from cutline.privacy.rounding import fraction_down
from cutline.privacy.rules.rdp import best_order
from cutline.privacy.rules.registry import RULES
from cutline.release import Items, Outcome

Step: TypeAlias = type[BoundedRange] | type[Pure]

LARGEST_LAW = 10**5
_INSIDE = 1 - 1e-9  # room for what curves and conversions round up
_CLOSE = 1 - 1e-8
_CLOSE_PRICE, _SECANTS = 1e-7, 24
_ROUNDS = 40
_MOST_STEPS = 10_000  # of the optimal composition of pure steps: its terms grow with them
_MOST_WORK = 10**8  # k times the candidates many integers of about k words, at worst


def checked_k(k: int) -> int:
    """Return k as an integer; refuse one that is not a whole number of at least 1."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ParameterError("k must be a whole number of at least 1", f"k={k}", "Try k=10.")
    return int(k)


def closed(histogram: Histogram, *, name: str, k: int, spare: int = 0) -> ClosedHistogram:
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


def check_outcomes(outcomes: int, *, k: int, size: int) -> None:
    """Refuse to list a law that is too long; it depends on public numbers only."""
    if outcomes > LARGEST_LAW:
        raise LawTooLarge(
            f"a law is listed up to {LARGEST_LAW} outcomes", f"k={k}, {size} candidates", "Lower k, or sample."
        )


@lru_cache(maxsize=256)
def step_within(budget: Budget, limits: Filter | None, *, step: Step, times: int) -> float:
    r"""Return the largest epsilon of one step when ``times`` equal steps make a release.

    **Privacy.** The steps of all releases together fit the budget by one of the rules `rdp`, `pure`, `exact` (for steps of
    bounded range) and `advanced` (for pure ones), whichever allows most; or, with a filter, its limit at its order.

    Examples
    --------
    >>> budget = Budget(epsilon=1.0, delta=1e-6)
    >>> [round(step_within(budget, None, step=BoundedRange, times=k), 4) for k in (1, 10, 100)]
    [1.0016, 0.1534, 0.0474]
    """
    steps = times * budget.releases
    if limits is not None:
        if not (budget.covers(limits) and limits.rdp > 0):
            raise BudgetError(
                "the filter must lie within the budget and leave something to spend",
                f"order={limits.order:.3g}, rdp={limits.rdp:.3g}, delta={limits.delta:.3g}",
                "Make it with budget.filter(order=..., delta_share=...).",
            )
        return _at_order(step, order=limits.order, rdp=limits.rdp, steps=steps)
    added = fraction_down(Fraction(budget.epsilon) / steps)
    found = max(added, _by_renyi(budget, step, steps))
    if step is BoundedRange:
        return _by_value_recursion(budget, steps, found)
    return max(found, _by_optimal_composition(budget, steps, added))


def _total(step: Step, epsilon: float, steps: int) -> Cost:
    # The curves do not know the adjacency relation; any will do to add them up.
    return steps * Cost.of(step(epsilon=epsilon), adjacency=Adjacency.ADD_REMOVE)


def _at_order(step: Step, *, order: float, rdp: float, steps: int) -> float:
    """Return the largest epsilon whose curve at one order stays within an even share of ``rdp``."""
    share = fraction_down(Fraction(rdp) / steps * Fraction(_INSIDE))
    if not share > 0:
        raise BudgetError("the budget must leave something for every step", f"{steps} steps", "Lower k or releases.")
    if step is BoundedRange:
        return BoundedRange.within(order=order, rdp=share).epsilon
    # Pure DP costs at most epsilon, and at least epsilon less what a coin of that bias hides.
    low = share * (1 - 1e-12)
    high = low
    while Pure(epsilon=high).rdp(order) <= share:
        high *= 2
    return largest(lambda e: Pure(epsilon=e).rdp(order) <= share, low=low, high=high, relative=1e-12)


def _by_renyi(budget: Budget, step: Step, steps: int) -> float:
    """Spend the budget at the Rényi order that is best for what it buys: alternate between the two."""
    cost = _total(step, fraction_down(Fraction(budget.epsilon) / steps), steps)
    best = 0.0
    for _ in range(_ROUNDS):
        order = best_order(cost, budget.delta)
        rdp = rdp_within(order=order, epsilon=budget.epsilon, delta=budget.delta, slack=0.0)
        if not rdp > 0:
            break
        epsilon = _at_order(step, order=order, rdp=rdp, steps=steps)
        cost = _total(step, epsilon, steps)
        spent = RULES["rdp"](cost, budget.delta)
        if spent <= budget.epsilon:
            best = max(best, epsilon)
        if spent >= budget.epsilon * _CLOSE:
            break
    return best


def _by_value_recursion(budget: Budget, steps: int, found: float) -> float:
    """Spend what the exact price of adaptive steps leaves over: few trials, by the secant rule, as each takes 0.2 s."""
    low, high = -math.inf, math.inf  # logarithms of an epsilon that fits and of one that does not
    at, before = math.log(found), (0.0, math.inf)
    for _ in range(_SECANTS):
        price = RULES["exact"](_total(BoundedRange, math.exp(at), steps), budget.delta)
        if price == math.inf and high == math.inf and low == -math.inf:
            break  # the rule does not apply
        excess = math.log(price / budget.epsilon) if price > 0 else -math.inf  # delta alone may cover it
        low, high = (at, high) if excess <= 0 else (low, at)
        if -_CLOSE_PRICE <= excess <= 0:
            break
        slope = (excess - before[1]) / (at - before[0]) if math.isfinite(excess) and math.isfinite(before[1]) else 1.0
        after = at - (excess + _CLOSE_PRICE / 4) / max(slope, 0.25)
        if not low < after < high:
            after = (low + high) / 2 if math.isfinite(low + high) else at + math.copysign(math.log(2), -excess)
        before, at = (at, excess), after
    return max(found, math.exp(low))


def _by_optimal_composition(budget: Budget, steps: int, added: float) -> float:
    """Spend the budget by the optimal composition of pure steps, which addition never beats."""
    if steps > _MOST_STEPS:
        return added

    def fits(epsilon: float) -> bool:
        return RULES["advanced"](_total(Pure, epsilon, steps), budget.delta) <= budget.epsilon

    return largest(fits, low=added, high=budget.epsilon, relative=1e-8)


def countable(size: int, *, k: int) -> bool:
    """Say whether counting subsets or sequences fits in memory at worst; it depends on public numbers only."""
    return k * k * size <= _MOST_WORK


def check_work(size: int, *, k: int, name: str) -> None:
    """Refuse more counting than fits in memory at worst."""
    if not countable(size, k=k):
        raise ParameterError(
            f"{name} takes k * k * candidates up to {_MOST_WORK:.0e}",
            f"k={k}, {size} candidates",
            "Use peeling-em, which takes any number.",
        )


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
        object.__setattr__(self, "k", checked_k(self.k))
        check_positive("epsilon", self.epsilon)

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        limits: Filter | None = None,
        k: int = 10,
    ) -> Self:
        """Spend the whole budget evenly on the steps of its releases, from public numbers alone."""
        times = 1 if cls.one_step else checked_k(k)
        kind: Any = cls.step
        epsilon = step_within(budget, limits, step=kind, times=times)
        return cls(k=k, epsilon=epsilon, adjacency=Adjacency(adjacency), budget=budget)

    @property
    def cost(self) -> Cost:
        """The cost of one release."""
        return (1 if self.one_step else self.k) * Cost.of(self.step(epsilon=self.epsilon), adjacency=self.adjacency)

    def outcome(self, items: Items) -> Outcome:
        """Return the outcome in which these candidates go out."""
        return Outcome(items=items, k=self.k, steps=self.steps)

    def public_parameters(self) -> dict[str, Any]:
        """Return the mechanism's own parameters as plain data."""
        return {"k": self.k, "epsilon": self.epsilon}
