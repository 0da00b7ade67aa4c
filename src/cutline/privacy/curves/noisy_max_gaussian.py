"""The noisy maximum: only the index of the largest of several numbers with Gaussian noise is released."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from flint import arb

from cutline.errors import ParameterError
from cutline.privacy.curves.base import check_order, check_positive, register
from cutline.privacy.rounding import ball_up, enclose, fraction_up, sum_up


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMaxGaussian:
    r"""The index of the largest of several numbers with Gaussian noise; the paper's RNM-Gaussian.

    **Privacy.** One person moves each number by at most ``change``, in any directions. The smaller of the paper's bound
    ``2 a c^2 / sigma^2 + ln K / (a-1)`` and of releasing all K noisy numbers, ``a K c^2 / (2 sigma^2)``
    [ZW22, Corollary; docs/errata.md].
    """

    kind: ClassVar[str] = "rnm-gaussian"
    sigma: float
    choices: int
    change: int = 1

    def __post_init__(self) -> None:
        check_positive("sigma", self.sigma)
        if self.choices < 1 or self.change not in (1, 2):
            raise ParameterError(
                "choices must be at least 1 and change 1 or 2", f"choices={self.choices}, change={self.change}"
            )

    @property
    def rho(self) -> float:
        """Of the vector of all noisy numbers."""
        return fraction_up(Fraction(self.choices * self.change**2) / (2 * Fraction(self.sigma) ** 2))

    def rdp(self, order: float) -> float:
        check_order(order)
        if order == math.inf:
            return math.inf
        return min(self.corollary(order), fraction_up(Fraction(order) * Fraction(self.rho)))

    def corollary(self, order: float) -> float:
        """Return the paper's bound alone."""
        shift = fraction_up(2 * Fraction(order) * self.change**2 / Fraction(self.sigma) ** 2)
        return sum_up([(1, shift), (1, ball_up(enclose(lambda: arb(self.choices).log() / (arb(order) - 1))))])
