r"""The whole vector of majorities as it is, when no single ballot could have changed it; otherwise nothing.

How sure the teachers are of one label is the number of ballots that must change before its majority flips.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from cutline.arrays import Int8Array, IntArray
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.base import Parameter
from cutline.pate.aggregators.base import Aggregator, Panel, Votes
from cutline.pate.aggregators.calibration import stability_table
from cutline.pate.labels import MISSING, LabelLaw
from cutline.privacy import BitTable, Budget, Cost, Filter
from cutline.sampling import Source, bernoulli


@dataclass(frozen=True, slots=True, kw_only=True)
class StableMajority(Aggregator):
    r"""All majorities of a query without noise, or a withheld query.

    **Privacy.** With m_i the ballots that must change before label i's majority flips, ``d = min_i m_i - 1`` moves by at most 1
    and is 0 on both sides wherever neighbours have different majorities. So one stability table pays for all labels, however
    many there are: delta-approximate at the table's curve, under both relations [docs/proofs/stable-majority.md].

    Parameters
    ----------
    table
        The stability table; its first value is delta. Calibration takes the table that is sure at the smallest distance.
    teachers, labels, adjacency, limit, budget
        See `Aggregator`.

    References
    ----------
    [DL09]; the table in docs/proofs/bit-table.md.

    Examples
    --------
    >>> vote = StableMajority.calibrate(Budget(epsilon=1.0, delta=1e-6), teachers=200, labels=3)
    >>> vote.release(np.array([[190, 14, 155]])).values.tolist()
    [[1, 0, 1]]
    """

    name: ClassVar[str] = "stable-majority"
    reference: ClassVar[str] = "DL09"
    cost_rule: ClassVar[str] = "one coin per query"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter(name="limit"),)

    table: BitTable

    def __post_init__(self) -> None:
        Aggregator.__post_init__(self)
        TableTest(table=self.table)  # refuses a table that does not start at 0

    @classmethod
    def spend(cls, budget: Budget, limits: Filter | None, panel: Panel, *, limit: int | None = None) -> Self:
        return cls(**panel, table=stability_table(budget, limits), limit=limit, budget=budget)

    @property
    def cost(self) -> Cost:
        """The cost of one query."""
        return TableTest(table=self.table).cost(self.adjacency)

    def draw(self, votes: Votes, source: Source) -> Int8Array:
        """Answer all labels of a query, or none."""
        counts = self.read_votes(votes)
        passed = bernoulli(self.table(self._distances(counts)), rng=source)
        return np.where(passed[:, None], majorities(counts, self.teachers), np.int8(MISSING))

    def law(self, votes: Votes) -> LabelLaw:
        """Return the exact law of one query."""
        counts = self.read_votes(votes, dimensions=1)
        passes = float(self.table(self._distances(counts)))
        return {tuple(majorities(counts, self.teachers).tolist()): passes, (None,) * self.labels: 1 - passes}

    def _distances(self, counts: IntArray) -> IntArray:
        distances: IntArray = confidences(counts, self.teachers).min(axis=-1) - 1
        return distances


def majorities(counts: IntArray, teachers: int) -> Int8Array:
    """Return 1 where more than half of the teachers said yes, and 0 elsewhere."""
    return np.greater(counts, teachers // 2).astype(np.int8)


def confidences(counts: IntArray, teachers: int) -> IntArray:
    r"""Return, for each count, how many ballots must change before the majority flips; at least 1.

    It moves by at most 1 when the count does, and where the majority differs between neighbours it is 1 on both sides
    [docs/proofs/stable-majority.md].

    Examples
    --------
    >>> confidences(np.array([0, 1, 2, 3, 4]), 4).tolist(), confidences(np.array([0, 1, 2, 3, 4, 5]), 5).tolist()
    ([3, 2, 1, 1, 2], [3, 2, 1, 1, 2, 3])
    """
    half = teachers // 2
    return np.where(counts > half, counts - half, half + 1 - counts)
