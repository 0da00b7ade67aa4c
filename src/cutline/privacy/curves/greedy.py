r"""The largest step a coin may take at one Rényi order and cost: the recursion behind every bit table.

From a coin of bias p, the best next bias p' > p is the largest with ``D(p' || p) <= eta`` and ``D(p || p') <= eta``. By the
symmetry p -> 1 - p' the first binds while p + p' <= 1 and the second afterwards, so each step solves one equation. These
are plain floats, for searches; `cutline.privacy.curves.bit_table` rounds them to the safe side and proves each inequality.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

_TOLERANCE = 1e-13
_MOST_STEPS = 200
_LARGE = 600.0  # beyond it, exponentials overflow and lesser terms vanish
_ALMOST_MINUS_ONE = -1 + 2.0**-53


def _excess(order: float, x: float) -> float:
    """Return ``e^{a x} - 1 - a (e^x - 1)``."""
    return math.expm1(order * x) - order * math.expm1(x)


def rise_from_below(p: float, order: float, rdp: float, guess: float | None = None) -> float:
    """Return x such that ``D(p e^x || p) = rdp``, or ln(1/p) if even certainty is within it."""
    target = (order - 1) * rdp
    high = min((target - math.log(p)) / order, -math.log(p))  # the first term alone already reaches the target there
    low, x = 0.0, high if guess is None else min(guess, high)
    for _ in range(_MOST_STEPS):
        after = p * math.exp(x)
        lost = (after - p) / (1 - p)
        other = math.log1p(-lost) if lost < 1 else -math.inf
        if order * x > _LARGE:  # the first term is all there is
            error, slope = math.log(p) + order * x - target, order
        else:
            excess = p * _excess(order, x) + (1 - p) * (_excess(order, other) if lost < 1 else order - 1)
            error = math.log1p(excess) - target
            slope = after * order * (math.exp((order - 1) * x) - math.exp((order - 1) * other)) / (1 + excess)
        low, high, x, done = _newton(x, low, high, error, slope)
        if done:
            return x
    return low


def fall_from_above(q: float, order: float, rdp: float, guess: float | None = None) -> float:
    """Return y such that ``D(q || q e^{-y}) = rdp``, for q the probability of "no"."""
    target = (order - 1) * rdp
    high = (target - math.log(q)) / (order - 1)
    low, y = 0.0, high if guess is None else min(guess, high)
    for _ in range(_MOST_STEPS):
        after = q * math.exp(-y)
        other = math.log1p(max((after - q) / (1 - after), _ALMOST_MINUS_ONE))
        if order * y > _LARGE:
            error, slope = math.log(q) + (order - 1) * y - target, order - 1
        else:
            excess = after * _excess(order, y) + (1 - after) * _excess(order, other)
            error = math.log1p(excess) - target
            slope = (order - 1) * after * (math.exp(order * y) - math.exp(order * other)) / (1 + excess)
        low, high, y, done = _newton(y, low, high, error, slope)
        if done:
            return y
    return low


def _newton(x: float, low: float, high: float, error: float, slope: float) -> tuple[float, float, float, bool]:
    """One safeguarded Newton step towards error 0; falls back to bisection."""
    low, high = (low, min(high, x)) if error > 0 else (max(low, x), high)
    after = x - error / slope if slope > 0 else math.nan
    if not low <= after <= high:
        after = (low + high) / 2
    return low, high, after, abs(after - x) <= _TOLERANCE * x or high - low <= _TOLERANCE * high


def biases(start: float, *, order: float, rdp: float, stop: float) -> Iterator[float]:
    """Yield the greedy sequence of biases from ``start`` until the chance of "no" is at most ``stop``."""
    p, no = start, 1 - start
    up = down = None
    yield p
    while no > stop:
        if p < 0.5:
            up = rise_from_below(p, order, rdp, up)
            after = p * math.exp(up)
            if p + after <= 1:
                p, no = after, 1 - after
                yield p
                continue
        down = fall_from_above(no, order, rdp, down)
        no *= math.exp(-down)
        p = 1 - no
        yield p
