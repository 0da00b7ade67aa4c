r"""The rule ``gdp``: Gaussian differential privacy, where only Gaussians are composed."""

from __future__ import annotations

import math

import numpy as np

from cutline.privacy.conversion import remaining_delta
from cutline.privacy.curves.base import Composition, Normal
from cutline.privacy.curves.gaussian import normal_profile
from cutline.privacy.rounding import smallest_epsilon, sum_up


def gdp(cost: Composition, delta: float) -> float:
    """Return epsilon by the exact profile of all Gaussians' joint separation [DRS22, Corollary 3.3]."""
    left = remaining_delta(delta=delta, slack=cost.delta)
    if left <= 0 or not cost.uses or not all(isinstance(use.curve, Normal) for use in cost.uses):
        return math.inf
    squares = sum_up(
        (use.times, use.curve.mu**2 * (1 + 2.0**-50)) for use in cost.uses if isinstance(use.curve, Normal)
    )
    if squares == math.inf:
        return math.inf
    mu = math.sqrt(squares) * (1 + 2.0**-50)
    return smallest_epsilon(lambda x: float(normal_profile(mu, np.array([x]))[0]), left, guess=mu * (mu / 2 + 40))
