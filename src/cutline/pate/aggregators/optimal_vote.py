r"""Every label by the best coin there is for its count; the default."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.pate.aggregators.base import check_public, moved_labels
from cutline.pate.aggregators.calibration import voting_table
from cutline.pate.aggregators.coin_votes import CoinVote
from cutline.pate.panel import Panel
from cutline.privacy import Adjacency, BitTable, Budget, Cost, Filter
from cutline.sampling.coins import Coins


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimalVote(CoinVote):
    r"""All labels of every query, each drawn from the voting table at its number of votes.

    **Privacy.** One person moves each count by at most 1, so a label costs the table's own curve; ``moved`` labels of a query
    can move at all: all of them, or ``min(labels, 2 limit)`` under REPLACE and ``min(labels, limit)`` under ADD_REMOVE where
    ballots are limited. No delta [docs/proofs/optimal-vote.md].

    Parameters
    ----------
    table
        The coin's bias at each number of votes.
    teachers, labels, adjacency, limit, budget
        See `Panel`.

    References
    ----------
    [SPEC] sections 4 and 6.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> vote = OptimalVote.calibrate(Budget(epsilon=2.0, delta=1e-6, releases=10), teachers=200, labels=3)
    >>> labels = vote.release(np.array([[190, 14, 105]] * 10), rng=SeededSource(1))
    >>> labels.values[:, :2].mean(axis=0).tolist()
    [1.0, 0.0]
    >>> labels.guarantee.split("; ")[:2]
    ["(2, 1e-06)-DP for one teacher's whole ballot changing", 'covers these 10 queries together, whatever the labels']
    """

    name: ClassVar[str] = "optimal-vote"
    reference: ClassVar[str] = "ZW22"
    cost_rule: ClassVar[str] = "one coin per label that can move"

    table: BitTable

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
        r"""Spend the whole budget on ``budget.releases`` queries.

        The table's Rényi order minimises the margin of votes at which a label comes out right with probability 0.95.
        """
        check_public(teachers, labels, limit)
        adjacency = Adjacency(adjacency)
        coins = moved_labels(labels, limit, adjacency)
        table = voting_table(budget, limits, coins=coins, teachers=int(teachers))
        return cls(table=table, teachers=teachers, labels=labels, adjacency=adjacency, limit=limit, budget=budget)

    def __post_init__(self) -> None:
        Panel.__post_init__(self)
        if not isinstance(self.table, BitTable):
            raise ParameterError("table must be a bit table", type(self.table).__name__, "Use BitTable.voting.")

    @property
    def cost(self) -> Cost:
        """The cost of one query."""
        return self.moved * Cost.of(self.table, adjacency=self.adjacency)

    def coins(self) -> Coins:
        return _coins(self.table, self.teachers)

    def chances(self, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        yes = self.table(counts)
        return yes, 1 - yes  # exact in floats where it matters: the law's tails are multiples of 2^-53


@lru_cache(maxsize=64)
def _coins(table: BitTable, teachers: int) -> Coins:
    return Coins.of_floats(table(np.arange(teachers + 1)))
