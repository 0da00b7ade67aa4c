r"""The rule ``zcdp``: zero-concentrated differential privacy, where every curve has a rho."""

from __future__ import annotations

import math

from flint import arb

from cutline.privacy.curves.base import Composition, Concentrated
from cutline.privacy.rules.rdp import remaining_delta
from cutline.rounding import ball_up, enclose, sum_up


def zcdp(cost: Composition, delta: float) -> float:
    """Return epsilon by approximate zCDP, ``rho + 2 sqrt(rho ln(1/d'))`` [BS16, Proposition 3 and Lemma 25]."""
    left = remaining_delta(delta=delta, slack=cost.delta)
    if left <= 0 or not all(isinstance(use.curve, Concentrated) for use in cost.uses):
        return math.inf
    rho = sum_up((use.times, use.curve.rho) for use in cost.uses if isinstance(use.curve, Concentrated))
    return ball_up(enclose(lambda: arb(rho) + 2 * (arb(rho) * -arb(left).log()).sqrt())) if rho < math.inf else rho
