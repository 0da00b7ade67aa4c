r"""The exact Rényi curve of bounded-range steps: the exponential mechanism as it really costs, and Limited Domain.

A mechanism is epsilon-bounded-range if the log-ratio of its laws on neighbours spans an interval of length epsilon,
wherever that interval lies [DR19, Definition 7]. The exponential mechanism with weights ``exp(epsilon * u / range)`` is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from flint import arb

from cutline.arrays import FloatArray
from cutline.errors import ParameterError
from cutline.privacy.curves.base import check_order, check_positive, check_whole, hold, register
from cutline.rounding import ball_up, enclose, fraction_up, largest, sum_up


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedRange:
    r"""One epsilon-bounded-range step.

    **Privacy.** With t the upper end of the log-ratio, the worst law has two atoms, and the supremum over t is at
    ``t* = ln((a-1)(1-e^{-a eps}) / (a (e^{-eps} - e^{-a eps})))`` with value
    ``t* + ln((1-e^{-a eps}) / (a (1-e^{-eps}))) / (a-1)`` [CR21, Lemma 4, solved exactly; docs/proofs/bounded-range.md].
    It is never above ``a eps^2 / 8``.

    Examples
    --------
    >>> f"{BoundedRange(epsilon=1.0).rdp(8.0):.4f}"
    '0.6355'
    >>> BoundedRange(epsilon=1.0).rdp(float("inf"))
    1.0
    """

    kind: ClassVar[str] = "bounded-range"
    epsilon: float

    def __post_init__(self) -> None:
        hold(self, epsilon=check_positive("epsilon", self.epsilon))

    @classmethod
    def within(cls, *, order: float, rdp: float) -> Self:
        """Return the largest step whose curve at ``order`` stays within ``rdp``."""
        rdp, order = check_positive("rdp", rdp), check_order(order)
        if order == math.inf:
            return cls(epsilon=rdp)
        # The curve is at most epsilon and at most a eps^2 / 8, and at least epsilon minus the constant below.
        safe = max(rdp, math.sqrt(8 * rdp / order)) * (1 - 1e-12)
        most = max(safe, rdp + math.log(order / (order - 1)) + math.log(order) / (order - 1)) * (1 + 1e-9)
        return cls(epsilon=largest(lambda e: _exact(e, order) <= rdp, low=safe, high=most, relative=1e-12))

    @property
    def rho(self) -> float:
        """``eps^2 / 8`` [CR21, Lemma 17]."""
        return fraction_up(Fraction(self.epsilon) ** 2 / 8)

    def profile(self, epsilons: FloatArray) -> FloatArray:
        r"""Return ``(1 - e^{(x-eps)/2})^2 / (1 - e^{-eps})`` inside [-eps, eps] [DDR20, Lemma 3.4 solved exactly]."""
        x = np.asarray(epsilons, dtype=np.float64)
        most = self.epsilon
        inside = np.expm1((np.clip(x, -most, most) - most) / 2) ** 2 / -math.expm1(-most)
        return np.where(x > most, 0.0, np.where(x < -most, -np.expm1(np.minimum(x, 0.0)), inside))

    def rdp(self, order: float) -> float:
        """Return the exact curve, rounded up."""
        order = check_order(order)
        return self.epsilon if order == math.inf else _exact(self.epsilon, order)


@lru_cache(maxsize=4096)
def _exact(epsilon: float, order: float) -> float:
    def curve() -> Any:
        e, a = arb(epsilon), arb(order)
        whole = -(-a * e).expm1()  # 1 - e^{-a eps}
        spread = (-e).exp() * -((1 - a) * e).expm1()  # e^{-eps} - e^{-a eps}
        top = ((a - 1) * whole / (a * spread)).log()
        return top + (whole / (a * -(-e).expm1())).log() / (a - 1)

    # For a huge order or step the balls above may not close; the step never costs more than its pure epsilon.
    return min(ball_up(enclose(curve)), epsilon)


def approximate_rdp(epsilon: float, order: float) -> float:
    """Return the curve in plain floats, for searches only; good to about 1e-9 relative."""
    if order * epsilon < 1e-4 or (order - 1) * epsilon < 1e-6:
        return order * epsilon * epsilon / 8
    whole = -math.expm1(-order * epsilon)
    spread = math.exp(-epsilon) * -math.expm1((1 - order) * epsilon)
    if spread <= 0:
        return epsilon
    top = math.log((order - 1) * whole / (order * spread))
    return top + math.log(whole / (order * -math.expm1(-epsilon))) / (order - 1)


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedDomainDraws:
    r"""``k`` draws of epsilon-bounded range from a domain that only one neighbour may have seen in full.

    A bottom element outweighs the items that only one neighbour has by 1/delta.

    **Privacy.** ``k R_BR(a, eps) + (k + a/(a-1)) ln(1 + delta)``, outside probability ``delta / (1 + delta)``, which the
    `Use` carries [docs/proofs/limited-domain.md].
    """

    kind: ClassVar[str] = "limited-domain"
    k: int
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        delta = check_positive("delta", self.delta)
        hold(self, epsilon=check_positive("epsilon", self.epsilon), k=check_whole("k", self.k), delta=delta)
        if not delta < 1:
            raise ParameterError("delta must be below 1", f"delta={delta}", "Try delta=1e-6.")

    @property
    def outside(self) -> float:
        """``delta / (1 + delta)``, rounded up: the delta of the use."""
        return ball_up(enclose(lambda: arb(self.delta) / (1 + arb(self.delta))))

    def rdp(self, order: float) -> float:
        order = check_order(order)
        step = ball_up(enclose(lambda: (1 + arb(self.delta)).log()))
        draws = BoundedRange(epsilon=self.epsilon).rdp(order)
        if order == math.inf:
            return sum_up([(self.k, draws), (self.k + 1, step)])
        extra = ball_up(enclose(lambda: arb(order) / (arb(order) - 1) * (1 + arb(self.delta)).log()))
        return sum_up([(self.k, draws), (self.k, step), (1, extra)])
