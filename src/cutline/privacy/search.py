r"""Bisections that return a number at which the condition was seen to hold.

`scipy.optimize` finds roots of continuous functions and may stop on either side of one; a calibration needs the side that is
proved to be within the budget, of a condition that is only true or false.
"""

from __future__ import annotations

from collections.abc import Callable

_SLACK = 1e-12  # relative allowance for floats in sums of many terms


def largest(holds: Callable[[float], bool], *, low: float, high: float, relative: float = 1e-9) -> float:
    """Return a number at which ``holds`` was seen to be true, within ``relative`` of the largest such.

    ``holds`` is true at ``low`` (taken on trust), and once false stays false. Both ends are positive; the bisection is
    geometric, so it is as quick at 1e-12 as at 1e+12. If ``holds(high)``, then ``high`` is the answer.

    Examples
    --------
    >>> round(largest(lambda x: x * x <= 2, low=1e-9, high=1e9), 6)
    1.414214
    """
    if holds(high):
        return high
    while high > low * (1 + relative):
        middle = (low * high) ** 0.5
        if not low < middle < high:
            break
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def smallest_epsilon(profile: Callable[[float], float], delta: float, *, high: float) -> float:
    """Return an epsilon just above the smallest at which a falling profile is at most ``delta``; ``high`` is one such."""
    target = delta * (1 - _SLACK)
    if profile(0.0) <= target:
        return 0.0
    low = 0.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if profile(middle) <= target else (middle, high)
    return high * (1 + _SLACK)
