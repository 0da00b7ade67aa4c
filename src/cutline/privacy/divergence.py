r"""The Rényi divergence between two coins, rounded up.

Every stability test and every vote releases one coin per use, so this one function prices them all. It is evaluated in
float64 over whole tables with a running error bound, and in ball arithmetic for single pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, ctx

from cutline.arrays import FloatArray

# Allowance for one elementary float operation: numpy's log1p and expm1 are good to a few units of 2^-53.
_SLACK = 2.0**-50
_PROFILE_BLOCK = 256
_LARGE = 300.0  # above this exponent the sum is handled in logarithms


def coin_divergence(p: FloatArray, q: FloatArray, order: float) -> FloatArray:
    r"""Bound ``D_order(Bern(p) || Bern(q))`` from above, entry by entry.

    With ``f(x) = e^{a x} - 1 - a (e^x - 1) >= 0`` and the two log-ratios ``x1 = ln(p/q)``, ``x2 = ln((1-p)/(1-q))``, the
    sum ``p^a q^{1-a} + (1-p)^a (1-q)^{1-a}`` is ``1 + q f(x1) + (1-q) f(x2)``: no cancellation between terms, so close
    coins keep their relative accuracy. The rounding of each ``f`` is added on top.

    Examples
    --------
    >>> import numpy as np
    >>> float(coin_divergence(np.array([0.5]), np.array([0.5]), 2.0)[0])
    0.0
    >>> f"{coin_divergence(np.array([0.6]), np.array([0.5]), 2.0)[0]:.6f}"  # ln(1.04)
    '0.039221'
    """
    return CoinPairs.of(p, q).divergence(order)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CoinPairs:
    """Pairs of coins with everything that does not depend on the order worked out once."""

    q: FloatArray
    up: FloatArray  # ln(p/q)
    down: FloatArray  # ln((1-p)/(1-q))
    plain_up: FloatArray  # e^up - 1
    plain_down: FloatArray
    equal: npt.NDArray[np.bool_]
    impossible: npt.NDArray[np.bool_]  # an outcome that q cannot have

    @classmethod
    def of(cls, p: FloatArray, q: FloatArray) -> CoinPairs:
        """Work out the log-ratios, accurately also where the coins are close."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            up, down = _log_ratio(p, q), _log_ratio(1 - p, 1 - q, difference=q - p)
            return cls(
                q=q,
                up=up,
                down=down,
                plain_up=np.expm1(up),
                plain_down=np.expm1(down),
                equal=p == q,
                impossible=((q == 0) & (p > 0)) | ((q == 1) & (p < 1)),
            )

    def divergence(self, order: float) -> FloatArray:
        """Bound the divergence of each pair at one order from above."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            farthest = np.maximum(self.up, self.down)
            if order == math.inf:
                return np.where(self.equal, 0.0, farthest) * (1 + 4 * _SLACK)
            far = order * farthest > _LARGE
            total = self._small(order)
            if far.any():
                total = np.where(far, self._large(order), total)
            bound = total / (order - 1) * (1 + 8 * _SLACK)
            bound = np.where(self.impossible, np.inf, np.where(self.equal, 0.0, bound))
        return np.where(np.isnan(bound), np.inf, bound)

    def _small(self, order: float) -> FloatArray:
        excess, error = np.zeros_like(self.q), np.zeros_like(self.q)
        for weight, x, expm1 in ((self.q, self.up, self.plain_up), (1 - self.q, self.down, self.plain_down)):
            tilted, plain = np.expm1(order * x), order * expm1
            excess += np.where(weight > 0, weight * np.maximum(tilted - plain, 0.0), 0.0)
            # x itself is off by a few 2^-53 relative, which moves e^{a x} by about |a x| e^{a x} times that.
            off = (2 + np.maximum(order * x, 0)) * np.abs(tilted) + 2 * np.abs(plain)
            error += np.where(weight > 0, weight * off, 0.0)
        return np.log1p(excess + _SLACK * (error + 4 * excess))

    def _large(self, order: float) -> FloatArray:
        log_q, log_not_q = np.log(self.q), np.log1p(-self.q)
        high, low = log_q + order * self.up, log_not_q + order * self.down
        # log q and order * up may cancel: the allowance is for what was added, not for the sum.
        added = np.abs(log_q) + np.abs(log_not_q) + order * (np.abs(self.up) + np.abs(self.down))
        return np.logaddexp(high, low) + 8 * _SLACK * (1 + np.where(np.isfinite(added), added, np.abs(high)))


def _log_ratio(p: FloatArray, q: FloatArray, *, difference: FloatArray | None = None) -> FloatArray:
    gap = p - q if difference is None else difference
    relative = gap / q
    return np.where(np.abs(relative) < 0.5, np.log1p(relative), np.log(p / q))


def coin_divergence_ball(p: float, q: float, order: float, *, bits: int = 128) -> Any:
    """Enclose ``D_order(Bern(p) || Bern(q))`` for floats strictly inside (0, 1) in a ball."""
    with ctx.workprec(bits):
        a, x, y = arb(order), arb(p), arb(q)
        up, down = (x / y).log(), ((1 - x) / (1 - y)).log()
        return ((x * ((a - 1) * up).exp()) + ((1 - x) * ((a - 1) * down).exp())).log() / (a - 1)


def coin_profile(p: FloatArray, q: FloatArray, epsilons: FloatArray) -> FloatArray:
    """Return, for each epsilon, the largest hockey-stick divergence over pairs of coins, both ways."""
    scale = np.exp(np.asarray(epsilons, dtype=np.float64))
    best = np.maximum(1 - scale, 0.0)
    for i in range(0, len(p), _PROFILE_BLOCK):
        low, high = p[i : i + _PROFILE_BLOCK, None], q[i : i + _PROFILE_BLOCK, None]
        for a, b in ((low, high), (high, low)):
            stick = np.maximum(a - scale * b, 0.0) + np.maximum((1 - a) - scale * (1 - b), 0.0)
            best = np.maximum(best, stick.max(axis=0))
    profile: FloatArray = best
    return profile
