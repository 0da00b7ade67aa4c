r"""Everything that becomes public about a batch of queries put to the teachers, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from cutline.arrays import Int8Array
from cutline.privacy import Adjacency, Budget, Cost
from cutline.release import digits_up

LabelRow: TypeAlias = tuple[int | None, ...]  # the labels of one query: 1, 0, or None where none was given
LabelLaw: TypeAlias = Mapping[LabelRow, float]

MISSING = -1
_PROTECTS = {
    Adjacency.ADD_REMOVE: "one teacher's ballot being there or not",
    Adjacency.REPLACE: "one teacher's whole ballot changing",
}
_STATED_DELTA = 1e-6  # of the sentence, when no budget says otherwise


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labels:
    r"""The released labels of a batch: 1, 0, or -1 where the aggregator did not answer.

    Parameters
    ----------
    values
        Shape (queries, labels); a withheld query is a row of -1.
    cost
        Of the whole batch: withheld queries are charged like the others.
    mechanism
        Name and public parameters of the aggregator, as plain data.
    budget
        What the aggregator was calibrated for, if it was.
    seeded
        True if the draws came from a seeded generator: a simulation, not a release.
    """

    values: Int8Array
    cost: Cost
    mechanism: Mapping[str, Any]
    budget: Budget | None = None
    seeded: bool = False

    @property
    def queries(self) -> int:
        """How many queries were put."""
        return len(self.values)

    @property
    def answered(self) -> int:
        """How many queries have all their labels."""
        return int((self.values != MISSING).all(axis=1).sum())

    @property
    def withheld(self) -> int:
        """How many queries have no label at all."""
        return int((self.values == MISSING).all(axis=1).sum())

    @property
    def partial(self) -> int:
        """How many queries have some of their labels."""
        return self.queries - self.answered - self.withheld

    @property
    def outcomes(self) -> list[LabelRow]:
        """The rows as keys of the aggregator's law."""
        return label_rows(self.values)

    @property
    def guarantee(self) -> str:
        """One sentence: epsilon, delta, queries, adjacency; the same whatever the labels."""
        epsilon, delta = self.stated()
        span = "this one query" if self.queries == 1 else f"these {self.queries} queries together"
        shape = f"{self.mechanism['teachers']} teachers, {self.mechanism['labels']} labels"
        sentence = (
            f"({digits_up(epsilon, 4)}, {digits_up(delta, 3)})-DP for {_PROTECTS[self.cost.adjacency]}; covers {span}, "
            f"whatever the labels; {self.mechanism['name']} with {shape}."
        )
        return sentence + (" Drawn with a seeded generator: a simulation, not a release." if self.seeded else "")

    def stated(self) -> tuple[float, float]:
        """Return the budget if the batch fits it; otherwise the batch's own cost speaks."""
        if self.budget is not None and self.queries <= self.budget.releases:
            total = Budget(epsilon=self.budget.epsilon, delta=self.budget.delta)
            if total.fits(self.cost):
                return total.epsilon, total.delta
        delta = self.budget.delta if self.budget is not None else _STATED_DELTA
        delta = delta if 2 * self.cost.delta < delta else min(2 * self.cost.delta, (1 + self.cost.delta) / 2)
        # Deltas that add up to 1 promise nothing; the sentence must say that rather than fail after the release.
        return (self.cost.epsilon(delta), delta) if delta < 1 else (math.inf, 1.0)


def label_rows(values: Int8Array) -> list[LabelRow]:
    """Return the rows of (queries, labels) values as outcomes of a law."""
    return [tuple(None if value == MISSING else value for value in row) for row in values.tolist()]
