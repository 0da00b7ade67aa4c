r"""The best way to release one bit about an integer that one person can move by 1.

A bit table is a nondecreasing sequence of probabilities of answering "yes". Neighbouring entries are as far apart as the
privacy bound allows and no farther, so no noise-and-threshold scheme of the same cost says "yes" more often above the
threshold. The table is the mechanism: its floats are exact probabilities, rounded to the safe side, and every
inequality they must satisfy is proved in ball arithmetic when the table is built.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from flint import arb

from cutline.arrays import BoolArray, FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.privacy.curves.base import check_order, check_positive, check_whole, register
from cutline.privacy.curves.coin_profile import Coins, coin_profile
from cutline.rounding import ball_down, working_precision

# A value of exactly 1 next to one below it would have infinite Rényi divergence: tables stop short of certainty.
ALMOST_ONE = 1 - 2.0**-50
_LONGEST = 1_000_000  # values; a cost so small that a table would be longer is refused
_TOLERANCE = 1e-13
_MOST_STEPS = 200
_LARGE = 600.0  # beyond it, exponentials overflow and lesser terms vanish
_ALMOST_MINUS_ONE = -1 + 2.0**-53
# Allowance for one elementary float operation: numpy's log1p and expm1 are good to a few units of 2^-53.
_SLACK = 2.0**-50
_FAR = 300.0  # above this exponent the sum of a divergence is handled in logarithms


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class BitTable:
    r"""A nondecreasing sequence of coin biases, constant outside the stored range.

    **Privacy.** Answering with the coin ``pi(n)`` costs, between n and n + 1, the larger of the two binary Rényi
    divergences; `rdp` is the exact maximum over n [docs/proofs/bit-table.md].

    Examples
    --------
    >>> table = BitTable.stability(order=8.0, rdp=0.25, delta=1e-6)
    >>> [f"{p:.4f}" for p in table(np.array([0, 5, 10, 15, 20]))]
    ['0.0000', '0.0018', '0.0846', '0.6262', '0.9699']
    >>> 0.2499999 < table.rdp(8.0) < 0.2500001
    True
    """

    kind: ClassVar[str] = "bit-table"
    values: tuple[float, ...]  # pi(start), pi(start + 1), ...: the first holds below start, the last above
    start: int = 0

    def __post_init__(self) -> None:
        array = np.asarray(self.values, dtype=np.float64)
        if array.size == 0 or not np.all((array >= 0) & (array <= 1)) or np.any(np.diff(array) < 0):
            rule = "a bit table must be a nondecreasing sequence of probabilities"
            raise ParameterError(rule, "", "Build it with a classmethod.")

    @classmethod
    def stability(cls, *, order: float, rdp: float, delta: float) -> Self:
        r"""Build the stability test: ``pi(0) = delta``, then greedy upwards at one order.

        Neighbours whose top sets differ both have distance 0, so delta is all that can go wrong there; neighbours with
        the same set are at most one step apart. No table that keeps both is larger anywhere [docs/proofs/bit-table.md].
        """
        order, rdp, delta = check_order(order), check_positive("rdp", rdp), check_positive("delta", delta)
        if delta >= ALMOST_ONE:
            raise ParameterError("delta must be below 1", f"delta={delta}", "Try delta=1e-6.")
        _check_length(math.pi / 2 * math.sqrt(2 * order / rdp), f"order={order:.3g}, rdp={rdp:.3g}")
        return cls(values=tuple(_proved_rise(delta, order, rdp)))

    @classmethod
    def voting(cls, *, order: float, rdp: float, teachers: int) -> Self:
        r"""Build the vote of a fixed number of teachers: symmetric about the middle, greedy outwards.

        With an even number the middle is 1/2; with an odd one the two middle coins p and 1 - p are as far apart as the
        cost allows. ``pi(T - n) = 1 - pi(n)`` holds exactly in floats.
        """
        order, rdp, teachers = check_order(order), check_positive("rdp", rdp), check_whole("teachers", teachers)
        first = 0.5 if teachers % 2 == 0 else _proved_middle(order, rdp)
        upper = [p for p, _ in zip(_proved_rise(first, order, rdp), range(teachers // 2 + 1), strict=False)]
        # Floats in [1/2, 1) are multiples of 2^-53, so 1 - p is exact and so is the symmetry.
        lower = [1 - p for p in reversed(upper if teachers % 2 else upper[1:])]
        return cls(values=tuple(lower + upper), start=teachers // 2 + teachers % 2 - len(lower))

    @classmethod
    def approximate(cls, *, epsilon: float, delta: float) -> Self:
        r"""Build the (epsilon, delta) form: ``pi(n+1) = min(e^eps pi + delta, 1 - e^-eps (1 - pi - delta), 1)``.

        Its pairs are (epsilon, delta)-DP, not Rényi: charge `Pure` with the same delta, once.
        """
        epsilon, delta = check_positive("epsilon", epsilon), check_positive("delta", delta)
        if delta >= 1:
            raise ParameterError("delta must be below 1", f"delta={delta}", "Try delta=1e-6.")
        _check_length(math.log1p(epsilon / delta) / epsilon, f"epsilon={epsilon:.3g}, delta={delta:.3g}")
        values = [delta]
        with working_precision(160):
            grow, shrink, slack = arb(epsilon).exp(), (-arb(epsilon)).exp(), arb(delta)
            while values[-1] < 1 and len(values) < _LONGEST:
                p = arb(values[-1])
                rest = 1 - p - slack
                after = min(ball_down(grow * p + slack), 1.0 if rest <= 0 else ball_down(1 - shrink * rest), 1.0)
                if after <= values[-1]:
                    break  # within one float of certainty
                values.append(after)
        return cls(values=tuple(values))

    def __call__(self, n: IntArray) -> FloatArray:
        """Return the probability of "yes" at each n."""
        index = np.clip(np.asarray(n) - self.start, 0, len(self.values) - 1)
        return np.asarray(self.values, dtype=np.float64)[index]

    def rdp(self, order: float) -> float:
        """Return the exact maximum over n and both directions at this order, rounded up."""
        return _dearest(self.values, check_order(order))

    def profile(self, epsilons: FloatArray) -> FloatArray:
        """Return the upper envelope of the profiles of all neighbouring coins, both ways."""
        low, high = _pairs(self.values)
        return coin_profile(Coins(low, 1 - low), Coins(high, 1 - high), epsilons)

    def __repr__(self) -> str:
        return f"BitTable({len(self.values)} values from n = {self.start})"


def _check_length(values: float, got: str) -> None:
    """Refuse a table that would not fit: the middle alone takes about this many values."""
    if values > _LONGEST / 4:
        way_out = "Raise epsilon or delta, or plan fewer releases."
        raise ParameterError(f"a table must fit in {_LONGEST} values", got, way_out)


@lru_cache(maxsize=256)
def _pairs(values: tuple[float, ...]) -> tuple[FloatArray, FloatArray]:
    array = np.asarray(values, dtype=np.float64)
    return array[:-1], array[1:]


@lru_cache(maxsize=256)
def _both_ways(values: tuple[float, ...]) -> CoinPairs:
    low, high = _pairs(values)
    return CoinPairs.of(np.concatenate([high, low]), np.concatenate([low, high]))


@lru_cache(maxsize=4096)
def _dearest(values: tuple[float, ...], order: float) -> float:
    return float(_both_ways(values).divergence(order).max(initial=0.0))


def _within(p: float, q: float, order: float, rdp: float) -> bool:
    """Prove both directions between two coins inside (0, 1)."""
    bound: Any = arb(rdp)
    return bool(coin_divergence_ball(p, q, order) <= bound) and bool(coin_divergence_ball(q, p, order) <= bound)


def _proved_rise(start: float, order: float, rdp: float) -> Iterator[float]:
    """Yield the greedy values from ``start``, each proved against the one before; ends at or just below `ALMOST_ONE`."""
    p, guesses = start, Guesses()
    yield p
    for _ in range(_LONGEST):
        if p >= ALMOST_ONE:
            return
        after, _no = rise(p, 1 - p, order, rdp, guesses)
        after = _safe(p, min(after, ALMOST_ONE), order, rdp)
        if after <= p:
            return  # the next float would already be too far: a constant tail is free
        p = after
        yield p


def _safe(p: float, after: float, order: float, rdp: float) -> float:
    """Lower ``after`` by as little as it takes to prove the step from ``p``; never below ``p``."""
    slack = 2.0**-48
    while after > p and not _within(p, after, order, rdp):
        lower = after - slack * min(after, 1 - after, after - p)
        after = max(p, min(lower, math.nextafter(after, 0)))
        slack *= 4
    return max(p, after)


def _proved_middle(order: float, rdp: float) -> float:
    """Return the largest p >= 1/2 with ``D(Bern(p) || Bern(1-p)) <= rdp``, proved."""
    low, high = 0.5, ALMOST_ONE
    if _within(1 - high, high, order, rdp):
        return high
    while math.nextafter(low, 1) < high:
        middle = (low + high) / 2
        low, high = (middle, high) if _within(1 - middle, middle, order, rdp) else (low, middle)
    return low


# From a coin of bias p, the best next bias p' > p is the largest with D(p' || p) <= eta and D(p || p') <= eta. By the symmetry
# p -> 1 - p' the first binds while p + p' <= 1 and the second afterwards, so each step solves one equation. What follows is in
# plain floats, for searches; `_proved_rise` rounds to the safe side and proves each inequality.


def biases(start: float, *, order: float, rdp: float, stop: float) -> Iterator[float]:
    """Yield the greedy sequence of biases from ``start`` until the chance of "no" is at most ``stop``."""
    p, no, guesses = start, 1 - start, Guesses()
    yield p
    while no > stop:
        p, no = rise(p, no, order, rdp, guesses)
        yield p


@dataclass(slots=True)
class Guesses:
    """The last solutions of the two equations: the next ones are near."""

    up: float | None = None
    down: float | None = None


def rise(p: float, no: float, order: float, rdp: float, guesses: Guesses) -> tuple[float, float]:
    """Return the best next bias and its chance of "no", which keeps its digits where the bias is close to 1."""
    if p < 0.5:
        guesses.up = _rise_from_below(p, order, rdp, guesses.up)
        after = p * math.exp(guesses.up)
        if p + after <= 1:
            return after, 1 - after
    guesses.down = _fall_from_above(no, order, rdp, guesses.down)
    no *= math.exp(-guesses.down)
    return 1 - no, no


def _excess(order: float, x: float) -> float:
    """Return ``e^{a x} - 1 - a (e^x - 1)``."""
    return math.expm1(order * x) - order * math.expm1(x)


def _rise_from_below(p: float, order: float, rdp: float, guess: float | None = None) -> float:
    """Return x such that ``D(p e^x || p) = rdp``, or ln(1/p) if even certainty is within it."""
    target = (order - 1) * rdp

    def error(x: float) -> tuple[float, float]:
        after = p * math.exp(x)
        lost = (after - p) / (1 - p)
        other = math.log1p(-lost) if lost < 1 else -math.inf
        if order * x > _LARGE:  # the first term is all there is
            return math.log(p) + order * x - target, order
        excess = p * _excess(order, x) + (1 - p) * (_excess(order, other) if lost < 1 else order - 1)
        slope = after * order * (math.exp((order - 1) * x) - math.exp((order - 1) * other)) / (1 + excess)
        return math.log1p(excess) - target, slope

    # The first term alone already reaches the target at this end.
    return _solve(error, guess, min((target - math.log(p)) / order, -math.log(p)))


def _fall_from_above(q: float, order: float, rdp: float, guess: float | None = None) -> float:
    """Return y such that ``D(q || q e^{-y}) = rdp``, for q the probability of "no"."""
    target = (order - 1) * rdp

    def error(y: float) -> tuple[float, float]:
        after = q * math.exp(-y)
        other = math.log1p(max((after - q) / (1 - after), _ALMOST_MINUS_ONE))
        if order * y > _LARGE:
            return math.log(q) + (order - 1) * y - target, order - 1
        excess = after * _excess(order, y) + (1 - after) * _excess(order, other)
        slope = (order - 1) * after * (math.exp(order * y) - math.exp(order * other)) / (1 + excess)
        return math.log1p(excess) - target, slope

    return _solve(error, guess, (target - math.log(q)) / (order - 1))


def _solve(error: Callable[[float], tuple[float, float]], guess: float | None, high: float) -> float:
    """Return where a rising error, given with its slope, is 0 in [0, high]: by Newton's steps or by bisection."""
    low, x = 0.0, high if guess is None else min(guess, high)
    for _ in range(_MOST_STEPS):
        value, slope = error(x)
        low, high = (low, min(high, x)) if value > 0 else (max(low, x), high)
        after = x - value / slope if slope > 0 else math.nan
        if not low <= after <= high:
            after = (low + high) / 2
        if abs(after - x) <= _TOLERANCE * x or high - low <= _TOLERANCE * high:
            return after
        x = after
    return low


# The Rényi divergence between two coins, rounded up: in floats over whole tables with a running error bound, and in
# balls for single pairs.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CoinPairs:
    r"""Pairs of coins p and q with everything that does not depend on the order worked out once.

    With ``f(x) = e^{a x} - 1 - a (e^x - 1) >= 0`` and the log-ratios ``x1 = ln(p/q)``, ``x2 = ln((1-p)/(1-q))``, the
    sum ``p^a q^{1-a} + (1-p)^a (1-q)^{1-a}`` is ``1 + q f(x1) + (1-q) f(x2)``: no cancellation between terms, so close
    coins keep their relative accuracy. The rounding of each ``f`` is added on top.

    Examples
    --------
    >>> f"{CoinPairs.of(np.array([0.6]), np.array([0.5])).divergence(2.0)[0]:.6f}"  # ln(1.04)
    '0.039221'
    """

    q: FloatArray
    up: FloatArray  # ln(p/q)
    down: FloatArray  # ln((1-p)/(1-q))
    plain_up: FloatArray  # e^up - 1
    plain_down: FloatArray
    equal: BoolArray
    impossible: BoolArray  # an outcome that q cannot have

    @classmethod
    def of(cls, p: FloatArray, q: FloatArray) -> CoinPairs:
        """Work out the log-ratios, accurately also where the coins are close."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            up, down = _log_ratio(p, q), _log_ratio(1 - p, 1 - q, difference=q - p)
            return cls(
                q=q,
                up=up,
                down=down,
                plain_up=np.expm1(up),
                plain_down=np.expm1(down),
                equal=p == q,
                impossible=((q == 0) & (p > 0)) | ((q == 1) & (p < 1)),
            )

    def divergence(self, order: float) -> FloatArray:
        """Bound ``D_order(Bern(p) || Bern(q))`` of each pair from above."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            farthest = np.maximum(self.up, self.down)
            if order == math.inf:
                return np.where(self.equal, 0.0, farthest) * (1 + 4 * _SLACK)
            far = order * farthest > _FAR
            total = self._small(order)
            if far.any():
                total = np.where(far, self._large(order), total)
            bound = total / (order - 1) * (1 + 8 * _SLACK)
            bound = np.where(self.impossible, np.inf, np.where(self.equal, 0.0, bound))
        return np.where(np.isnan(bound), np.inf, bound)

    def _small(self, order: float) -> FloatArray:
        return log_of_sum(order, ((self.q, self.up, self.plain_up), (1 - self.q, self.down, self.plain_down)))

    def _large(self, order: float) -> FloatArray:
        log_q, log_not_q = np.log(self.q), np.log1p(-self.q)
        high, low = log_q + order * self.up, log_not_q + order * self.down
        # log q and order * up may cancel: the allowance is for what was added, not for the sum.
        added = np.abs(log_q) + np.abs(log_not_q) + order * (np.abs(self.up) + np.abs(self.down))
        return np.logaddexp(high, low) + 8 * _SLACK * (1 + np.where(np.isfinite(added), added, np.abs(high)))


def log_of_sum(order: float, outcomes: Iterable[tuple[FloatArray, FloatArray, FloatArray]]) -> FloatArray:
    """Bound ``ln sum_o q_o e^{a x_o}`` from above; an outcome is its chance q_o, its log-ratio x_o, and ``e^{x_o} - 1``."""
    excess = error = np.zeros(1)
    for weight, x, expm1 in outcomes:
        tilted, plain = np.expm1(order * x), order * expm1
        excess = excess + np.where(weight > 0, weight * np.maximum(tilted - plain, 0.0), 0.0)
        # x itself is off by a few 2^-53 relative, which moves e^{a x} by about |a x| e^{a x} times that.
        off = (2 + np.maximum(order * x, 0)) * np.abs(tilted) + 2 * np.abs(plain)
        error = error + np.where(weight > 0, weight * off, 0.0)
    return np.log1p(excess + _SLACK * (error + 4 * excess))


def _log_ratio(p: FloatArray, q: FloatArray, *, difference: FloatArray | None = None) -> FloatArray:
    gap = p - q if difference is None else difference
    relative = gap / q
    return np.where(np.abs(relative) < 0.5, np.log1p(relative), np.log(p / q))


def coin_divergence_ball(p: float, q: float, order: float, *, bits: int = 128) -> Any:
    """Enclose ``D_order(Bern(p) || Bern(q))`` for floats strictly inside (0, 1) in a ball."""
    with working_precision(bits):
        a, x, y = arb(order), arb(p), arb(q)
        up, down = (x / y).log(), ((1 - x) / (1 - y)).log()
        return ((x * ((a - 1) * up).exp()) + ((1 - x) * ((a - 1) * down).exp())).log() / (a - 1)
