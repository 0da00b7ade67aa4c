r"""The whole vector of majorities as it is, when no single ballot could have changed it; otherwise nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from cutline.arrays import IntArray
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.pate.aggregators.base import Votes, check_public, labelled
from cutline.pate.aggregators.calibration import stability_table
from cutline.pate.aggregators.confidence import confidences, majorities
from cutline.pate.labels import MISSING, Labels
from cutline.pate.panel import Panel
from cutline.privacy import Adjacency, BitTable, Budget, Cost, Filter
from cutline.release import Law
from cutline.sampling import Source, bernoulli, resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class StableMajority(Panel):
    r"""All majorities of a query without noise, or a withheld query.

    **Privacy.** With m_i the ballots that must change before label i's majority flips, ``d = min_i m_i - 1`` moves by at most 1
    and is 0 on both sides wherever neighbours have different majorities. So one stability table pays for all labels, however
    many there are: delta-approximate at the table's curve, under both relations [docs/proofs/stable-majority.md].

    Parameters
    ----------
    table
        The stability table; its first value is delta.
    teachers, labels, adjacency, limit, budget
        See `Panel`.

    References
    ----------
    [SPEC] sections 4 and 6.

    Examples
    --------
    >>> vote = StableMajority.calibrate(Budget(epsilon=1.0, delta=1e-6), teachers=200, labels=3)
    >>> vote.release(np.array([[190, 14, 155]])).values.tolist()
    [[1, 0, 1]]
    """

    name: ClassVar[str] = "stable-majority"
    reference: ClassVar[str] = "DL09"
    cost_rule: ClassVar[str] = "one coin per query"

    table: BitTable

    def __post_init__(self) -> None:
        Panel.__post_init__(self)
        TableTest(table=self.table)  # refuses a table that does not start at 0

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        teachers: int,
        labels: int,
        adjacency: Adjacency = Adjacency.REPLACE,
        limits: Filter | None = None,
        limit: int | None = None,
    ) -> Self:
        """Spend the whole budget on ``budget.releases`` queries: the table that is sure at the smallest distance."""
        check_public(teachers, labels, limit)
        adjacency = Adjacency(adjacency)
        table = stability_table(budget, limits)
        return cls(table=table, teachers=teachers, labels=labels, adjacency=adjacency, limit=limit, budget=budget)

    @property
    def cost(self) -> Cost:
        """The cost of one query."""
        return TableTest(table=self.table).cost(self.adjacency)

    def release(self, votes: Votes, *, rng: Source | None = None) -> Labels:
        """Answer a batch of queries."""
        source = resolve(rng)
        counts = self.counted(votes)
        passed = bernoulli(self.table(self._distances(counts)), rng=source)
        values = np.where(passed[:, None], majorities(counts, self.teachers), np.int8(MISSING))
        return labelled(self, values, budget=self.budget, seeded=source.seeded)

    def law(self, votes: Votes) -> Law:
        """Return the exact law of one query."""
        counts = self.counted(votes, dimensions=1)
        passes = float(self.table(self._distances(counts)))
        return {tuple(majorities(counts, self.teachers).tolist()): passes, (None,) * self.labels: 1 - passes}

    def _distances(self, counts: IntArray) -> IntArray:
        distances: IntArray = confidences(counts, self.teachers).min(axis=-1) - 1
        return distances
