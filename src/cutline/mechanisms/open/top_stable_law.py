r"""The exact law of Top Stable: which of several Laplace tests is the first to pass a shared noisy threshold.

Given the threshold's noise the tests are independent, so each probability is one integral over it
(`cutline.mechanisms.adaptive.laplace_integrals`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from flint import arb

from cutline.mechanisms.adaptive.laplace_integrals import Piece, accurate, ball, dot, pieces, times_linear


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
    return accurate(lambda: _law(tested, threshold, ratio, entries), bits=128 + 4 * len(tested))


def _law(tested: list[Fraction], threshold: float, ratio: Fraction, entries: list[int]) -> list[Any] | None:
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
        _add(totals, piece, centres, density, rate if after else -rate)
    return [totals[j] for j in entries]


def _add(totals: dict[int, Any], piece: Piece, centres: list[Any], density: Any, rate: Any) -> None:
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
