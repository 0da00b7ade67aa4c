r"""The Rényi divergence between two coins, rounded up.

Every stability test and every vote releases one coin per use, so this one function prices them all. It is evaluated in
float64 over whole tables with a running error bound, and in ball arithmetic for single pairs.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from flint import arb, ctx

FloatArray: TypeAlias = npt.NDArray[np.float64]

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
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        up, down = _log_ratio(p, q), _log_ratio(1 - p, 1 - q, difference=q - p)
        if order == math.inf:
            return np.where(p == q, 0.0, np.maximum(up, down)) * (1 + 4 * _SLACK)
        first, first_error = _excess(up, order)
        second, second_error = _excess(down, order)
        excess = np.where(q > 0, q * first, 0.0) + np.where(q < 1, (1 - q) * second, 0.0)
        error = np.where(q > 0, q * first_error, 0.0) + np.where(q < 1, (1 - q) * second_error, 0.0)
        small = np.log1p(excess + error + 4 * _SLACK * excess)
        high, low = np.log(q) + order * up, np.log1p(-q) + order * down
        # log q and order * up may cancel: the allowance is for what was added, not for the sum.
        added = np.abs(np.log(q)) + np.abs(np.log1p(-q)) + order * (np.abs(up) + np.abs(down))
        large = np.logaddexp(high, low) + 8 * _SLACK * (1 + np.where(np.isfinite(added), added, np.abs(high)))
        bound = np.where(order * np.maximum(up, down) > _LARGE, large, small) / (order - 1) * (1 + 8 * _SLACK)
        impossible = ((q == 0) & (p > 0)) | ((q == 1) & (p < 1))
        bound = np.where(impossible, np.inf, np.where(p == q, 0.0, bound))
    return np.where(np.isnan(bound), np.inf, bound)


def _log_ratio(p: FloatArray, q: FloatArray, *, difference: FloatArray | None = None) -> FloatArray:
    gap = p - q if difference is None else difference
    relative = gap / q
    return np.where(np.abs(relative) < 0.5, np.log1p(relative), np.log(p / q))


def _excess(x: FloatArray, order: float) -> tuple[FloatArray, FloatArray]:
    """Return ``e^{a x} - 1 - a (e^x - 1)`` and a bound on its rounding error."""
    tilted, plain = np.expm1(order * x), order * np.expm1(x)
    # x itself is off by a few 2^-53 relative, which moves e^{a x} by about |a x| e^{a x} times that.
    error = _SLACK * ((2 + np.clip(order * x, 0, None)) * np.abs(tilted) + 2 * np.abs(plain))
    return np.maximum(tilted - plain, 0.0), error


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
