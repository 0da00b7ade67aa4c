r"""The largest pure step within an allowance at one Rényi order."""

from __future__ import annotations

import math

from cutline.privacy import Pure, largest
from cutline.privacy.curves.base import check_order, check_positive


def largest_pure(*, order: float, rdp: float) -> float:
    """Return the largest epsilon, to a relative 1e-9, whose curve of pure DP at ``order`` stays within ``rdp``.

    Examples
    --------
    >>> f"{largest_pure(order=8.0, rdp=0.5):.6f}"
    '0.564296'
    """
    check_order(order)
    check_positive("rdp", rdp)
    if order == math.inf:
        return rdp
    # The curve is at most epsilon and at most a eps^2 / 2, and at least epsilon minus a constant.
    low = max(rdp, math.sqrt(2 * rdp / order)) * (1 - 1e-9)
    high = low + rdp + math.log(2) * order / (order - 1)
    return largest(lambda e: Pure(epsilon=e).rdp(order) <= rdp, low=low, high=high, relative=1e-9)
