r"""The rule ``advanced``: the optimal composition of pure steps that all have one epsilon."""

from __future__ import annotations

import math

import numpy as np

from cutline.privacy.curves.base import Composition
from cutline.privacy.rules.rdp import remaining_delta
from cutline.rounding import smallest

_MOST_STEPS = 100_000  # terms of a binomial sum
_SMALLEST_DELTA = 1e-290  # far above what underflows
_LARGEST_LOSS = 1e6  # of all steps; far beyond what anybody would call private
_SUM_ERROR = 1e-12  # relative allowance for a sum of as many floats


def advanced(cost: Composition, delta: float) -> float:
    r"""Return epsilon by the optimal composition of pure steps, k-fold randomised response [KOV15, Theorem 3.3].

    ``delta(x) = sum_l C(k, l) max(0, e^{(k-l) eps} - e^{x + l eps}) / (1 + e^eps)^k``, at any x and not only at the lattice
    points; the deltas of the steps compose to at most ``cost.delta``.
    """
    left = remaining_delta(delta=delta, slack=cost.delta)
    steps = {use.curve.rdp(math.inf) for use in cost.uses}
    times = sum(use.times for use in cost.uses)
    epsilon = max(steps, default=math.inf)
    if left <= _SMALLEST_DELTA or len(steps) != 1 or times > _MOST_STEPS or not 0 < epsilon * times < _LARGEST_LOSS:
        return math.inf
    from scipy.special import gammaln

    failures = np.arange(times + 1)
    log_chance = gammaln(times + 1) - gammaln(failures + 1) - gammaln(times - failures + 1)
    log_chance += -failures * epsilon - times * math.log1p(math.exp(-epsilon))
    log_chance += 2.0**-50 * (float(gammaln(times + 1)) + times * (1 + epsilon))  # the rounding of its large terms
    loss = (times - 2 * failures) * epsilon * (1 + 2.0**-51)

    def profile(x: float) -> float:
        over = loss > x
        return float(np.sum(np.exp(log_chance[over]) * -np.expm1(x - loss[over])))

    found = smallest(lambda x: profile(x) <= left * (1 - _SUM_ERROR), guess=times * epsilon)
    return min(found * (1 + _SUM_ERROR), cost.rdp(math.inf))
