"""The curve of a step of which nothing but zero-concentrated differential privacy is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from cutline.privacy.curves.base import check_order, check_positive, register
from cutline.privacy.rounding import fraction_up


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ZCDP:
    r"""A step of which only rho-zCDP is known: ``rho * order`` at every order [BS16, Definition 1]."""

    kind: ClassVar[str] = "zcdp"
    rho: float

    def __post_init__(self) -> None:
        check_positive("rho", self.rho)

    def rdp(self, order: float) -> float:
        check_order(order)
        return math.inf if order == math.inf else fraction_up(Fraction(order) * Fraction(self.rho))
