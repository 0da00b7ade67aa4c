r"""Sixty digits: what a cost truly allows an adversary, computed with mpmath and with nothing of ours.

Every curve names *attacks*: pairs of laws that a mechanism of that curve may really have on neighbours. An attack is two
coins, or two normal laws. Composed by hand they give a lower bound of the true delta at an epsilon, so a rule whose
epsilon is beaten by an attack is optimistic; `divergence` is the Rényi curve itself where it has a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import singledispatch

import mpmath
from mpmath import mpf

from cutline.privacy import (
    ZCDP,
    BitTable,
    BoundedRange,
    Cost,
    Curve,
    Gaussian,
    GaussianBit,
    LimitedDomainDraws,
    NoisyMaxGaussian,
    Pure,
)
from cutline.privacy.curves.class_table import ClassTable
from cutline.privacy.curves.pure import OneOrder
from cutline.privacy.curves.weighted_table import WeightedTable


def digits() -> AbstractContextManager[None]:
    """Work with ninety digits: sixty are left where the two terms of a profile agree in thirty."""
    precision: AbstractContextManager[None] = mpmath.workdps(90)
    return precision


@dataclass(frozen=True)
class Coins:
    """Two coins of bias p and q, with the chances of "no" kept apart: near 1 a bias has no digits left."""

    p: mpf
    q: mpf
    not_p: mpf
    not_q: mpf

    @classmethod
    def of(cls, p: float | mpf, q: float | mpf) -> Coins:
        return cls(mpf(p), mpf(q), 1 - mpf(p), 1 - mpf(q))

    @classmethod
    def normal(cls, at: mpf, shift: mpf) -> Coins:
        """Return the coins of a threshold on normal noise."""
        return cls(mpmath.ncdf(at + shift), mpmath.ncdf(at), mpmath.ncdf(-at - shift), mpmath.ncdf(-at))

    def swapped(self) -> Coins:
        return Coins(self.q, self.p, self.not_q, self.not_p)


@dataclass(frozen=True)
class Normals:
    """Two unit normal laws, by the square of the distance between their means."""

    squared: mpf


Attack = Coins | Normals


@singledispatch
def attacks(curve: Curve) -> Iterator[Attack]:
    """Yield pairs of laws that a mechanism with this curve can have."""
    raise NotImplementedError(f"no attack is known against {curve.kind}")


@attacks.register
def _(curve: Pure) -> Iterator[Attack]:
    no = 1 / (1 + mpmath.exp(mpf(curve.epsilon)))
    yield Coins(1 - no, no, no, 1 - no)


@attacks.register
def _(curve: BoundedRange) -> Iterator[Attack]:
    e = mpf(curve.epsilon)
    for share in (0.5, 0.25, 0.75, 0.95):
        t = share * e
        p = -mpmath.expm1(t - e) / -mpmath.expm1(-e)
        q = p * mpmath.exp(-t)
        yield Coins(p, q, 1 - p, 1 - q)


@attacks.register
def _(curve: LimitedDomainDraws) -> Iterator[Attack]:
    yield from attacks(BoundedRange(epsilon=curve.epsilon))  # one of its k draws


@attacks.register
def _(curve: Gaussian) -> Iterator[Attack]:
    if not curve.discrete:
        yield Normals(mpf(curve.squared_sensitivity) / mpf(curve.sigma) ** 2)
    elif curve.sigma < 200:
        yield from _discrete_thresholds(mpf(curve.sigma), math.isqrt(int(curve.squared_sensitivity)))


def _discrete_thresholds(sigma: mpf, shift: int) -> Iterator[Attack]:
    """Yield the coins "the discrete Gaussian is at least n"."""
    reach = 25 * int(sigma + 1)
    weights = [mpmath.exp(-(mpf(z) ** 2) / (2 * sigma**2)) for z in range(-reach, reach + 1)]
    total, above, tails = sum(weights), mpf(0), {}
    for z in range(reach, -reach - 1, -1):
        above += weights[z + reach]
        tails[z] = above / total
    for at in {0, shift, int(sigma), 4 * int(sigma) + 1}:
        yield Coins(tails[at - shift], tails[at], 1 - tails[at - shift], 1 - tails[at])


@attacks.register
def _(curve: ZCDP) -> Iterator[Attack]:
    yield Normals(2 * mpf(curve.rho))


@attacks.register
def _(curve: OneOrder) -> Iterator[Attack]:
    yield Normals(2 * mpf(curve.bound) / mpf(curve.order))  # as dear at that order, and cheaper below it


@attacks.register
def _(curve: NoisyMaxGaussian) -> Iterator[Attack]:
    if curve.choices > 1:  # two candidates that move towards each other, the rest far below
        scale = mpmath.sqrt(2) * mpf(curve.sigma)
        for at in (-curve.change, 0, 3 * mpf(curve.sigma)):
            yield Coins.normal(at / scale, 2 * curve.change / scale)


@attacks.register
def _(curve: GaussianBit) -> Iterator[Attack]:
    sigma, offset = mpf(curve.sigma), mpf(curve.offset)
    middle = max(0, int(mpmath.nint(offset * sigma)))
    for n in sorted({0, 1, middle, middle // 2, 2 * middle, middle + int(4 * sigma)}):
        for apart in range(1, curve.reach + 1):
            yield Coins.normal(n / sigma - offset, apart / sigma)


@attacks.register
def _(curve: BitTable) -> Iterator[Attack]:
    return _steps(curve.values, apart=1)


@attacks.register
def _(curve: WeightedTable) -> Iterator[Attack]:
    return _steps(curve.values, apart=curve.parts)  # a whole vote for one item


@attacks.register
def _(curve: ClassTable) -> Iterator[Attack]:
    """Whether the class comes out that loses a vote, to another class or to nobody, while all others have none."""
    size, least = len(curve.weights) - 1, curve.weights[0]
    for x in sorted({0, size // 4, size // 2, size - 1}):
        for y in sorted({0, size // 4, size // 2, size - 1 - x}):
            if 0 <= y < size - x and curve.classes > 1:
                high, low, other = (mpf(curve.weights[at]) for at in (x + 1, x, y))
                after = mpf(curve.weights[y + 1]) if curve.moved == 2 else other
                rest = (curve.classes - 2) * mpf(least)
                before_sum, after_sum = high + other + rest, low + after + rest
                yield Coins(high / before_sum, low / after_sum, (other + rest) / before_sum, (after + rest) / after_sum)


def _steps(values: Sequence[float], *, apart: int) -> Iterator[Attack]:
    """Yield some neighbouring coins of a table, from its start to its end."""
    size = len(values)
    for i in sorted({0, 1, size // 4, size // 2, 3 * size // 4, size - 2 - apart, size - 1 - apart}):
        if 0 <= i < size - apart and 0 < values[i] < values[i + apart] < 1:
            yield Coins.of(values[i + apart], values[i])


def divergence(curve: Curve, order: float) -> mpf:
    """Return the curve in sixty digits, or the most that an attack reaches where it has no closed form."""
    with digits():
        a = mpf(order)
        if isinstance(curve, BoundedRange):
            return _bounded_range_divergence(mpf(curve.epsilon), a)
        if isinstance(curve, LimitedDomainDraws):
            extra = (curve.k + a / (a - 1)) * mpmath.log1p(mpf(curve.delta))
            return curve.k * _bounded_range_divergence(mpf(curve.epsilon), a) + extra
        return max((max(_renyi(one, a), _renyi_back(one, a)) for one in attacks(curve)), default=mpf(0))


def _bounded_range_divergence(e: mpf, a: mpf) -> mpf:
    with mpmath.workdps(140):
        whole = -mpmath.expm1(-a * e)
        spread = mpmath.exp(-e) * -mpmath.expm1((1 - a) * e)
        top = mpmath.log((a - 1) * whole / (a * spread))
        return top + mpmath.log(whole / (a * -mpmath.expm1(-e))) / (a - 1)


def _renyi(one: Attack, a: mpf) -> mpf:
    if isinstance(one, Normals):
        return a * one.squared / 2
    with mpmath.workdps(140):
        up, down = mpmath.log(one.p / one.q), mpmath.log(one.not_p / one.not_q)
        return mpmath.log(one.p * mpmath.exp((a - 1) * up) + one.not_p * mpmath.exp((a - 1) * down)) / (a - 1)


def _renyi_back(one: Attack, a: mpf) -> mpf:
    return _renyi(one.swapped() if isinstance(one, Coins) else one, a)


def one_profile(curve: Curve, x: float) -> mpf:
    """Return the largest hockey-stick divergence at ``e^x`` that an attack on one use reaches; x may be negative."""
    with digits():
        found = [max(mpf(0), 1 - mpmath.exp(mpf(x))), *(profile_of(one, mpf(x)) for one in attacks(curve))]
        if isinstance(curve, BoundedRange) and abs(x) <= curve.epsilon:  # the worst t in closed form
            found.append(mpmath.expm1((mpf(x) - curve.epsilon) / 2) ** 2 / -mpmath.expm1(-mpf(curve.epsilon)))
        return max(found)


def profile_of(one: Attack, x: mpf) -> mpf:
    """Return the hockey-stick divergence of one attack at ``e^x``, the larger of both ways."""
    if isinstance(one, Normals):
        mu = mpmath.sqrt(one.squared)
        return mpmath.ncdf(mu / 2 - x / mu) - mpmath.exp(x) * mpmath.ncdf(-mu / 2 - x / mu)
    scale = mpmath.exp(x)
    return max(max(0, c.p - scale * c.q) + max(0, c.not_p - scale * c.not_q) for c in (one, one.swapped()))


def delta_at(cost: Cost, x: float) -> mpf:
    """Return a delta that an adversary reaches at epsilon x: caught by a use's own delta, or by the composed attacks.

    All normal laws count together, and the coins of one use with them; what is left out only helps the rule.
    """
    with digits():
        missed = mpf(1)
        for use in cost.uses:
            missed *= (1 - mpf(use.delta)) ** use.times
        squared, coins = mpf(0), []
        for use in cost.uses:
            for one in attacks(use.curve):
                if isinstance(one, Normals):
                    squared += use.times * one.squared
                else:
                    coins.append((one, use.times))
        found = [_coins_and_normals(one, times, squared, mpf(x)) for one, times in coins]
        if squared or not coins:
            found.append(profile_of(Normals(squared), mpf(x)) if squared else mpf(0))
        if len(cost.uses) == 1 and cost.uses[0].times == 1:
            found.append(one_profile(cost.uses[0].curve, x))
        return 1 - missed + missed * max(found)


def _coins_and_normals(one: Coins, times: int, squared: mpf, x: mpf) -> mpf:
    return max(_hockey_stick(one, times, squared, x), _hockey_stick(one.swapped(), times, squared, x))


def _hockey_stick(one: Coins, times: int, squared: mpf, x: mpf) -> mpf:
    """Sum over the number of "no" among ``times`` coins, from the smallest loss above x up, as long as terms matter."""
    if not (0 < one.q < 1 and 0 < one.p < 1):
        return mpf(0)
    p, not_p = one.p, one.not_p
    high, low = mpmath.log(p / one.q), mpmath.log(not_p / one.not_q)
    if high < low:
        p, not_p, high, low = not_p, p, low, high
    reach = 8 * mpmath.sqrt(squared) + squared  # below x - reach the normal laws add next to nothing
    last = (times * high - x + reach) / (high - low)
    failures = min(times, int(mpmath.ceil(last)) - 1)
    if failures < 0:
        return mpf(0)
    chance = mpmath.binomial(times, failures) * p ** (times - failures) * not_p**failures
    total, mode = mpf(0), times * not_p
    while failures >= 0:
        loss = times * high - failures * (high - low)
        stick = profile_of(Normals(squared), x - loss) if squared else max(0, -mpmath.expm1(x - loss))
        total += chance * stick
        if failures < mode and chance < total * mpf(10) ** -40:
            break
        chance *= mpf(failures) / (times - failures + 1) * p / not_p
        failures -= 1
    return total
