"""The one generic monotone search: every calibration that has no closed form goes through it."""

from __future__ import annotations

from collections.abc import Callable


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
