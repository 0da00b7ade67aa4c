"""The Gaussian mechanism: noisy counts and PATE's noisy votes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from cutline.privacy.curves.base import check_order, check_positive, register
from cutline.privacy.rounding import fraction_up


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian:
    r"""One Gaussian release of L2 sensitivity ``sqrt(squared_sensitivity)``, continuous or discrete.

    **Privacy.** ``a s / (2 sigma^2)`` at order a, for s the squared sensitivity [Mir17, Proposition 7]; the discrete
    Gaussian keeps the same bound [CKS20, Theorem 4], but not Gaussian DP: say so with ``discrete``.

    Examples
    --------
    >>> f"{Gaussian(sigma=60.0).rdp(8.0):.6f}"  # 8 / (2 * 60^2)
    '0.001111'
    """

    kind: ClassVar[str] = "gaussian"
    sigma: float
    squared_sensitivity: float = 1.0
    discrete: bool = False

    def __post_init__(self) -> None:
        check_positive("sigma", self.sigma)
        check_positive("squared_sensitivity", self.squared_sensitivity)

    @property
    def rho(self) -> float:
        """``s / (2 sigma^2)`` [BS16, Proposition 6]."""
        return fraction_up(Fraction(self.squared_sensitivity) / (2 * Fraction(self.sigma) ** 2))

    @property
    def mu(self) -> float:
        """``sqrt(s) / sigma``, or infinity for the discrete law, whose profile is another [DRS22, Theorem 2.7]."""
        return math.inf if self.discrete else math.sqrt(self.squared_sensitivity) / self.sigma * (1 + 2.0**-50)

    def rdp(self, order: float) -> float:
        check_order(order)
        return math.inf if order == math.inf else fraction_up(Fraction(order) * Fraction(self.rho))


def normal_profile(mu: float, epsilons: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the privacy profile of mu-Gaussian DP [DRS22, Corollary 2.13]."""
    from scipy.special import log_ndtr, ndtr

    x = np.asarray(epsilons, dtype=np.float64)
    profile: npt.NDArray[np.float64] = np.maximum(ndtr(-x / mu + mu / 2) - np.exp(x + log_ndtr(-x / mu - mu / 2)), 0.0)
    return profile
