r"""Exact integrals of products of Laplace distribution functions, in ball arithmetic.

Between two neighbouring centres every factor is one exponential or 1 minus one, so a product of them is a polynomial in
``y = e^-x`` times powers of y, and its integral against an exponential density is a finite sum. Sums alternate, so precision is
raised until every result is good; balls keep count of what was lost. Everything is in units of the factors' scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from flint import arb, ctx, fmpq, fmpz

_GOOD_BITS = 52
_MOST_BITS = 1 << 16


def ball(value: Fraction) -> Any:
    """Return an exact number as a ball at flint's present precision."""
    return arb(fmpq(fmpz(value.numerator), fmpz(value.denominator)))


def accurate(compute: Callable[[], list[Any] | None], *, bits: int) -> list[float]:
    """Run ``compute`` at growing precision until all its balls are good to about 1e-15; None asks for more at once."""
    while True:
        with ctx.workprec(bits):
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
