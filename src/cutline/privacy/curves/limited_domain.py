"""The price of Limited Domain: k bounded-range draws from a domain that only one neighbour may have seen in full."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from flint import arb

from cutline.errors import ParameterError
from cutline.privacy.curves.base import check_order, check_positive, register
from cutline.privacy.curves.bounded_range import BoundedRange
from cutline.privacy.rounding import ball_up, enclose, sum_up


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedDomainDraws:
    r"""``k`` draws of epsilon-bounded range with a bottom element that outweighs one-sided items by 1/delta.

    **Privacy.** ``k R_BR(a, eps) + (k + a/(a-1)) ln(1 + delta)``, outside probability ``delta / (1 + delta)``, which the
    `Use` carries [docs/proofs/limited-domain.md].
    """

    kind: ClassVar[str] = "limited-domain"
    k: int
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        if self.k < 1 or not 0 < self.delta < 1:
            raise ParameterError("k must be at least 1 and delta in (0, 1)", f"k={self.k}, delta={self.delta}", "")

    @property
    def outside(self) -> float:
        """``delta / (1 + delta)``, rounded up: the delta of the use."""
        return ball_up(enclose(lambda: arb(self.delta) / (1 + arb(self.delta))))

    def rdp(self, order: float) -> float:
        check_order(order)
        step = ball_up(enclose(lambda: (1 + arb(self.delta)).log()))
        draws = BoundedRange(epsilon=self.epsilon).rdp(order)
        if order == math.inf:
            return sum_up([(self.k, draws), (self.k + 1, step)])
        extra = ball_up(enclose(lambda: arb(order) / (arb(order) - 1) * (1 + arb(self.delta)).log()))
        return sum_up([(self.k, draws), (self.k, step), (1, extra)])
