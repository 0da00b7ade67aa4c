"""The curves of steps of which one number is known: pure differential privacy, and a bound at one Rényi order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from flint import arb

from cutline.arrays import FloatArray
from cutline.privacy.curves.base import check_order, check_positive, hold, register
from cutline.rounding import ball_up, enclose, fraction_up


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class Pure:
    r"""One epsilon-DP step.

    **Privacy.** Randomised response is the worst case: ``ln((sinh(a eps) - sinh((a-1) eps)) / sinh eps) / (a-1)``
    [BS16, Lemma 9]; also at most ``a eps^2 / 2``.

    Examples
    --------
    >>> f"{Pure(epsilon=1.0).rdp(2.0):.4f}", Pure(epsilon=1.0).rdp(float("inf"))
    ('0.7353', 1.0)
    """

    kind: ClassVar[str] = "pure"
    epsilon: float

    def __post_init__(self) -> None:
        hold(self, epsilon=check_positive("epsilon", self.epsilon))

    @property
    def rho(self) -> float:
        """``eps^2 / 2`` [BS16, Proposition 4]."""
        return fraction_up(Fraction(self.epsilon) ** 2 / 2)

    def profile(self, epsilons: FloatArray) -> FloatArray:
        """Return the profile of randomised response."""
        x = np.asarray(epsilons, dtype=np.float64)
        most, yes = self.epsilon, 1 / (1 + math.exp(-self.epsilon))
        # yes - e^x no = yes (1 - e^{x-eps}): taken as a difference, it would lose its digits where ``no`` is tiny.
        likely = yes * -np.expm1(np.minimum(x - most, 0.0))
        unlikely = yes * np.maximum(math.exp(-most) - np.exp(np.minimum(x, 0.0)), 0.0)
        return np.where(x >= most, 0.0, likely + unlikely)

    def rdp(self, order: float) -> float:
        """Return the exact curve of randomised response, rounded up."""
        order = check_order(order)
        return self.epsilon if order == math.inf else _exact(self.epsilon, order)


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class OneOrder:
    r"""A step whose cost is known at one Rényi order: the dearest of several paths that were priced there.

    **Privacy.** Divergences grow with the order, so the bound holds at every lower order too; above it nothing is known.

    Examples
    --------
    >>> step = OneOrder(order=8.0, bound=0.5)
    >>> step.rdp(8.0), step.rdp(2.0), step.rdp(9.0)
    (0.5, 0.5, inf)
    """

    kind: ClassVar[str] = "one-order"
    order: float
    bound: float

    def __post_init__(self) -> None:
        hold(self, order=check_order(self.order), bound=check_positive("bound", self.bound))

    def rdp(self, order: float) -> float:
        """Return the bound, up to its own order."""
        return self.bound if check_order(order) <= self.order else math.inf


@lru_cache(maxsize=4096)
def _exact(epsilon: float, order: float) -> float:
    def curve() -> Any:
        e, a = arb(epsilon), arb(order)
        return (((a * e).sinh() - ((a - 1) * e).sinh()) / e.sinh()).log() / (a - 1)

    return min(ball_up(enclose(curve)), epsilon)
