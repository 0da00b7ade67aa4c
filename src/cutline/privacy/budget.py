r"""What may be spent: a budget asked for in (epsilon, delta), and the filter that enforces it one release at a time.

A *budget* prices sequences fixed in advance. A *filter* admits releases one by one, each chosen after seeing the last: it
fixes one Rényi order and two limits before any data, and only sums at that order count.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from cutline.errors import BudgetError, ParameterError
from cutline.privacy.cost import Cost
from cutline.privacy.curves.base import check_number, check_order, check_whole, hold
from cutline.privacy.rules.rdp import rdp_within
from cutline.privacy.rules.registry import PLANNED_RULES, RULES
from cutline.rounding import fraction_down, sum_up

_NEAR = 1.2  # how far the Rényi rule may be above the epsilon that a planned rule proves

# What a budget may be. Far outside of it every figure would be a curiosity, and calibrating would meet the ends of the floats.
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-9, 1e4
SMALLEST_DELTA = 1e-200
MOST_RELEASES = 10**9


Share = Fraction | float | str
_SHARE = re.compile(
    r"\s*(?P<number>\d{1,9}(\.\d{1,18})?(e-\d{1,2})?)\s*(/\s*(?P<by>[1-9]\d{0,8}))?\s*(?P<percent>%)?\s*", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    r"""Two limits at one Rényi order, fixed at creation.

    **Privacy.** If every admitted cost was added to the two sums, the whole adaptive sequence is (epsilon, delta)-DP
    for the budget the filter was made from, and for nothing smaller [docs/proofs/composition.md].
    """

    order: float
    rdp: float
    delta: float

    def __post_init__(self) -> None:
        order, rdp = check_order(self.order), check_number("rdp", self.rdp)
        hold(self, order=order, rdp=rdp, delta=check_number("delta", self.delta))
        if not math.isfinite(self.order):
            raise ParameterError("a filter's order must be finite", f"order={self.order}", "Try an order of 8.")
        if not 0 <= self.rdp < math.inf or not 0 <= self.delta < 1:
            raise ParameterError(
                "a filter's limits must be finite, at least 0, and delta below 1",
                f"rdp={self.rdp}, delta={self.delta}",
                "Make it with budget.filter(order=..., delta_share=...).",
            )

    def admits(self, spent_rdp: float, spent_delta: float, cost: Cost) -> bool:
        """Say whether both sums stay within the limits with ``cost`` added; false on NaN."""
        return (
            spent_rdp >= 0
            and spent_delta >= 0
            and sum_up([(1, spent_rdp), (1, cost.rdp(self.order))]) <= self.rdp
            and sum_up([(1, spent_delta), (1, cost.delta)]) <= self.delta
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    r"""A total (epsilon, delta) for a number of releases of the same kind.

    Examples
    --------
    >>> Budget(epsilon=1.0, delta=1e-6).filter(order=16.0, delta_share=0.25)
    Filter(order=16.0, rdp=0.3091649439258215, delta=2.5e-07)
    """

    epsilon: float
    delta: float
    releases: int = 1

    def __post_init__(self) -> None:
        epsilon, delta = check_number("epsilon", self.epsilon), check_number("delta", self.delta)
        if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
            raise ParameterError(
                f"epsilon must be from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}",
                f"epsilon={epsilon:.3g}",
                "Try epsilon=1; below that range nothing can be told, above it nobody is protected.",
            )
        if not SMALLEST_DELTA <= delta < 1:
            raise ParameterError(
                f"delta must be from {SMALLEST_DELTA:g} up and below 1", f"delta={delta:.3g}", "Try delta=1e-6."
            )
        releases = check_whole("releases", self.releases, "Try releases=1.", most=MOST_RELEASES)
        hold(self, epsilon=epsilon, delta=delta, releases=releases)

    def covers(self, limits: Filter) -> bool:
        """Say whether everything a filter admits, however it is chosen, stays within this budget."""
        return limits.delta < self.delta and limits.rdp <= rdp_within(
            order=limits.order, epsilon=self.epsilon, delta=self.delta, slack=limits.delta
        )

    def fits(self, cost: Cost) -> bool:
        """Say whether ``releases`` times this cost, fixed in advance, stays within the budget by some rule."""
        return _fits(self, cost)

    def filter(self, *, order: float, delta_share: float) -> Filter:
        """Fix a filter for the whole budget: ``delta_share`` of delta for the sum of deltas, the rest to convert."""
        order, delta_share = check_order(order), check_number("delta_share", delta_share)
        if not 0 <= delta_share < 1:
            raise ParameterError(
                "delta_share must be at least 0 and below 1", f"delta_share={delta_share}", "Try 0.25."
            )
        slack = fraction_down(Fraction(delta_share) * Fraction(self.delta))
        limit = rdp_within(order=order, epsilon=self.epsilon, delta=self.delta, slack=slack)
        if not limit > 0 or order == math.inf:
            raise BudgetError(
                "the budget must leave something to spend at the filter's order",
                f"epsilon={self.epsilon:.3g}, delta={self.delta:.3g}, order={order:.3g}",
                "Raise the order, epsilon or delta.",
            )
        return Filter(order=order, rdp=limit, delta=slack)


def parse_share(share: Share) -> Fraction:
    """Return a share of a budget as a fraction, written as ``1/20``, ``0.05`` or ``5%``.

    Examples
    --------
    >>> parse_share("1/20") == parse_share("5%") == parse_share("0.05") == parse_share(Fraction(1, 20)) == parse_share(0.05)
    True
    """
    match = None if isinstance(share, bool) else _SHARE.fullmatch(str(share))
    # A float is meant as it is written: 0.05 is a twentieth, and the double of that name is a little more.
    part = share if isinstance(share, Fraction) else Fraction(0)
    if match is not None:
        part = Fraction(match["number"]) / int(match["by"] or 1) / (100 if match["percent"] else 1)
    if not 0 < part <= 1:
        raise ParameterError(
            "a share of a budget is above 0 and at most 1",
            f"share={str(share)[:40]}",
            "Write it like 1/20, 0.05 or 5%.",
        )
    return part


@lru_cache(maxsize=256)  # every release of a plan asks the same again
def _fits(budget: Budget, cost: Cost) -> bool:
    total = budget.releases * cost
    by_renyi = RULES["rdp"](total, budget.delta)
    if by_renyi <= budget.epsilon:
        return True
    # Where the Rényi rule is far off, a planned one is not worth its time; where it is near, it is as quick as the rest.
    if by_renyi <= _NEAR * budget.epsilon and any(
        rule(cost, budget.delta, releases=budget.releases) <= budget.epsilon for rule in PLANNED_RULES.values()
    ):
        return True
    return any(rule(total, budget.delta) <= budget.epsilon for rule in RULES.values())
