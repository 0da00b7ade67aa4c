r"""The discrete Gaussian: whole noise, drawn exactly."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from flint import ctx

from cutline.arrays import BoolArray, FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.sampling.draws import bernoulli, bernoulli_real, enclose_rational, integers_below
from cutline.sampling.source import Source, resolve

_LARGEST = 2.0**40  # sigma; every number below stays exact in 64 bits


def discrete_gaussian(n: int, *, sigma: float, rng: Source | None = None) -> IntArray:
    r"""Draw ``n`` whole numbers z with probability proportional to ``exp(-z^2 / (2 sigma^2))``, exactly.

    Rejection from a discrete Laplace law of scale ``t = floor(sigma) + 1``, accepted with probability
    ``exp(-(|y| - sigma^2/t)^2 / (2 sigma^2))`` [CKS20, Algorithms 2 and 3]. sigma is taken as the exact rational number
    that the float is, and every coin ``exp(-x)`` of a rational x is drawn exactly by `bernoulli_real`: one word each, instead
    of the paper's series of rational coins, with the same law.

    sigma, from 2^-20 to 2^40, is the standard deviation of the continuous law, which the discrete one never exceeds.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> draws = discrete_gaussian(20_000, sigma=3.0, rng=SeededSource(0))
    >>> bool(abs(draws.std() - 3) < 0.05), draws.dtype
    (True, dtype('int64'))
    """
    check_sigma(sigma)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise ParameterError("n must be a whole number of at least 0", f"n={n}")
    source = resolve(rng)
    variance = Fraction(sigma) ** 2
    t = math.floor(sigma) + 1
    centre = variance / t
    found = np.empty(n, dtype=np.int64)
    missing = np.arange(n)
    while missing.size:
        drawn = _discrete_laplace(missing.size, t, source)
        size = np.abs(drawn)
        x = (size - float(centre)) ** 2 / (2 * float(variance))
        kept = _exp_coins(x, lambda i, s=size: (int(s[i]) - centre) ** 2 / (2 * variance), source)
        found[missing[kept]] = drawn[kept]
        missing = missing[~kept]
    return found


def _discrete_laplace(n: int, t: int, source: Source) -> IntArray:
    """Draw whole numbers y with probability proportional to ``exp(-|y| / t)``."""
    found = np.empty(n, dtype=np.int64)
    missing = np.arange(n)
    while missing.size:
        low = integers_below(np.full(missing.size, t), rng=source)
        kept = _exp_coins(low / t, lambda i, u=low: Fraction(int(u[i]), t), source)
        size = low[kept] + t * _geometric(int(kept.sum()), source)
        negative = bernoulli(np.full(size.size, 0.5), rng=source)
        once = ~(negative & (size == 0))  # 0 has one sign only
        at = missing[kept][once]
        found[at] = np.where(negative, -size, size)[once]
        left = np.ones(missing.size, dtype=np.bool_)
        left[np.flatnonzero(kept)[once]] = False
        missing = missing[left]
    return found


def _geometric(n: int, source: Source) -> IntArray:
    """Draw how often a coin ``exp(-1)`` says yes before it first says no."""
    found = np.zeros(n, dtype=np.int64)
    going = np.arange(n)
    while going.size:
        yes = _exp_coins(np.ones(going.size), lambda _: Fraction(1), source)
        going = going[yes]
        found[going] += 1
    return found


def _exp_coins(approximate: FloatArray, exact: Any, source: Source) -> BoolArray:
    """Answer yes with probability ``exp(-x)`` for rational numbers ``exact(i)`` near floats."""

    def enclose(index: int, bits: int) -> Any:
        with ctx.workprec(bits):
            return (-enclose_rational(exact(index))).exp()

    with np.errstate(under="ignore"):
        return bernoulli_real(np.exp(-approximate), enclose, rng=source)


def check_sigma(sigma: float) -> None:
    """Refuse a sigma out of the sampler's range; it is public."""
    if not 2.0**-20 <= sigma <= _LARGEST:
        raise ParameterError("sigma must be from 2**-20 to 2**40", f"sigma={sigma}", "Try sigma=10.0.")
