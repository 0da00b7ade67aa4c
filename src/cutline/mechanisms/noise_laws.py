r"""The exact laws of noisy comparisons: which of several numbers is largest after noise, or is first to pass a noisy threshold.

Each probability is one integral over one noise, the winner's or the threshold's, of terms that are never negative. For
exponential noise it is a polynomial, which Gauss' quadrature integrates exactly; for normal noise the trapezoidal rule, whose
error is bounded on a strip around the real line. Products of Laplace distribution functions are integrated in ball arithmetic:
between two neighbouring centres every factor is one exponential or 1 minus one, so a product of them is a polynomial in
``y = e^-x`` times powers of y, and its integral against an exponential density is a finite sum. Sums alternate, so precision is
raised until every result is good; balls keep count of what was lost. All numbers are in units of the noise's scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, arb_poly, fmpq, fmpz

from cutline.arrays import FloatArray
from cutline.errors import LawTooLarge
from cutline.rounding import working_precision

_MOST_CHOICES = 4000
_OUT_OF_SIGHT = 80.0  # standard deviations: the chance to win from so far below is 0 in float64
_LEFT, _RIGHT = -56.0, 50.0  # beyond, every integrand is below the smallest float or below 1e-300 of its peak
_QUADRATURE_ERROR = 1e-14
_STEPS = 8  # per half-width of the strip: e^(-2 pi 8) leaves 8 digits for how much larger the integrand is on the strip
_NARROWEST = 2.0**-8
_GOOD_BITS = 52
_MOST_BITS = 1 << 16


def check_choices(choices: int) -> None:
    """Refuse to integrate laws of very many choices."""
    if choices > _MOST_CHOICES:
        raise LawTooLarge(
            f"the law of a noisy maximum is integrated for up to {_MOST_CHOICES} choices",
            f"{choices}",
            "Sample instead.",
        )


def exponential_law(offsets: FloatArray) -> FloatArray:
    r"""Return the law of ``argmax(offset + exponential noise)``; offsets are at most 0, the largest is 0.

    ``P(i) = w_i * integral over (0, 1) of prod_{j != i} (1 - x w_j)``, ``w = exp(offset)``: a polynomial of degree K - 1, so
    that K/2 nodes are exact. ``1 - x w = (1 - x) + x (1 - w)`` adds numbers of one sign, so no digit is lost.
    """
    check_choices(len(offsets))
    with np.errstate(under="ignore"):
        values, places, times = np.unique(offsets, return_inverse=True, return_counts=True)
        x, rest, weights = _nodes(-(-len(offsets) // 2))
        factors = rest[:, None] + x[:, None] * -np.expm1(values)
        logs = np.log(factors)
        others = np.exp((logs @ times)[:, None] - logs)
        law: FloatArray = (np.exp(values) * (weights @ others))[places]
    return law


@lru_cache(maxsize=64)
def _nodes(count: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return Gauss-Legendre nodes on (0, 1), their distances from 1 and their weights, each correctly rounded or next to it."""
    with working_precision(128):
        roots = [arb.legendre_p_root(count, i, weight=True) for i in range(count)]
        x = np.array([float((1 + root) / 2) for root, _ in roots])
        rest = np.array([float((1 - root) / 2) for root, _ in roots])
        return x, rest, np.array([float(weight / 2) for _, weight in roots])


def laplace_law(offsets: Sequence[Fraction]) -> FloatArray:
    """Return the law of ``argmax(offset + Laplace noise)``, by closed form in balls."""
    check_choices(len(offsets))
    values = sorted(set(offsets))
    times = [offsets.count(v) for v in values]
    each = accurate(lambda: _laplace_law(values, times), bits=128 + 4 * len(offsets))
    chances = dict(zip(values, each, strict=True))
    return np.array([chances[v] for v in offsets])


def _laplace_law(values: list[Fraction], times: list[int]) -> list[Any] | None:
    centres = [ball(v) for v in values]
    intervals = pieces(centres)
    if intervals is None:
        return None
    totals = [arb(0) for _ in values]
    for left, piece in enumerate(intervals):  # `left` centres are to the left of this piece
        _add_piece(totals, piece, centres, times, left)
    return totals


def _add_piece(totals: list[Any], piece: Piece, centres: list[Any], times: list[int], left: int) -> None:
    """Add the chance that each number wins with a value inside this piece.

    There F = 1 - a y and f = a y for centres on the left, F = f = (e^(anchor - centre) / 2) / y for those on the right.
    """
    many = sum(times)
    moments = piece.moments(-many - 1, many + 1, arb(0))
    slopes = [(centre - piece.anchor).exp() / 2 for centre in centres[:left]]
    product, scalar, power = arb_poly([1]), arb(1), 0
    for slope, n in zip(slopes, times[:left], strict=True):
        product *= arb_poly([1, -slope]) ** n
    for centre, n in zip(centres[left:], times[left:], strict=True):
        scalar *= ((piece.anchor - centre).exp() / 2) ** n
        power -= n
    coefficients, base = product.coeffs(), power + many + 1
    if left < len(centres):
        share = scalar * dot(coefficients, moments, base)
        for i in range(left, len(centres)):
            totals[i] += share
    for i, slope in enumerate(slopes):
        totals[i] += scalar * slope * dot(_deflate(coefficients, slope), moments, base + 1)


def _deflate(coefficients: list[Any], slope: Any) -> list[Any]:
    """Divide by ``1 - slope * y``; the slope is at most 1/2, so errors shrink."""
    quotient = [coefficients[0]]
    for c in coefficients[1:-1]:
        quotient.append(c + slope * quotient[-1])
    return quotient


def normal_law(offsets: FloatArray) -> FloatArray:
    r"""Return the law of ``argmax(offset + normal noise)``; offsets are at most 0, the largest is 0.

    The trapezoidal rule with step h is off by at most ``2 M / (e^(2 pi s / h) - 1)`` where M bounds the integral of the modulus
    on every line of the strip of half-width s [TW14, Theorem 5.1]. There a density grows by at most
    ``e^(s^2/2)`` and ``|Phi(x + iy)| <= Phi(x) + s e^(s^2/2) phi(x)``. s and h are halved together until the bound is 1e-14 of
    every entry: the more choices, the narrower the strip on which their product stays small.
    """
    check_choices(len(offsets))
    values, places, times = np.unique(offsets, return_inverse=True, return_counts=True)
    strip = 1.0
    while strip >= _NARROWEST:
        law, bound = _trapezoid(values, times, strip)
        off = 8 * bound / math.expm1(2 * math.pi * _STEPS)  # 4 times the error: the bound itself is a float sum
        if np.all(off <= _QUADRATURE_ERROR * law + 5e-324):
            found: FloatArray = law[places]
            return found
        strip /= 2
    raise ArithmeticError("a quadrature did not converge")  # the product of 4000 factors is tame on a far wider strip


def _trapezoid(values: FloatArray, times: npt.NDArray[np.int64], strip: float) -> tuple[FloatArray, FloatArray]:
    """Return the sum for each distinct offset, and that of its bound on the strip."""
    from scipy.special import log_ndtr

    step = strip / _STEPS
    x = np.arange(_LEFT, _RIGHT, step)[:, None] - values
    density = -(x**2) / 2 - math.log(2 * math.pi) / 2
    below = log_ndtr(x)
    near = values >= -_OUT_OF_SIGHT
    with np.errstate(under="ignore", over="ignore"):
        wide = np.logaddexp(below, density + math.log(strip) + strip**2 / 2)
        law = step * np.exp(density + (below @ times)[:, None] - below).sum(axis=0)
        bound = step * np.exp(density + strip**2 / 2 + (wide @ times)[:, None] - wide).sum(axis=0)
    return np.where(near, law, 0.0), np.where(near, bound, 0.0)


def first_pass_law(
    distances: Sequence[Fraction], *, threshold: float, ratio: Fraction, wanted: Sequence[int] | None = None
) -> list[float]:
    r"""Return the probability that test j is the first to pass, for the ``wanted`` tests; the last entry is "none".

    Parameters
    ----------
    distances
        What is tested, in the order of the tests, in units of the tests' noise scale.
    threshold
        The public threshold is ``ln(1 / threshold)`` in the same units; in (0, 1].
    ratio
        The tests' noise scale over the threshold's; not a whole number.
    wanted
        Which tests, in increasing order; all of them, and "none" (``len(distances)``), by default.
    """
    entries = list(range(len(distances) + 1) if wanted is None else wanted)
    count = entries[-1] + 1 if entries else 0
    tested = list(distances[:count])
    # Cancellation grows with the degree of the polynomials, about one bit for each factor.
    return accurate(lambda: _first_pass_law(tested, threshold, ratio, entries), bits=128 + 4 * len(tested))


def _first_pass_law(tested: list[Fraction], threshold: float, ratio: Fraction, entries: list[int]) -> list[Any] | None:
    centres = [ball(x) for x in tested]
    bar, rate = -arb(threshold).log(), ball(ratio)
    breaks = _sorted({x: ball(x) for x in tested}, bar)
    intervals = pieces(breaks) if breaks is not None else None
    if intervals is None:
        return None
    totals = {j: arb(0) for j in entries}
    for piece in intervals:
        anchor = piece.anchor
        after = piece.start is not None and not piece.start < bar  # beyond the threshold's median
        density = rate / 2 * (-rate * abs(anchor - bar)).exp()
        _add_tests(totals, piece, centres, density, rate if after else -rate)
    return [totals[j] for j in entries]


def _add_tests(totals: dict[int, Any], piece: Piece, centres: list[Any], density: Any, rate: Any) -> None:
    """Add one interval's share: a running product of the tests that failed, times the test that passes."""
    count = len(centres)
    moments = piece.moments(-count - 1, count + 1, rate)
    product, scalar, power = [arb(1)], density, 0  # scalar * y^power * product(y)
    for j, centre in enumerate(centres):
        step = piece.anchor - centre
        right = piece.start is not None and not piece.start < centre  # the interval lies to the right of the centre
        base = power + count + 1
        if j in totals:
            if right:  # passes with probability e^-(x - centre) / 2
                totals[j] += scalar * (-step).exp() / 2 * dot(product, moments, base + 1)
            else:  # and with 1 - e^(x - centre) / 2 on the left
                totals[j] += scalar * (dot(product, moments, base) - step.exp() / 2 * dot(product, moments, base - 1))
        if right:
            product = times_linear(product, (-step).exp() / 2)
        else:
            scalar, power = scalar * step.exp() / 2, power - 1
    if count in totals:
        totals[count] += scalar * dot(product, moments, power + count + 1)


def _sorted(centres: dict[Fraction, Any], bar: Any) -> list[Any] | None:
    """Return all break points in order, equal ones once, or None if the precision cannot tell them apart."""
    exact = [centres[x] for x in sorted(centres)]
    if any(bar == x for x in exact):
        return exact
    if any(not (bar < x or bar > x) for x in exact):
        return None
    return [*(x for x in exact if x < bar), bar, *(x for x in exact if x > bar)]


def ball(value: Fraction) -> Any:
    """Return an exact number as a ball at flint's present precision."""
    return arb(fmpq(fmpz(value.numerator), fmpz(value.denominator)))


def accurate(compute: Callable[[], list[Any] | None], *, bits: int) -> list[float]:
    """Run ``compute`` at growing precision until all its balls are good to about 1e-15; None asks for more at once."""
    while True:
        with working_precision(bits):
            found = compute()
            if found is not None and all(_good(value) for value in found):
                return [max(float(value), 0.0) for value in found]
        if bits > _MOST_BITS:
            raise ArithmeticError("an integral did not converge")  # balls that never close: a bug, not a law
        bits *= 2


def _good(value: Any) -> bool:
    """Good relative accuracy, or too small for any float."""
    return bool(value.is_finite()) and bool(value.rel_accuracy_bits() >= _GOOD_BITS or abs(value) < arb(2) ** -1100)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """An interval without a centre inside; y = e^-(x - anchor)."""

    start: Any  # None is minus infinity
    stop: Any  # None is infinity

    @property
    def anchor(self) -> Any:
        """The end that y is measured from."""
        return self.stop if self.start is None else self.start

    def moments(self, lowest: int, highest: int, rate: Any) -> list[Any]:
        """Return the integrals of ``y^m e^(-rate (x - anchor))`` for m from ``lowest`` to ``highest``; 0 where infinite.

        Infinite ones never enter a sum: a caller's exponents always decay towards an infinite end.
        """
        found = []
        for m in range(lowest, highest + 1):
            power = m + rate
            if self.start is None or self.stop is None:
                decays = power < 0 if self.start is None else power > 0
                found.append(1 / abs(power) if decays else arb(0))
            else:
                width = self.stop - self.start
                found.append(width if power == 0 else -(-power * width).expm1() / power)
        return found


def pieces(breaks: Sequence[Any]) -> list[Piece] | None:
    """Return the intervals between sorted balls, or None if two different ones cannot be told apart yet."""
    if any(not (a < b) for a, b in pairwise(breaks)):
        return None
    ends = [None, *breaks, None]
    return [Piece(a, b) for a, b in pairwise(ends)]


def times_linear(coefficients: list[Any], slope: Any) -> list[Any]:
    """Multiply a polynomial by ``1 - slope * y``."""
    lifted = [slope * c for c in coefficients]
    return [coefficients[0], *(c - s for c, s in zip(coefficients[1:], lifted, strict=False)), -lifted[-1]]


def dot(coefficients: Sequence[Any], moments: Sequence[Any], shift: int) -> Any:
    """Return the integral of the polynomial, its exponents moved by ``shift`` from the first moment."""
    total = arb(0)
    for c, moment in zip(coefficients, moments[shift:], strict=False):
        total += c * moment
    return total
