r"""Everything that becomes public about one run of a mechanism, and what it cost.

A release holds no private number: its items passed the mechanism, its steps and cost are functions of the outcome, and its
parameters are public. It may be printed, pickled, logged and stored.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from cutline.histogram import Item, item_key
from cutline.privacy import Budget, Cost

Law: TypeAlias = Mapping[Hashable, float]

_STATED_DELTA = 1e-6  # of the sentence, when the mechanism was built from parameters and no budget says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    r"""One outcome.

    Parameters
    ----------
    items
        A ``frozenset`` (the order means nothing), a ``tuple`` (ordered), or None when withheld.
    k
        Where the cut fell; 0 when the mechanism shows no cut.
    steps
        Which public steps ran, in order.
    cost
        What those steps cost; a function of the outcome.
    mechanism
        Name and public parameters, as plain data.
    budget
        What the mechanism was calibrated for, if it was.
    counts
        Noisy counts of the items, if they were asked for.
    seeded
        True if the draw came from a seeded generator: a simulation, not a release.
    reserved
        The cost of the dearest path, if another than the one that ran: what a guarantee without a budget states.
    branched
        True if the mechanism has several paths: which steps ran is then part of the outcome.
    """

    items: frozenset[Item] | tuple[Item, ...] | None
    k: int
    steps: tuple[str, ...]
    cost: Cost
    mechanism: Mapping[str, Any]
    budget: Budget | None
    counts: Mapping[Item, int] | None = None
    seeded: bool = False
    branched: bool = False
    reserved: Cost | None = None

    def __post_init__(self) -> None:
        # A set remembers the order it was filled in (its iteration, repr and pickle show it where hashes collide), and it
        # was filled by rank: fill it again in an order of the items' own.
        if isinstance(self.items, frozenset):
            object.__setattr__(self, "items", frozenset(sorted(self.items, key=item_key)))

    @property
    def released(self) -> bool:
        """Whether a set went out."""
        return self.items is not None

    @property
    def outcome(self) -> Hashable:
        """Everything that became public, as a key of the mechanism's law."""
        if self.branched:
            return self.steps, self.items
        return self.items if isinstance(self.items, tuple) else (self.k, self.items)

    def listed(self) -> list[Item] | None:
        """Return the items in an order that does not depend on the data, or as released if they are ordered."""
        if self.items is None:
            return None
        return list(self.items) if isinstance(self.items, tuple) else sorted(self.items, key=item_key)

    @property
    def guarantee(self) -> str:
        """One sentence: epsilon, delta, releases, adjacency; the worst case, never a refund."""
        epsilon, delta, releases = self._stated()
        span = "this one release" if releases == 1 else f"all {releases} releases of this kind together"
        parameters = ", ".join(f"{k} = {v}" for k, v in self.mechanism.items() if k in ("max_k", "k"))
        sentence = (
            f"({digits_up(epsilon, 4)}, {digits_up(delta, 3)})-DP for {self.cost.adjacency.protects}; covers {span}, "
            f"whatever the outcome; {self.mechanism['name']} with {parameters}."
        )
        return sentence + (" Drawn with a seeded generator: a simulation, not a release." if self.seeded else "")

    def _stated(self) -> tuple[float, float, int]:
        """Return the budget if the cost fits it; otherwise the mechanism was not built for it, and the cost speaks."""
        worst = self.reserved or self.cost
        if self.budget is not None and self.budget.fits(worst):
            return self.budget.epsilon, self.budget.delta, self.budget.releases
        delta = self.budget.delta if self.budget is not None else _STATED_DELTA
        delta = delta if 2 * worst.delta < delta else min(2 * worst.delta, (1 + worst.delta) / 2)
        return worst.epsilon(delta), delta, 1


def digits_up(value: float, digits: int) -> str:
    """Print a number with that many digits, rounded up: a guarantee is never printed stronger than it is."""
    if not math.isfinite(value):
        return "inf"
    up = decimal.Context(prec=digits, rounding=decimal.ROUND_CEILING)
    return f"{float(up.create_decimal(repr(value))):.{digits}g}"
