r"""One class by one draw: every class weighs what the best table says at its number of votes. The default for classes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from cutline.arrays import Int8Array, IntArray
from cutline.errors import ParameterError
from cutline.pate.aggregators.base import Aggregator, Panel, Votes, check_one_vote
from cutline.pate.aggregators.calibration import class_table
from cutline.pate.labels import LabelLaw, LabelRow, mark_classes
from cutline.privacy import Budget, Cost, Filter
from cutline.privacy.curves.class_table import ClassTable
from cutline.sampling import Source, Weights, categorical


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassVote(Aggregator):
    r"""One class for every query, drawn with probability proportional to the weight of its number of votes.

    Every teacher votes for one class. With weights that grow exponentially this is the exponential mechanism; the table is
    steeper wherever a single vote cannot be seen, that is for classes with few votes and for clear winners.

    **Privacy.** One vote moves the weights of at most two classes. The exact Rényi divergence is that of three outcomes, these
    two classes and the rest, and is charged at its maximum over all numbers of votes. No delta [docs/proofs/class-vote.md]. The
    limit is always 1. Votes that are more than the teachers are no votes of theirs: such a query is read as one without votes.

    Parameters
    ----------
    table
        The weights. Calibration takes the Rényi order of the best voting table. The other parameters are those of `Aggregator`.

    Examples
    --------
    >>> vote = ClassVote.calibrate(Budget(epsilon=2.0, delta=1e-6, releases=10), teachers=200, labels=3)
    >>> winner, chance = max(vote.law(np.array([85, 65, 50])).items(), key=lambda found: found[1])
    >>> winner, f"{chance:.2f}"
    ((1, 0, 0), '0.94')
    """

    name: ClassVar[str] = "class-vote"
    reference: ClassVar[str] = "MT07"
    cost_rule: ClassVar[str] = "one draw per query"
    one_class: ClassVar[bool] = True

    limit: int | None = 1
    table: ClassTable

    def __post_init__(self) -> None:
        Aggregator.__post_init__(self)
        check_one_vote(self)
        made_for = (len(self.table.weights) - 1, self.table.classes, self.table.moved)
        if made_for != (self.teachers, self.labels, self.adjacency.count_range):
            raise ParameterError(
                "a table of classes must be made for these teachers, classes and this relation",
                f"{made_for[0]} votes, {made_for[1]} classes, {made_for[2]} moved",
                "Build it anew.",
            )

    @classmethod
    def spend(cls, budget: Budget, limits: Filter | None, panel: Panel) -> Self:
        check_classes(panel["labels"])
        table = class_table(
            budget,
            limits,
            classes=panel["labels"],
            votes=panel["teachers"],
            moved=panel["adjacency"].count_range,
        )
        return cls(**panel, table=table, budget=budget)

    @property
    def cost(self) -> Cost:
        return Cost.of(self.table, adjacency=self.adjacency)

    def draw(self, votes: Votes, source: Source) -> Int8Array:
        """Answer every query by one exact draw."""
        weights = self.weigh(self.read_votes(votes))
        zeros = np.zeros(weights.shape, dtype=np.int64)
        winners = categorical(Weights(scores=zeros, rate=Fraction(0), multiplicities=weights), rng=source)
        return mark_classes(winners, self.labels)

    def law(self, votes: Votes) -> LabelLaw:
        self.check_law_size(self.labels)
        weights = [int(weight) for weight in self.weigh(self.read_votes(votes, dimensions=1))]
        rows: list[LabelRow] = [tuple(row) for row in mark_classes(np.arange(self.labels), self.labels).tolist()]
        return {row: weight / sum(weights) for row, weight in zip(rows, weights, strict=True)}

    def weigh(self, counts: IntArray) -> npt.NDArray[Any]:
        """Return the weight of every class; the cost counts on no more votes than there are teachers."""
        possible = counts.sum(axis=-1, keepdims=True) <= self.teachers
        return self.table(np.where(possible, counts, 0))


def check_classes(classes: int) -> None:
    """Raise if there is nothing to choose from."""
    if classes < 2:
        raise ParameterError("a class is one of at least two", f"labels={classes}", "One label is for optimal-vote.")
