r"""Numbers that may only err to one side.

Privacy figures are rounded up, budgets down. Sums of floats are exact fractions rounded once; transcendental figures
are enclosed in balls (python-flint ``arb``) and the outer end is taken. Bisections return a number at which the
condition was seen to hold: `scipy.optimize` may stop on either side of a root, and a calibration needs the safe one.

python-flint keeps one precision for the whole process. Two threads that each raise it and put it back leave the wrong one
behind, and compute with the other's in between. Balls stay enclosures at any precision, so no claim breaks by that; but one
number computed twice may then differ in its last bit, and a filter that was made from a budget is no longer found within it.
So whoever sets the precision does it by `working_precision`, one thread at a time.
"""

from __future__ import annotations

import decimal
import math
import os
import sys
import threading
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from flint import arb, ctx

_START_BITS, _MOST_BITS = 96, 1 << 14
_GOOD_BITS = 50  # relative accuracy asked of an enclosure before its end is taken


_guard = threading.RLock()


class working_precision:  # noqa: N801 - used like flint's own `ctx.workprec`
    """Compute with so many bits until the end of the block; other threads wait for their own."""

    __slots__ = ("_before", "_bits")

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def __enter__(self) -> None:
        _guard.acquire()
        self._before = ctx.prec
        ctx.prec = self._bits

    def __exit__(self, *_: object) -> None:
        ctx.prec = self._before
        _guard.release()


def _start_anew() -> None:
    """Let a forked child compute, whatever thread of its parent was computing."""
    global _guard
    _guard = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


def fraction_up(value: Fraction) -> float:
    """Return the smallest float that is at least ``value``; infinity above the largest."""
    try:
        rounded = float(value)
    except OverflowError:
        return math.inf if value > 0 else -sys.float_info.max
    return rounded if Fraction(rounded) >= value else math.nextafter(rounded, math.inf)


def fraction_down(value: Fraction) -> float:
    """Return the largest float that is at most ``value``."""
    return -fraction_up(-value)


def sum_up(terms: Iterable[tuple[int, float]]) -> float:
    """Return an upper bound on the sum of ``times * value``; infinite or NaN terms make it infinite.

    Examples
    --------
    >>> sum_up([(10, 0.1)]) > 1.0  # ten floats 0.1 are a little more than 1
    True
    """
    # The sum so far. Bottoms of floats are powers of two, so the larger is a multiple of the smaller.
    top, bottom = 0, 1
    for times, value in terms:
        if times and not math.isfinite(value):
            return math.inf
        if times:
            over, under = value.as_integer_ratio()
            if under > bottom:
                top, bottom = top * (under // bottom), under
            top += int(times) * over * (bottom // under)
    try:
        rounded = top / bottom
    except OverflowError:
        return math.inf if top > 0 else -sys.float_info.max
    over, under = rounded.as_integer_ratio()
    return rounded if over * bottom >= top * under else math.nextafter(rounded, math.inf)


def enclose(compute: Callable[[], Any]) -> Any:
    """Run ``compute`` at growing precision until its ball is good to about 50 bits, and return the ball."""
    bits = _START_BITS
    while True:
        with working_precision(bits):
            ball = compute()
        good = ball.is_finite() and (ball.rel_accuracy_bits() >= _GOOD_BITS or ball.is_zero())
        if good or bits >= _MOST_BITS:
            return ball
        bits *= 2


def ball_up(ball: Any) -> float:
    """Return a float at or above every point of the ball; infinity if the ball is not finite."""
    if not ball.is_finite():
        return math.inf
    with working_precision(
        _START_BITS
    ):  # the end is rounded to the precision in force, which another thread may have set
        end = ball.upper()
    rounded = float(end)
    return math.nextafter(rounded, math.inf) if arb(rounded) < end else rounded


def ball_down(ball: Any) -> float:
    """Return a float at or below every point of the ball; minus infinity if the ball is not finite."""
    return -ball_up(-ball)


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
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def smallest(holds: Callable[[float], bool], *, guess: float, most: float = math.inf, relative: float = 1e-13) -> float:
    """Return a number from 0 at which ``holds`` was seen to be true, within ``relative`` of the smallest such.

    ``holds`` once true stays true. The search doubles ``guess`` until it holds, and is given up, with infinity, where
    it still does not beyond ``most``.
    """
    if holds(0.0):
        return 0.0
    low, high = 0.0, guess
    while not holds(high):
        low, high = high, 2 * high
        if low > most:
            return math.inf
    while high - low > relative * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def digits_up(value: float, digits: int) -> str:
    """Print a number with that many digits, rounded up: a guarantee is never printed stronger than it is."""
    if not math.isfinite(value):
        return "inf"
    up = decimal.Context(prec=digits, rounding=decimal.ROUND_CEILING)
    return f"{float(up.create_decimal(repr(value))):.{digits}g}"
