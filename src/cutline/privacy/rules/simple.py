r"""Rules with a closed form: zCDP, Gaussian DP, and the optimal composition of pure steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from flint import arb

from cutline.privacy.curves.base import Concentrated, Normal
from cutline.privacy.curves.gaussian import normal_profile
from cutline.privacy.rounding import ball_up, enclose, fraction_up, sum_up

if TYPE_CHECKING:
    from cutline.privacy.cost import Cost

_SLACK = 1e-12  # relative allowance for floats in sums of many terms
_MOST_STEPS = 100_000  # terms of a binomial sum


def share(cost: Cost, delta: float) -> float:
    """Return what is left of delta for the conversion, ``(delta - delta_0) / (1 - delta_0)``, rounded down; 0 if nothing."""
    slack = Fraction(cost.delta)
    if not slack < Fraction(delta):
        return 0.0
    return -fraction_up(-(Fraction(delta) - slack) / (1 - slack))


def zcdp(cost: Cost, delta: float) -> float:
    """Approximate zCDP: ``rho + 2 sqrt(rho ln(1/d'))`` [BS16, Proposition 3 and Lemma 25]."""
    left = share(cost, delta)
    if left <= 0 or not all(isinstance(use.curve, Concentrated) for use in cost.uses):
        return math.inf
    rho = sum_up((use.times, use.curve.rho) for use in cost.uses if isinstance(use.curve, Concentrated))
    return ball_up(enclose(lambda: arb(rho) + 2 * (arb(rho) * -arb(left).log()).sqrt())) if rho < math.inf else rho


def gdp(cost: Cost, delta: float) -> float:
    """Gaussian DP, where only Gaussians are composed: the exact profile of their joint separation [DRS22, Corollary 3.3]."""
    left = share(cost, delta)
    if left <= 0 or not cost.uses or not all(isinstance(use.curve, Normal) for use in cost.uses):
        return math.inf
    squares = sum_up(
        (use.times, use.curve.mu**2 * (1 + 2.0**-50)) for use in cost.uses if isinstance(use.curve, Normal)
    )
    if squares == math.inf:
        return math.inf
    mu = math.sqrt(squares) * (1 + 2.0**-50)
    return _smallest(lambda x: float(normal_profile(mu, np.array([x]))[0]), left, high=mu * (mu / 2 + 40))


def advanced(cost: Cost, delta: float) -> float:
    r"""Optimal composition of pure steps of one epsilon [KOV15, Theorem 3.3]: k-fold randomised response.

    ``delta(x) = sum_l C(k, l) max(0, e^{(k-l) eps} - e^{x + l eps}) / (1 + e^eps)^k``, at any x and not only at the lattice
    points; the deltas of the steps compose to at most ``cost.delta``.
    """
    left = share(cost, delta)
    steps = {use.curve.rdp(math.inf) for use in cost.uses}
    times = sum(use.times for use in cost.uses)
    if left <= 0 or len(steps) != 1 or times > _MOST_STEPS:
        return math.inf
    (epsilon,) = steps
    if not 0 < epsilon < math.inf:
        return math.inf
    from scipy.special import gammaln

    failures = np.arange(times + 1)
    log_chance = gammaln(times + 1) - gammaln(failures + 1) - gammaln(times - failures + 1)
    log_chance += -failures * epsilon - times * math.log1p(math.exp(-epsilon))
    loss = (times - 2 * failures) * epsilon

    def profile(x: float) -> float:
        over = loss > x
        return float(np.sum(np.exp(log_chance[over]) * -np.expm1(x - loss[over])))

    return min(_smallest(profile, left, high=times * epsilon), cost.rdp(math.inf))


def _smallest(profile: Callable[[float], float], left: float, *, high: float) -> float:
    """Return an epsilon just above the smallest at which a falling profile is within ``left``."""
    target = left * (1 - _SLACK)
    if profile(0.0) <= target:
        return 0.0
    low = 0.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if profile(middle) <= target else (middle, high)
    return high * (1 + _SLACK)
