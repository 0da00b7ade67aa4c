r"""Rényi differential privacy as (epsilon, delta): the conversion at one order, and the rules ``rdp`` and ``rdp-classic``.

Conversions to epsilon are rounded up, and those back down. Any order gives a valid epsilon, so the rules' search for the one
that converts best can only be untight, not wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from flint import arb

from cutline.privacy.curves.base import Composition
from cutline.rounding import ball_down, ball_up, enclose, fraction_down

_GOLDEN = (math.sqrt(5) - 1) / 2
_GRID = [math.log(1e-2) + i * math.log(10) / 6 for i in range(61)]  # ln(order - 1), orders from 1.01 to 1e8
_ROUNDS = 60  # a table's valley has a kink at the order it was built for: go down to the last bits


def epsilon_from_rdp(*, order: float, rdp: float, delta: float, slack: float) -> float:
    r"""Return the epsilon of a ``slack``-approximate (order, rdp) statement at a total ``delta``.

    **Privacy.** With ``d' = (delta - slack) / (1 - slack)``:
    ``max(0, rdp + ln((a-1)/a) - (ln d' + ln a)/(a-1))`` [CKS20, Proposition 12; docs/proofs/composition.md].

    Examples
    --------
    >>> f"{epsilon_from_rdp(order=8.0, rdp=0.2, delta=1e-6, slack=0.0):.4f}"
    '1.7430'
    """
    if not slack < delta:
        return math.inf
    return max(0.0, ball_up(enclose(lambda: arb(rdp) + _toll(order, delta, slack))))


def epsilon_from_rdp_classic(*, order: float, rdp: float, delta: float, slack: float) -> float:
    """Return the paper's conversion ``rdp + ln(1/d')/(a-1)`` [Mir17, Proposition 3]; kept for reproduction."""
    if not slack < delta:
        return math.inf
    return max(0.0, ball_up(enclose(lambda: arb(rdp) - _share(delta, slack).log() / (arb(order) - 1))))


def rdp_within(*, order: float, epsilon: float, delta: float, slack: float) -> float:
    """Return the largest rdp at ``order`` whose tight conversion stays within epsilon, rounded down; may be negative."""
    if not slack < delta:
        return -math.inf
    return ball_down(enclose(lambda: arb(epsilon) - _toll(order, delta, slack)))


def remaining_delta(*, delta: float, slack: float) -> float:
    """Return what is left of delta to convert with, ``(delta - slack) / (1 - slack)``, rounded down; 0 if nothing is."""
    if not slack < delta:
        return 0.0
    return fraction_down((Fraction(delta) - Fraction(slack)) / (1 - Fraction(slack)))


def _share(delta: float, slack: float) -> Any:
    return (arb(delta) - arb(slack)) / (1 - arb(slack))


def _toll(order: float, delta: float, slack: float) -> Any:
    a = arb(order)
    return ((a - 1) / a).log() - (_share(delta, slack) * a).log() / (a - 1)


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
