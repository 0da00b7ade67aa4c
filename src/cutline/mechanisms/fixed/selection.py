r"""The selector a fixed-k mechanism falls back on, by the kind of domain and from public numbers alone.

One allowance pays for any of them: `k` bounded-range draws of one epsilon, with Limited Domain's delta. Fewer draws, or
one draw of a whole subset, take a larger epsilon for the same money (`stretch_epsilon`), so the dearest path is always Limited
Domain with all k draws (in rounds or in one) and a mechanism's cost is known before it knows what domain it will be given.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from cutline.histogram import ClosedHistogram, Histogram, OpenHistogram
from cutline.mechanisms.calibration import INSIDE, log_odds_needed, stretch_epsilon
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.closed.selector import countable
from cutline.mechanisms.closed.subset import SubsetEM
from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.privacy import Cost, Filter
from cutline.privacy.rounding import fraction_down
from cutline.release import Items

if TYPE_CHECKING:
    from cutline.sampling import Source

Selector: TypeAlias = LimitedDomain | PeelingEM | SubsetEM


def subset_needs_less(k: int, candidates: int) -> bool:
    r"""Say whether one draw of a whole subset has the smaller one-gap number than k peels, at one price.

    With one gap g, the top set outweighs each of the other subsets by ``e^{e sqrt(k) g}``, an item above the gap each item
    below it by ``e^{e g}``. Both are public numbers of k and the number of candidates.

    Examples
    --------
    >>> subset_needs_less(10, 20), subset_needs_less(10, 1000), subset_needs_less(1, 20)
    (True, False, False)
    """
    if not 1 < k < candidates:
        return False
    rivals = math.lgamma(candidates + 1) - math.lgamma(k + 1) - math.lgamma(candidates - k + 1)
    return (rivals + log_odds_needed(1)) / math.sqrt(k) < math.log(candidates - k) + log_odds_needed(k)


def choose_selector(allowance: LimitedDomain, histogram: Histogram, *, k: int) -> Selector:
    """Return what selects ``k`` items of this histogram for the allowance's money; ``allowance.k`` is the most it may draw."""
    epsilon = stretch_epsilon(allowance.epsilon, draws=allowance.k, over=k)
    if isinstance(histogram, OpenHistogram):
        return allowance.after(allowance.k - k, epsilon=epsilon)
    draws = min(k, histogram.size)
    if subset_needs_less(draws, histogram.size) and countable(histogram.size, k=draws):
        epsilon = stretch_epsilon(epsilon, draws=draws, over=1)
        return SubsetEM(k=draws, epsilon=epsilon, adjacency=allowance.adjacency)
    return PeelingEM(k=draws, epsilon=epsilon, adjacency=allowance.adjacency)


def draw_items(selector: Selector, histogram: Histogram, rng: Source) -> Items:
    """Draw the items of one selection."""
    items = selector.run(histogram, rng)[0].items
    assert items is not None  # noqa: S101 - a selector never withholds
    return items


def law_of_items(selector: Selector, histogram: Histogram) -> dict[Items, float]:
    """Return the exact law of the items."""
    law = selector.law(histogram).items()
    return {outcome.items: p for outcome, p in law if outcome.items is not None}  # it never withholds


def chance_of(selector: Selector, histogram: Histogram, k: int) -> float:
    """Return the probability that exactly the top ``k`` are drawn; a closed domain always gives as many as were asked."""
    if isinstance(histogram, ClosedHistogram):
        k = min(k, histogram.size)
    if k < 0 or (not isinstance(selector, LimitedDomain) and k != selector.k):
        return 0.0
    return float(selector.chance(histogram, k))


def rest_of(limits: Filter, spent: Cost) -> Filter:
    """Return what a first step has left of the limits of one release."""
    rdp = (Fraction(limits.rdp) - Fraction(spent.rdp(limits.order))) * Fraction(INSIDE)
    delta = (Fraction(limits.delta) - Fraction(spent.delta)) * Fraction(INSIDE)
    return Filter(order=limits.order, rdp=max(fraction_down(rdp), 0.0), delta=max(fraction_down(delta), 0.0))


def same_top(histogram: Histogram, one: int, other: int) -> bool:
    """Say whether the top sets at two cuts are the same: the same cut, or both past the last item."""
    return one == other or min(one, other) >= len(histogram.items)
