r"""The Gaussian stability test, charged as the coin it really is.

The test adds Gaussian noise to a distance and compares it with a threshold, but releases only the bit. As a table it is
``pi(n) = Phi(n / sigma - offset)``, and the bit costs about 2/pi of what releasing the noisy distance would.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.privacy.curves.base import check_number, check_order, check_positive, hold, register
from cutline.privacy.curves.coin_profile import Coins, coin_profile
from cutline.privacy.curves.gaussian import linear_rdp, normal_profile
from cutline.rounding import fraction_up

_FARTHEST = 1e5  # integers; the dearest pair lies within about the order of 0
_MOST_PAIRS = 2e6  # integers within 38 standard deviations; a scan at one order looks at a few of them
_SLACK = 2.0**-44  # allowance, relative, for scipy's log_ndtr (good to about 1e-15) and what follows from it


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianBit:
    r"""One Gaussian threshold test.

    **Privacy.** The larger binary Rényi divergence over all integers n >= 0 and neighbours up to ``reach`` apart. The scan
    stops only where monotone tail bounds prove that no later pair can be dearer [docs/proofs/gaussian-bit.md].

    Examples
    --------
    >>> bit = GaussianBit(sigma=60.0, offset=6.0, reach=1)
    >>> f"{bit.rdp(7.0) / (7.0 / (2 * 60.0**2)):.3f}"  # share of what the noisy distance itself costs; 2/pi = 0.637
    '0.637'
    """

    kind: ClassVar[str] = "gaussian-bit"
    sigma: float  # standard deviation of the noise
    offset: float  # the threshold in standard deviations: pi(0) = Phi(-offset)
    reach: int  # how far one person moves n: 1 under ADD_REMOVE, 2 under REPLACE

    def __post_init__(self) -> None:
        hold(self, sigma=check_positive("sigma", self.sigma), offset=check_number("offset", self.offset))
        if not math.isfinite(self.offset) or isinstance(self.reach, bool) or self.reach not in (1, 2):
            raise ParameterError("offset must be finite and reach 1 or 2", f"offset={self.offset}, reach={self.reach}")

    @property
    def rho(self) -> float:
        """``reach^2 / (2 sigma^2)``: no more than releasing the noisy distance itself."""
        return fraction_up(Fraction(self.reach) ** 2 / (2 * Fraction(self.sigma) ** 2))

    def profile(self, epsilons: FloatArray) -> FloatArray:
        """Return the upper envelope over all integers; beyond 38 standard deviations a coin is certain in floats.

        Where that is too many, return the profile of the noisy distance itself, of which the bit is a part.
        """
        from scipy.special import ndtr

        if not self._scanned:
            return normal_profile(self.reach / self.sigma * (1 + 2.0**-50), epsilons)
        at = in_deviations(np.arange(0, math.ceil((38.0 + self.offset) * self.sigma) + 1), self.sigma, self.offset)
        yes, no = ndtr(at), ndtr(-at)
        best: FloatArray = np.maximum(-np.expm1(np.minimum(np.asarray(epsilons, dtype=np.float64), 0.0)), 0.0)
        for apart in range(1, self.reach + 1):
            low, high = Coins(yes[:-apart], no[:-apart]), Coins(yes[apart:], no[apart:])
            best = np.maximum(best, coin_profile(low, high, epsilons))
        return best

    @property
    def _scanned(self) -> bool:
        """Whether the integers around the threshold are few enough to look at every pair."""
        return (38.0 + abs(self.offset)) * self.sigma <= _MOST_PAIRS

    def rdp(self, order: float) -> float:
        """Return the exact maximum at this order, rounded up."""
        order = check_order(order)
        if order == math.inf:
            return math.inf  # the upper tail's ratio grows without bound
        if order * self.reach > _FARTHEST or not self._scanned:
            # The scan would have to go very far out; releasing the noisy distance itself costs no less than its bit.
            return linear_rdp(self.rho, order)
        return max(_dearest(self.sigma, self.offset, apart, order) for apart in range(1, self.reach + 1))


def in_deviations(counts: IntArray, sigma: float, offset: float) -> FloatArray:
    """Return ``n / sigma - offset``, good to a relative 2^-50 also where the two are large and nearly equal."""
    middle = Fraction(offset) * Fraction(sigma)
    nearest = round(middle)
    return np.asarray((counts - nearest - float(middle - nearest)) / sigma, dtype=np.float64)


@lru_cache(maxsize=4096)
def _dearest(sigma: float, offset: float, apart: int, order: float) -> float:
    from scipy.special import log_ndtr

    step = apart / sigma
    best, n, block = 0.0, 0, max(64, math.ceil(4 * sigma))
    while True:
        x = in_deviations(np.arange(n, n + block), sigma, offset)
        high, low = x + step, x
        p, q = (log_ndtr(high), log_ndtr(-high)), (log_ndtr(low), log_ndtr(-low))
        best = max(best, float(_bound(*p, *q, order).max()), float(_bound(*q, *p, order).max()))
        n, block = n + block, 2 * block
        # Beyond x: forward D <= -ln Phi(x); reverse D <= ln(1 + e^{g(x)}) / (a-1) with g(x) = a ln Q(x) - (a-1) ln Q(x+h),
        # which falls once x exceeds (a-1) h because the hazard of the normal law is at least x and grows by less than 1.
        end = n / sigma - offset
        if end > (order - 1) * step:
            tail = order * log_ndtr(-end) - (order - 1) * log_ndtr(-end - step)
            if max(-log_ndtr(end), math.exp(min(tail, 700.0)) / (order - 1)) <= best:
                return best * (1 + _SLACK)


def _bound(
    log_p: FloatArray, log_not_p: FloatArray, log_q: FloatArray, log_not_q: FloatArray, order: float
) -> FloatArray:
    """Bound the divergence of coins given by logarithms; the same formula as `CoinPairs`."""
    with np.errstate(over="ignore", invalid="ignore"):
        total, error = np.zeros_like(log_p), np.zeros_like(log_p)
        large = np.logaddexp(log_q + order * (log_p - log_q), log_not_q + order * (log_not_p - log_not_q))
        for num, den in ((log_p, log_q), (log_not_p, log_not_q)):
            x, weight = num - den, np.exp(den)
            tilted, plain = np.expm1(order * x), order * np.expm1(x)
            off = 2.0**-50 * (np.abs(num) + np.abs(den))  # absolute error of x
            total += weight * np.maximum(tilted - plain, 0.0)
            # error of f(x): f'(x) off, plus the rounding of the two exponentials
            error += weight * (
                order * np.abs(np.exp(order * x) - np.exp(x)) * off
                + 2.0**-50 * ((2 + np.clip(order * x, 0, None)) * np.abs(tilted) + 2 * np.abs(plain))
            )
        small = np.log1p(total + error + 2.0**-46 * total)
        far = order * np.maximum(log_p - log_q, log_not_p - log_not_q) > 300
        added = order * (np.abs(log_p) + np.abs(log_q) + np.abs(log_not_p) + np.abs(log_not_q))
        bound = np.where(far, large + 2.0**-46 * (1 + added), small) / (order - 1)
    return np.where(np.isnan(bound), np.inf, bound)
