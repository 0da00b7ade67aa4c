r"""The rule ``pure``: pure differential privacy composes by addition."""

from __future__ import annotations

import math

from cutline.privacy.curves.base import Composition


def pure(cost: Composition, delta: float) -> float:
    """Return the sum of the pure epsilons, which holds outside the probability ``cost.delta``."""
    return cost.rdp(math.inf) if cost.delta <= delta else math.inf
