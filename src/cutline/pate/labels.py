r"""Everything that becomes public about a batch of queries put to the teachers: labels, cost, and what is promised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from cutline.arrays import Int8Array
from cutline.outcome import Status
from cutline.privacy import Adjacency, Budget, Cost
from cutline.release import Paid, describe_cost
from cutline.rounding import digits_up

LabelRow: TypeAlias = tuple[int | None, ...]  # the labels of one query: 1, 0, or None where it was not answered
LabelLaw: TypeAlias = Mapping[LabelRow, float]
Unit = Literal["record", "group"]

MISSING = -1
_PROTECTS = {
    Adjacency.ADD_REMOVE: "one teacher's ballot being there or not",
    Adjacency.REPLACE: "one teacher's whole ballot changing",
}
_STATED_DELTA = 1e-6  # of the sentence, when no budget says otherwise


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labels(Paid):
    r"""The released labels of a batch: 1, 0, or -1 where the aggregator did not answer.

    Parameters
    ----------
    values
        Shape (queries, labels); a withheld query is a row of -1.
    cost
        Of the whole batch: withheld queries are charged like the others, unless the aggregator stops early for them.
    reserved
        What the batch could have cost at most, if that is more; the guarantee speaks of it.
    mechanism
        Name and public parameters of the aggregator, as plain data.
    budget
        What the aggregator was calibrated for, if it was.
    seeded
        True if the draws came from a seeded generator: a simulation, not a release.
    account, entry, repeated_from
        Who paid, if anybody: see `cutline.release.Paid`.
    """

    values: Int8Array
    cost: Cost
    mechanism: Mapping[str, Any]
    budget: Budget | None = None
    seeded: bool = False
    reserved: Cost | None = None

    def __post_init__(self) -> None:
        if self.reserved == self.cost:
            object.__setattr__(self, "reserved", None)

    def to_record(self) -> dict[str, Any]:
        """Return everything but the payment as plain data that `from_record` reads back equal."""
        return {
            "kind": "labels",
            "values": self.values.tolist(),
            "cost": self.cost.to_dict(),
            "mechanism": dict(self.mechanism),
            "budget": None if self.budget is None else asdict(self.budget),
            "seeded": self.seeded,
            **({} if self.reserved is None else {"reserved": self.reserved.to_dict()}),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read labels back from their record."""
        return cls(
            values=np.array(record["values"], dtype=np.int8),
            cost=Cost.from_dict(record["cost"]),
            mechanism=record["mechanism"],
            budget=None if record["budget"] is None else Budget(**record["budget"]),
            seeded=record["seeded"],
            reserved=Cost.from_dict(record["reserved"]) if "reserved" in record else None,
        )

    @property
    def worst(self) -> Cost:
        """What the batch could have cost at most."""
        return self.reserved or self.cost

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
    def status(self) -> Status:
        """Released if every query has all its labels, withheld if none has any; otherwise partial."""
        if self.answered == self.queries:
            return Status.RELEASED
        return Status.WITHHELD if self.withheld == self.queries else Status.PARTIAL

    @property
    def outcomes(self) -> list[LabelRow]:
        """The rows as keys of the aggregator's law."""
        return label_rows(self.values)

    @property
    def guarantee(self) -> str:
        """One sentence: epsilon, delta, queries, adjacency; the same whatever the labels."""
        return state_label_guarantee(
            self.mechanism, cost=self.worst, budget=self.budget, queries=self.queries, seeded=self.seeded
        )

    def stated(self) -> tuple[float, float]:
        """Return the epsilon and delta of the guarantee."""
        return stated_epsilon_delta(self.worst, budget=self.budget, queries=self.queries)

    def to_dict(self, *, full: bool = False) -> dict[str, Any]:
        """Return everything as plain data for JSON: the cost in a few values, or in full as `Cost.to_dict` writes it."""
        _, delta = self.stated()
        # Deltas that add up to 1 leave no delta to convert to: at any other, the summary says that there is no epsilon.
        delta = delta if delta < 1 else _STATED_DELTA
        return {
            "status": str(self.status),
            "queries": self.queries,
            "answered": self.answered,
            "withheld": self.withheld,
            "partly": self.partial,
            "labels": [list(row) for row in self.outcomes],
            **describe_cost(self.mechanism, cost=self.cost, budget=self.budget, delta=delta, full=full),
            "guarantee": self.guarantee,
            "seeded": self.seeded,
            **self.describe_payment(),
        }


def mark_classes(winners: npt.NDArray[Any], labels: int) -> Int8Array:
    r"""Return rows with a 1 for the class that won and 0 elsewhere.

    Examples
    --------
    >>> mark_classes(np.array([2, 0]), 3).tolist()
    [[0, 0, 1], [1, 0, 0]]
    """
    marked: Int8Array = np.equal(winners[:, None], np.arange(labels)).astype(
        np.int8
    )  # a winner that is no class marks none
    return marked


def label_rows(values: Int8Array) -> list[LabelRow]:
    """Return the rows of (queries, labels) values as outcomes of an aggregator's law."""
    return [tuple(None if value == MISSING else value for value in row) for row in values.tolist()]


def state_label_guarantee(
    mechanism: Mapping[str, Any], *, cost: Cost, budget: Budget | None, queries: int, seeded: bool
) -> str:
    """Return the sentence that comes with the labels of ``queries`` queries; it can be said before any vote is read."""
    epsilon, delta = stated_epsilon_delta(cost, budget=budget, queries=queries)
    span = "this one query" if queries == 1 else f"these {queries} queries together"
    sentence = (
        f"{_in_words(epsilon, delta)} for {_PROTECTS[cost.adjacency]}; covers {span}, "
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """How many public examples got all their labels, none of them, or some."""

    answered: int
    withheld: int
    partly: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    r"""The guarantee of a fitted `PATEClassifier`, for everything that leaves: labels, student, predictions.

    An aggregator promises something about *ballots*. People are in *records*. Between the two stands the partition, and the
    sentence here says what it does: see `cutline.pate.partition`.

    Parameters
    ----------
    epsilon, delta
        For one ballot's change in the sense of ``adjacency``.
    adjacency
        ``replace``: one ballot changes arbitrarily, which is what a record does. ``add-remove``: one ballot is there
        or not (as the paper has it), which no record does alone.
    unit
        ``record`` if a record's features chose its teacher, ``group`` if a person's id did.
    queries
        How many public examples were labelled.
    guarantee
        The aggregator's own sentence, about ballots.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: Unit
    queries: int
    guarantee: str

    @property
    def sentence(self) -> str:
        """The guarantee in the words of records."""
        one, two = _in_words(self.epsilon, self.delta), _in_words(*two_steps(self.epsilon, self.delta))
        if self.adjacency is Adjacency.ADD_REMOVE:
            whose = "all records of one id" if self.unit == "group" else "one record joining or leaving"
            return (
                f"{one} for one teacher's ballot being there or not, as in the paper; {whose} can change a ballot "
                f"arbitrarily, which counts as two such steps: {two}. {self.guarantee}"
            )
        if self.unit == "group":
            return (
                f"{one} for all records of one id joining, leaving or changing while the id stays, which changes one "
                f"teacher's ballot. {self.guarantee}"
            )
        return (
            f"{one} for one record joining or leaving, or its labels changing, which changes one teacher's ballot; {two} for "
            f"one record replaced by another, which can change two. {self.guarantee}"
        )

    def __str__(self) -> str:
        return self.sentence


def state_privacy(labels: Labels, *, unit: Unit) -> Privacy:
    """Put the guarantee of released labels into the words of records."""
    epsilon, delta = labels.stated()
    return Privacy(
        epsilon=epsilon,
        delta=delta,
        adjacency=labels.cost.adjacency,
        unit=unit,
        queries=labels.queries,
        guarantee=labels.guarantee,
    )


def two_steps(epsilon: float, delta: float) -> tuple[float, float]:
    r"""Return the group privacy of two: if one step is (epsilon, delta)-DP, two are (2 epsilon, (1 + e^epsilon) delta)-DP.

    Examples
    --------
    >>> two_steps(1.0, 1e-6)
    (2.0, 3.718281828459058e-06)
    """
    return 2 * epsilon, min(1.0, (1 + math.exp(min(epsilon, 700.0))) * delta * (1 + 2**-48))


def _in_words(epsilon: float, delta: float) -> str:
    return f"({digits_up(epsilon, 4)}, {digits_up(delta, 3)})-DP"
