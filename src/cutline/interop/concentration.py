r"""The smallest zCDP parameter we can prove for a curve, for libraries that account in zCDP only.

A bit table is shaped for one Rényi order, so a straight line above its whole curve is loose. Cutline itself never charges
it; it is for export alone.
"""

from __future__ import annotations

import heapq
import math

from cutline.errors import ParameterError
from cutline.privacy.cost import Cost
from cutline.privacy.curves.base import Concentrated, Curve
from cutline.rounding import sum_up

_MOST_SPLITS = 2000


def certified_rho(curve: Curve, *, relative: float = 1e-3) -> float:
    r"""Return rho with ``D_a <= rho a`` for every order a > 1, proved cell by cell.

    Rényi divergence grows with its order, so on a cell of orders [low, high] it is at most ``rdp(high)`` and rho is at
    least as large as needed if it is ``rdp(high) / low``; the last cell ends at infinity, where ``rdp`` is the pure
    bound. The dearest cell is split until it is within ``relative`` of a value that is attained.

    Raises
    ------
    ParameterError
        The curve has no pure bound and says nothing about zCDP.

    Examples
    --------
    >>> from cutline.privacy import BitTable, BoundedRange
    >>> certified_rho(BoundedRange(epsilon=1.0))
    0.125
    >>> table = BitTable.stability(order=8.0, rdp=0.25, delta=1e-6)
    >>> certified_rho(table) / (table.rdp(8.0) / 8.0) > 4  # the price of a straight line
    True
    """
    if isinstance(curve, Concentrated):
        return curve.rho
    pure = curve.rdp(math.inf)
    if not pure < math.inf:
        raise ParameterError(
            "a zCDP parameter needs a curve that is zCDP or has a pure bound",
            f"kind={curve.kind}",
            "Use Cutline's own accounting, which needs one order only.",
        )
    attained = 0.0
    cells = [(-pure, 1.0, math.inf, pure)]  # minus the cell's rho, its orders, what bounds the divergence inside
    for _ in range(_MOST_SPLITS):
        dearest, low, high, bound = cells[0]
        if -dearest <= attained * (1 + relative):
            break
        middle = 2 * low if high == math.inf else math.sqrt(low * high)
        if not low < middle < high:
            break
        at_middle = min(curve.rdp(middle), bound)
        attained = max(attained, at_middle / middle)
        heapq.heapreplace(cells, (-_up(at_middle / low), low, middle, at_middle))
        heapq.heappush(cells, (-_up(bound / middle), middle, high, bound))
    return -cells[0][0]


def bound_by_zcdp(cost: Cost) -> tuple[float, float]:
    """Return (rho, delta) such that the cost is delta-approximately rho-zCDP, both rounded up."""
    return sum_up((use.times, certified_rho(use.curve)) for use in cost.uses), cost.delta


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)
