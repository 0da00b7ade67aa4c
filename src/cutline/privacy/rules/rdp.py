r"""The rules ``rdp`` and ``rdp-classic``: Rényi differential privacy at the order that converts best.

Any order gives a valid epsilon, so a search over orders can only be untight, not wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from cutline.privacy.conversion import epsilon_from_rdp, epsilon_from_rdp_classic
from cutline.privacy.curves.base import Composition

_GOLDEN = (math.sqrt(5) - 1) / 2
_GRID = [math.log(1e-2) + i * math.log(10) / 6 for i in range(61)]  # ln(order - 1), orders from 1.01 to 1e8
_ROUNDS = 60  # a table's valley has a kink at the order it was built for: go down to the last bits


def rdp(cost: Composition, delta: float) -> float:
    """Return epsilon by approximate RDP at the best order, with the tight conversion."""
    return _at_best_order(cost, delta, epsilon_from_rdp)


def rdp_classic(cost: Composition, delta: float) -> float:
    """Return epsilon by approximate RDP at the best order, with the paper's conversion."""
    return _at_best_order(cost, delta, epsilon_from_rdp_classic)


def _at_best_order(cost: Composition, delta: float, convert: Callable[..., float]) -> float:
    """Search the order in floats, then convert once, rounded up. Any order is valid; a poor search is only untight."""
    if not cost.delta < delta:
        return math.inf
    order = best_order(cost, delta, tight=convert is epsilon_from_rdp)
    return convert(order=order, rdp=cost.rdp(order), delta=delta, slack=cost.delta)


def best_order(cost: Composition, delta: float, *, tight: bool = True) -> float:
    """Return the order at which the cost converts best."""
    log_share = math.log(delta - cost.delta) - math.log1p(-cost.delta)

    def at(t: float) -> float:
        above = math.exp(t)
        toll = math.log(above / (above + 1)) - math.log1p(above) / above if tight else 0.0
        return cost.rdp(1 + above) + toll - log_share / above

    return 1 + math.exp(_minimise(at))


def _minimise(at: Callable[[float], float]) -> float:
    """Return the best t: a coarse grid, then golden section around each of its lowest dips."""
    values: list[float] = []
    for t in _GRID:
        values.append(at(t))
        # Curves grow with the order and the conversion takes off at most 1 there: nothing better can follow.
        if t > 1 and values[-1] > min(values) + 1:
            break
    dips = [i for i, v in enumerate(values) if v <= min(values[max(i - 1, 0)], values[min(i + 1, len(values) - 1)])]
    lowest = sorted(dips, key=values.__getitem__)[:2]
    found = [_golden(at, _GRID[max(i - 1, 0)], _GRID[min(i + 1, len(_GRID) - 1)]) for i in lowest]
    return min([*found, *(_GRID[i] for i in lowest)], key=at)


def _golden(at: Callable[[float], float], low: float, high: float) -> float:
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = at(left), at(right)
    for _ in range(_ROUNDS):
        if abs(at_left - at_right) <= 1e-15 * abs(at_left):
            break  # flat to the last bits: a smooth valley's floor
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = at(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = at(right)
    return left if at_left <= at_right else right
