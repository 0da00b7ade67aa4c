r"""How a run goes on after a stability test: with the set it released, with a selection from scratch, or with both.

What selects is chosen by the kind of domain, from public numbers alone. One allowance pays for any selector: `k`
bounded-range draws of one epsilon, with Limited Domain's delta. Fewer draws, or one draw of a whole subset, take a larger
epsilon for the same money (`stretch_epsilon`), so the dearest path is always Limited Domain with all k draws (in rounds or
in one), and a mechanism's cost is known before it knows what domain it will be given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from cutline.errors import DomainError
from cutline.histogram import ClosedHistogram, Histogram, Item
from cutline.mechanisms.calibration import INSIDE, log_odds_needed, stretch_epsilon
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.closed.selector import countable
from cutline.mechanisms.closed.subset import SubsetEM
from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.outcome import Items, Outcome
from cutline.privacy import Adjacency, Cost, Filter
from cutline.rounding import fraction_down
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
    if not isinstance(histogram, ClosedHistogram):
        return allowance.after(allowance.k - k, epsilon=epsilon)
    draws = min(k, histogram.size)
    if subset_needs_less(draws, histogram.size) and countable(histogram.size, k=draws):
        epsilon = stretch_epsilon(epsilon, draws=draws, over=1)
        return SubsetEM(k=draws, epsilon=epsilon, adjacency=allowance.adjacency)
    return PeelingEM(k=draws, epsilon=epsilon, adjacency=allowance.adjacency)


def rest_of(limits: Filter, spent: Cost) -> Filter:
    """Return what a first step has left of the limits of one release."""
    rdp = (Fraction(limits.rdp) - Fraction(spent.rdp(limits.order))) * Fraction(INSIDE)
    delta = (Fraction(limits.delta) - Fraction(spent.delta)) * Fraction(INSIDE)
    return Filter(order=limits.order, rdp=max(fraction_down(rdp), 0.0), delta=max(fraction_down(delta), 0.0))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Continuation:
    """How a run goes on after its test: what it keeps of the top, and what it draws to add to that or to take from it."""

    steps: tuple[str, ...]
    whole: Histogram
    prefix: int | None = None  # how many of the top are in the answer, or are dropped from; None: no set was released
    selector: Selector | None = None
    part: Histogram | None = None  # what the selector draws from
    drops: bool = False
    spare: int = 0  # draws that are paid for and not made, so that the price is a function of the steps

    def cost(self, adjacency: Adjacency) -> Cost:
        if self.selector is None:
            return Cost(adjacency=adjacency)
        if self.spare and isinstance(self.selector, PeelingEM):
            return replace(self.selector, k=self.selector.k + self.spare).cost
        return self.selector.cost

    def outcome(self, items: Items, *, k: int) -> Outcome:
        """Return the outcome in which these items go out after these steps."""
        return Outcome(items=items, k=k, steps=self.steps)

    def draw(self, rng: Source) -> Items:
        if self.selector is None or self.part is None:
            return self._kept
        items = self.selector.run(self.part, rng)[0].items
        assert items is not None  # noqa: S101 - a selector never withholds
        return self._with(items, self._kept)

    def law(self) -> dict[Items, float]:
        if self.selector is None or self.part is None:
            return {self._kept: 1.0}
        law: dict[Items, float] = {}
        kept = self._kept
        for outcome, p in self.selector.law(self.part).items():
            found = self._with(outcome.items or (), kept)  # a selector never withholds
            law[found] = law.get(found, 0.0) + p
        return law

    @property
    def _kept(self) -> frozenset[Item]:
        return frozenset(self.whole.top(self.prefix or 0))

    def _with(self, items: Items, kept: frozenset[Item]) -> Items:
        if self.prefix is None:
            return items
        return kept - frozenset(items) if self.drops else kept | frozenset(items)

    def chance(self, k: int) -> float:
        """Return the probability that the answer is exactly the top ``k``."""
        kept = self.prefix or 0
        if self.selector is None or self.part is None:
            # The same cut, or both past the last item.
            return float(k == kept or min(k, kept) >= len(self.whole.items))
        wanted = kept - k if self.drops else k - kept
        if isinstance(self.part, ClosedHistogram):
            wanted = min(wanted, self.part.size)  # a closed domain always gives as many as were asked
        if wanted < 0 or (not isinstance(self.selector, LimitedDomain) and wanted != self.selector.k):
            return 0.0
        return float(self.selector.chance(self.part, wanted))


def check_histogram(histogram: Histogram, *, max_k: int) -> None:
    """Raise if there are too few counts, or no candidates, before anything is drawn; both are public."""
    if not isinstance(histogram, ClosedHistogram):
        histogram.gaps(max_k)
    elif histogram.size == 0:
        raise DomainError("there must be candidates to select from", "none", "List the candidates when counting.")


def select_all(histogram: Histogram, allowance: LimitedDomain, *, steps: tuple[str, ...]) -> Continuation:
    """Return the continuation that selects all k items, because no set was released."""
    chosen = choose_selector(allowance, histogram, k=allowance.k)
    return Continuation(steps=(*steps, chosen.name), whole=histogram, selector=chosen, part=histogram)


def complete(histogram: Histogram, cut: int, allowance: LimitedDomain, *, steps: tuple[str, ...]) -> Continuation:
    """Return the continuation that keeps the set above a cut of at most k and selects what is missing, at a price per cut."""
    kept = Continuation(steps=steps, whole=histogram, prefix=len(histogram.top(cut)))
    if cut == allowance.k or (isinstance(histogram, ClosedHistogram) and cut >= histogram.size):
        return kept
    part = histogram.after(cut)
    chosen = choose_selector(allowance, part, k=allowance.k - cut)
    return replace(kept, steps=(*steps, chosen.name), selector=chosen, part=part)
