r"""Everything that becomes public about one run of a mechanism, and what it cost.

A release holds no private number: its items passed the mechanism, its steps and cost are functions of the outcome, and its
parameters are public. It may be printed, pickled, logged and stored.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from cutline.histogram import Item
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
    """

    items: frozenset[Item] | tuple[Item, ...] | None
    k: int
    steps: tuple[str, ...]
    cost: Cost
    mechanism: Mapping[str, Any]
    budget: Budget | None
    counts: Mapping[Item, int] | None = None
    seeded: bool = False

    @property
    def released(self) -> bool:
        """Whether a set went out."""
        return self.items is not None

    @property
    def outcome(self) -> Hashable:
        """Everything that became public, as a key of the mechanism's law."""
        return self.items if isinstance(self.items, tuple) else (self.k, self.items)

    def listed(self) -> list[Item] | None:
        """Return the items in an order that does not depend on the data, or as released if they are ordered."""
        if self.items is None or isinstance(self.items, tuple):
            return None if self.items is None else list(self.items)
        return sorted(self.items, key=lambda item: (type(item).__name__, item))

    @property
    def guarantee(self) -> str:
        """One sentence: epsilon, delta, releases, adjacency; the worst case, never a refund."""
        if self.budget is None:
            delta = max(_STATED_DELTA, 2 * self.cost.delta)
            epsilon, releases = self.cost.epsilon(delta), 1
        else:
            epsilon, delta, releases = self.budget.epsilon, self.budget.delta, self.budget.releases
        span = "this one release" if releases == 1 else f"all {releases} releases of this kind together"
        parameters = ", ".join(f"{k} = {v}" for k, v in self.mechanism.items() if k in ("max_k", "k"))
        sentence = (
            f"({epsilon:.4g}, {delta:.3g})-DP for {self.cost.adjacency.protects}; covers {span}, "
            f"whatever the outcome; {self.mechanism['name']} with {parameters}."
        )
        return sentence + (" Drawn with a seeded generator: a simulation, not a release." if self.seeded else "")
