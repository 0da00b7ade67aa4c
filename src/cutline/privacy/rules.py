r"""The rules that turn a cost, fixed in advance, into an epsilon at a given delta. The smallest valid one is the answer.

Every rule is a function ``(cost, delta) -> epsilon`` that is right or infinite, never optimistic; a rule that does not
apply to a cost leaves itself out. Any order gives a valid epsilon, so a search over orders can only be untight, not wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from cutline.privacy.conversion import epsilon_from_rdp, epsilon_from_rdp_classic

if TYPE_CHECKING:
    from cutline.privacy.cost import Cost

Convert = Callable[[float], float]

_GOLDEN = (math.sqrt(5) - 1) / 2


def rdp(cost: Cost, delta: float) -> float:
    """Approximate RDP at the best order, tight conversion."""
    return _best_order(
        lambda a: epsilon_from_rdp(order=a, rdp=cost.rdp(a), delta=delta, slack=cost.delta), cost, delta
    )


def rdp_classic(cost: Cost, delta: float) -> float:
    """Approximate RDP at the best order, the paper's conversion."""
    return _best_order(
        lambda a: epsilon_from_rdp_classic(order=a, rdp=cost.rdp(a), delta=delta, slack=cost.delta), cost, delta
    )


def pure(cost: Cost, delta: float) -> float:
    """Pure DP composed by addition, outside the probability ``cost.delta``."""
    return cost.rdp(math.inf) if cost.delta <= delta else math.inf


RULES: dict[str, Callable[[Cost, float], float]] = {"rdp": rdp, "rdp-classic": rdp_classic, "pure": pure}


def _best_order(epsilon_at: Convert, cost: Cost, delta: float) -> float:
    """Minimise over orders: a coarse geometric grid in (order - 1), then golden section around the best points."""
    if not cost.delta < delta:
        return math.inf
    grid = [math.log(1e-2) + i * math.log(1e7) / 120 for i in range(121)]  # order - 1 from 1e-2 to 1e5

    def at(t: float) -> float:
        return epsilon_at(1 + math.exp(t))

    values = [at(t) for t in grid]
    best = min(values)
    # A table built for one order has a narrow valley; look closely beside the three lowest grid points.
    for i in sorted(range(len(grid)), key=values.__getitem__)[:3]:
        best = min(best, _golden(at, grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]))
    return best


def _golden(at: Convert, low: float, high: float) -> float:
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = at(left), at(right)
    for _ in range(40):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = at(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = at(right)
    return min(at_left, at_right)
