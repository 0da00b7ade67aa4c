r"""The exact Rényi curve of a bounded-range step: the exponential mechanism as it really costs.

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
import numpy.typing as npt
from flint import arb

from cutline.privacy.curves.base import check_order, check_positive, register
from cutline.privacy.rounding import ball_up, enclose, fraction_up
from cutline.privacy.search import largest


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
        check_positive("epsilon", self.epsilon)

    @classmethod
    def within(cls, *, order: float, rdp: float) -> Self:
        """Return the largest step whose curve at ``order`` stays within ``rdp``."""
        check_positive("rdp", rdp)
        check_order(order)
        if order == math.inf:
            return cls(epsilon=rdp)
        # The curve is at most epsilon and at most a eps^2 / 8, and at least epsilon minus the constant below.
        safe = max(rdp, math.sqrt(8 * rdp / order)) * (1 - 1e-12)
        most = rdp + math.log(order / (order - 1)) + math.log(order) / (order - 1)
        return cls(
            epsilon=largest(
                lambda e: _exact(e, order) <= rdp, low=safe, high=max(most, safe) * (1 + 1e-9), relative=1e-12
            )
        )

    @property
    def rho(self) -> float:
        """``eps^2 / 8`` [CR21, Lemma 17]."""
        return fraction_up(Fraction(self.epsilon) ** 2 / 8)

    def profile(self, epsilons: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        r"""Return ``(1 - e^{(x-eps)/2})^2 / (1 - e^{-eps})`` inside [-eps, eps] [DDR20, Lemma 3.4 solved exactly]."""
        x = np.asarray(epsilons, dtype=np.float64)
        inside = np.expm1((np.clip(x, -self.epsilon, self.epsilon) - self.epsilon) / 2) ** 2 / -math.expm1(
            -self.epsilon
        )
        return np.where(x > self.epsilon, 0.0, np.where(x < -self.epsilon, -np.expm1(np.minimum(x, 0.0)), inside))

    def rdp(self, order: float) -> float:
        """Return the exact curve, rounded up."""
        check_order(order)
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
