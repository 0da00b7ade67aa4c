r"""How a run goes on after a stability test: with the set it released, with a selection from scratch, or with both."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cutline.errors import DomainError
from cutline.histogram import ClosedHistogram, Histogram, Item, OpenHistogram
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.fixed.selection import (
    Selector,
    chance_of,
    choose_selector,
    draw_items,
    law_of_items,
    same_top,
)
from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.privacy import Adjacency, Cost
from cutline.release import Items, Outcome
from cutline.sampling import Source


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
        return self._with(draw_items(self.selector, self.part, rng))

    def law(self) -> dict[Items, float]:
        if self.selector is None or self.part is None:
            return {self._kept: 1.0}
        law: dict[Items, float] = {}
        for items, p in law_of_items(self.selector, self.part).items():
            found = self._with(items)
            law[found] = law.get(found, 0.0) + p
        return law

    @property
    def _kept(self) -> frozenset[Item]:
        return frozenset(self.whole.top(self.prefix or 0))

    def _with(self, items: Items) -> Items:
        if self.prefix is None:
            return items
        return self._kept - frozenset(items) if self.drops else self._kept | frozenset(items)

    def chance(self, k: int) -> float:
        """Return the probability that the answer is exactly the top ``k``."""
        if self.selector is None or self.part is None:
            return float(same_top(self.whole, k, self.prefix or 0))
        kept = self.prefix or 0
        return chance_of(self.selector, self.part, kept - k if self.drops else k - kept)


def check_histogram(histogram: Histogram, *, max_k: int) -> None:
    """Raise if there are too few counts, or no candidates, before anything is drawn; both are public."""
    if isinstance(histogram, OpenHistogram):
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
