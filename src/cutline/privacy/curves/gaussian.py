"""Gaussian noise: the noisy numbers, or only the index of the largest; and steps as dear as Gaussian noise (zCDP)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from flint import arb

from cutline.arrays import FloatArray
from cutline.errors import ParameterError
from cutline.privacy.curves.base import check_order, check_positive, check_whole, hold, register
from cutline.rounding import ball_up, enclose, fraction_up, sum_up


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
        sensitivity = check_positive("squared_sensitivity", self.squared_sensitivity)
        hold(self, sigma=check_positive("sigma", self.sigma), squared_sensitivity=sensitivity)

    @property
    def rho(self) -> float:
        """``s / (2 sigma^2)`` [BS16, Proposition 6]."""
        return fraction_up(Fraction(self.squared_sensitivity) / (2 * Fraction(self.sigma) ** 2))

    @property
    def mu(self) -> float:
        """``sqrt(s) / sigma``, or infinity for the discrete law, whose profile is another [DRS22, Theorem 2.7]."""
        return math.inf if self.discrete else math.sqrt(self.squared_sensitivity) / self.sigma * (1 + 2.0**-50)

    def rdp(self, order: float) -> float:
        return linear_rdp(self.rho, order)


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
        hold(self, sigma=check_positive("sigma", self.sigma), choices=check_whole("choices", self.choices))
        if check_whole("change", self.change) > 2:
            raise ParameterError("change must be 1 or 2", f"change={self.change}", "Take the adjacency's count_range.")

    @property
    def rho(self) -> float:
        """Of the vector of all noisy numbers."""
        return fraction_up(Fraction(self.choices * self.change**2) / (2 * Fraction(self.sigma) ** 2))

    def rdp(self, order: float) -> float:
        order, whole = check_order(order), linear_rdp(self.rho, order)
        return whole if order == math.inf else min(self.corollary(order), whole)

    def corollary(self, order: float) -> float:
        """Return the paper's bound alone."""
        shift = fraction_up(2 * Fraction(order) * self.change**2 / Fraction(self.sigma) ** 2)
        return sum_up([(1, shift), (1, ball_up(enclose(lambda: arb(self.choices).log() / (arb(order) - 1))))])


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ZCDP:
    r"""A step of which only rho-zCDP is known: ``rho * order`` at every order [BS16, Definition 1]."""

    kind: ClassVar[str] = "zcdp"
    rho: float

    def __post_init__(self) -> None:
        hold(self, rho=check_positive("rho", self.rho))

    def rdp(self, order: float) -> float:
        return linear_rdp(self.rho, order)


def linear_rdp(rho: float, order: float) -> float:
    """Return ``rho * order``, rounded up: the Rényi bound of Gaussian noise."""
    order = check_order(order)
    return math.inf if math.inf in (order, rho) else fraction_up(Fraction(order) * Fraction(rho))


def normal_profile(mu: float | FloatArray, epsilons: FloatArray) -> FloatArray:
    """Return the privacy profile of mu-Gaussian DP in floats, off by an absolute 2^-47 at most [DRS22, Corollary 2.13]."""
    from scipy.special import log_ndtr, ndtr

    x = np.asarray(epsilons, dtype=np.float64)
    with np.errstate(over="ignore"):  # x / mu may be infinite, as it should
        profile: FloatArray = np.maximum(ndtr(-x / mu + mu / 2) - np.exp(x + log_ndtr(-x / mu - mu / 2)), 0.0)
    return profile


def normal_profile_up(mu: float, epsilon: float) -> float:
    """Return the same profile at one epsilon, rounded up: its two terms may agree in all the digits a float has."""

    def profile() -> Any:
        x, m, root = arb(epsilon), arb(mu), arb(2).sqrt()
        return (((x / m - m / 2) / root).erfc() - x.exp() * ((x / m + m / 2) / root).erfc()) / 2

    return ball_up(enclose(profile))
