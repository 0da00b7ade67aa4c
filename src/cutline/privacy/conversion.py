r"""From one Rényi order to (epsilon, delta), tight and rounded up; and back, rounded down."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from flint import arb

from cutline.privacy.rounding import ball_down, ball_up, enclose, fraction_down


def epsilon_from_rdp(*, order: float, rdp: float, delta: float, slack: float) -> float:
    r"""Return the epsilon of a ``slack``-approximate (order, rdp) statement at a total ``delta``.

    **Privacy.** With ``d' = (delta - slack) / (1 - slack)``:
    ``max(0, rdp + ln((a-1)/a) - (ln d' + ln a)/(a-1))`` [CKS20, Proposition 12; docs/proofs/composition.md].

    Examples
    --------
    >>> f"{epsilon_from_rdp(order=8.0, rdp=0.2, delta=1e-6, slack=0.0):.4f}"
    '1.7430'
    """
    if not slack < delta:
        return math.inf
    return max(0.0, ball_up(enclose(lambda: arb(rdp) + _toll(order, delta, slack))))


def epsilon_from_rdp_classic(*, order: float, rdp: float, delta: float, slack: float) -> float:
    """Return the paper's conversion ``rdp + ln(1/d')/(a-1)`` [Mir17, Proposition 3]; kept for reproduction."""
    if not slack < delta:
        return math.inf
    return max(0.0, ball_up(enclose(lambda: arb(rdp) - _share(delta, slack).log() / (arb(order) - 1))))


def rdp_within(*, order: float, epsilon: float, delta: float, slack: float) -> float:
    """Return the largest rdp at ``order`` whose tight conversion stays within epsilon, rounded down; may be negative."""
    if not slack < delta:
        return -math.inf
    return ball_down(enclose(lambda: arb(epsilon) - _toll(order, delta, slack)))


def remaining_delta(*, delta: float, slack: float) -> float:
    """Return what is left of delta to convert with, ``(delta - slack) / (1 - slack)``, rounded down; 0 if nothing is."""
    if not slack < delta:
        return 0.0
    return fraction_down((Fraction(delta) - Fraction(slack)) / (1 - Fraction(slack)))


def _share(delta: float, slack: float) -> Any:
    return (arb(delta) - arb(slack)) / (1 - arb(slack))


def _toll(order: float, delta: float, slack: float) -> Any:
    a = arb(order)
    return ((a - 1) / a).log() - (_share(delta, slack) * a).log() / (a - 1)
