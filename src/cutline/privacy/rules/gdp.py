r"""The rule ``gdp``: Gaussian differential privacy, where only Gaussians are composed."""

from __future__ import annotations

import math

from cutline.privacy.curves.base import Composition, Normal
from cutline.privacy.curves.gaussian import normal_profile_up
from cutline.privacy.rules.rdp import remaining_delta
from cutline.rounding import smallest, sum_up


def gdp(cost: Composition, delta: float) -> float:
    """Return epsilon by the exact profile of all Gaussians' joint separation [DRS22, Corollary 3.3]."""
    left = remaining_delta(delta=delta, slack=cost.delta)
    separations = [(use.times, use.curve.mu) for use in cost.uses if isinstance(use.curve, Normal)]
    if left <= 0 or not separations or len(separations) < len(cost.uses):
        return math.inf
    squares = sum_up((times, mu * mu * (1 + 2.0**-50) + 5e-324) for times, mu in separations)
    mu = math.sqrt(squares) * (1 + 2.0**-50)
    return smallest(lambda x: normal_profile_up(mu, x) <= left, guess=mu * (mu / 2 + 40)) if mu < math.inf else mu
