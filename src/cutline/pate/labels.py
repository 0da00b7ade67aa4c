r"""Everything that becomes public about a batch of queries put to the teachers, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

from cutline.arrays import Int8Array
from cutline.privacy import Adjacency, Budget, Cost
from cutline.release import describe_terms, digits_up
from cutline.version import __version__

LabelRow: TypeAlias = tuple[int | None, ...]  # the labels of one query: 1, 0, or None where it was not answered
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
    account
        The account that paid, as it was afterwards, as plain data; None without a ledger.
    """

    values: Int8Array
    cost: Cost
    mechanism: Mapping[str, Any]
    budget: Budget | None = None
    seeded: bool = False
    account: Mapping[str, Any] | None = None

    def with_account(self, account: Mapping[str, Any]) -> Self:
        """Return the same labels together with the account that paid for them, as it is afterwards."""
        return replace(self, account=account)

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
        return state_label_guarantee(
            self.mechanism, cost=self.cost, budget=self.budget, queries=self.queries, seeded=self.seeded
        )

    def stated(self) -> tuple[float, float]:
        """Return the epsilon and delta of the guarantee."""
        return stated_epsilon_delta(self.cost, budget=self.budget, queries=self.queries)

    def to_dict(self, *, full: bool = False) -> dict[str, Any]:
        """Return everything as plain data for JSON: the cost in a few values, or in full as `Cost.to_dict` writes it."""
        _, delta = self.stated()
        # Deltas that add up to 1 leave no delta to convert to: at any other, the summary says that there is no epsilon.
        delta = delta if delta < 1 else _STATED_DELTA
        return {
            "queries": self.queries,
            "answered": self.answered,
            "withheld": self.withheld,
            "partly": self.partial,
            "labels": [list(row) for row in self.outcomes],
            **describe_terms(self.mechanism, cost=self.cost, budget=self.budget, delta=delta, full=full),
            "guarantee": self.guarantee,
            "seeded": self.seeded,
            "ledger": self.account,
            "version": __version__,
        }


def label_rows(values: Int8Array) -> list[LabelRow]:
    """Return the rows of (queries, labels) values as outcomes of an aggregator's law."""
    return [tuple(None if value == MISSING else value for value in row) for row in values.tolist()]


def state_label_guarantee(
    mechanism: Mapping[str, Any], *, cost: Cost, budget: Budget | None, queries: int, seeded: bool
) -> str:
    """Return the sentence that comes with the labels of ``queries`` queries; it can be said before any vote is read."""
    epsilon, delta = stated_epsilon_delta(cost, budget=budget, queries=queries)
    span = "this one query" if queries == 1 else f"these {queries} queries together"
    if budget is not None and budget.releases > queries and (epsilon, delta) == (budget.epsilon, budget.delta):
        span = f"{budget.releases} queries of this kind together, these {queries} among them"
    sentence = (
        f"({digits_up(epsilon, 4)}, {digits_up(delta, 3)})-DP for {_PROTECTS[cost.adjacency]}; covers {span}, "
        f"whatever the labels; {mechanism['name']} with {mechanism['teachers']} teachers, {mechanism['labels']} labels."
    )
    return sentence + (" Drawn with a seeded generator: a simulation, not a release." if seeded else "")


def stated_epsilon_delta(cost: Cost, *, budget: Budget | None, queries: int) -> tuple[float, float]:
    """Return the budget if the cost of the whole batch fits it; otherwise epsilon and delta of that cost itself."""
    if budget is not None and queries <= budget.releases:
        total = Budget(epsilon=budget.epsilon, delta=budget.delta)
        if total.fits(cost):
            return total.epsilon, total.delta
    delta = budget.delta if budget is not None else _STATED_DELTA
    delta = delta if 2 * cost.delta < delta else min(2 * cost.delta, (1 + cost.delta) / 2)
    # Deltas that add up to 1 promise nothing; the sentence must say that rather than fail after the release.
    return (cost.epsilon(delta), delta) if delta < 1 else (math.inf, 1.0)
