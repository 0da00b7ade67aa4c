r"""Every label by one coin, whose bias is read off that label's count; with the best coins there are, this is the default."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import ClassVar, Self

import numpy as np

from cutline.arrays import FloatArray, Int8Array, IntArray
from cutline.errors import ParameterError
from cutline.mechanisms.base import Parameter
from cutline.mechanisms.planned import check_accounting
from cutline.pate.aggregators.base import Aggregator, Panel, Votes, double_quorum, moved_labels
from cutline.pate.aggregators.calibration import planned_voting_table, voting_table
from cutline.pate.labels import LabelLaw
from cutline.privacy import BitTable, Budget, Cost, Filter
from cutline.sampling import Source
from cutline.sampling.coins import Coins


@dataclass(frozen=True, slots=True, kw_only=True)
class CoinVote(Aggregator):
    """A base for aggregators that toss one coin per label; subclasses say which coins, and what they cost."""

    @abstractmethod
    def coins(self) -> Coins:
        """Return the coins of the counts 0..teachers."""

    @abstractmethod
    def chances(self, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities of yes and of no, each with full relative accuracy."""

    def draw(self, votes: Votes, source: Source) -> Int8Array:
        """Answer every label of a batch of queries."""
        # Coins clip counts as they look them up: to clip a large batch here as well would take longer than the tosses.
        return self.coins().toss(self.check_votes(votes), rng=source).view(np.int8)

    def law(self, votes: Votes) -> LabelLaw:
        """Return the exact law of one query, a product of coins, to a relative 1e-12."""
        self.check_law_size(1 << self.labels)
        yes, no = self.chances(self.read_votes(votes, dimensions=1))
        coins = list(zip(no.tolist(), yes.tolist(), strict=True))
        return {
            row: math.prod(coin[bit] for coin, bit in zip(coins, row, strict=True))
            for row in product((0, 1), repeat=self.labels)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimalVote(CoinVote):
    r"""All labels of every query, each drawn from the voting table at its number of votes.

    **Privacy.** One person moves each count by at most 1, so a label costs the table's own curve; ``moved`` labels of a query
    can move at all: all of them, or ``min(labels, 2 limit)`` under REPLACE and ``min(labels, limit)`` under ADD_REMOVE where
    ballots are limited. No delta. The middle of the table is the quorum, which is public; where it lies changes nothing
    [ZW22; docs/proofs/optimal-vote.md].

    Parameters
    ----------
    table
        The coin's bias at each number of votes [docs/proofs/bit-table.md]. Calibration takes the Rényi order that
        minimises the margin of votes at which a label comes out right with probability 0.95; with
        ``accounting="adaptive"`` it spends the budget of a fixed number of queries by the rule of that name, which buys more
        and takes longer. The other parameters are those of `Aggregator`.

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
    parameters: ClassVar[tuple[Parameter, ...]] = tuple(
        Parameter(name=name) for name in ("limit", "quorum", "accounting")
    )

    table: BitTable

    @classmethod
    def spend(
        cls,
        budget: Budget,
        limits: Filter | None,
        panel: Panel,
        *,
        limit: int | None = None,
        quorum: float = 0.5,
        accounting: str = "renyi",
    ) -> Self:
        coins = moved_labels(panel["labels"], limit, panel["adjacency"])
        agreeing, phantoms = phantom_teachers(panel["teachers"], quorum)
        if check_accounting(accounting, limits):
            table = planned_voting_table(budget, coins=coins, teachers=agreeing)
        else:
            table = voting_table(budget, limits, coins=coins, teachers=agreeing)
        table = BitTable(values=table.values, start=table.start - phantoms)
        return cls(**panel, table=table, limit=limit, quorum=quorum, budget=budget)

    def __post_init__(self) -> None:
        Aggregator.__post_init__(self)
        if not isinstance(self.table, BitTable):
            raise ParameterError("table must be a bit table", type(self.table).__name__, "Use BitTable.voting.")

    @property
    def cost(self) -> Cost:
        return self.moved * Cost.of(self.table, adjacency=self.adjacency)

    def coins(self) -> Coins:
        return _table_coins(self.table, self.teachers)

    def chances(self, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        yes = self.table(counts)
        return yes, 1 - yes  # exact in floats where it matters: the law's tails are multiples of 2^-53


def phantom_teachers(teachers: int, quorum: float) -> tuple[int, int]:
    r"""Return a number of teachers whose half is the quorum, and how many of them are made up and say yes to everything.

    Made-up teachers are public and nobody's, so they change no guarantee: below one half they say yes, above it they say no.
    The voting table of all of them, read without the ones who say yes, has the quorum in its middle.

    Examples
    --------
    >>> phantom_teachers(300, 0.5), phantom_teachers(300, 0.25), phantom_teachers(300, 0.75)
    ((300, 0), (450, 150), (450, 0))
    """
    doubled = double_quorum(teachers, quorum)
    return (2 * teachers - doubled, teachers - doubled) if doubled < teachers else (doubled, 0)


@lru_cache(maxsize=64)
def _table_coins(table: BitTable, teachers: int) -> Coins:
    return Coins.of_floats(table(np.arange(teachers + 1)))
