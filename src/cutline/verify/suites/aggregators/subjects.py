r"""Aggregators as the checker sees them, from ballots to labels; and those that are wrong on purpose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from cutline.pate.aggregators.base import Aggregator
from cutline.pate.aggregators.optimal_vote import OptimalVote
from cutline.pate.aggregators.stable_majority import StableMajority, confidences, majorities
from cutline.pate.aggregators.stable_sets import StableConfident
from cutline.pate.labels import LabelLaw
from cutline.privacy import Adjacency, BitTable, Cost

Ballots = Any  # an array (ballots, 1, labels), of the universe's making


@dataclass(frozen=True, slots=True, kw_only=True)
class OnBallots:
    """An aggregator on the ballots of one query: what one person changes is a ballot, so that is where neighbours are."""

    aggregator: Aggregator

    @property
    def cost(self) -> Cost:
        return self.aggregator.cost

    def law(self, ballots: Ballots, /) -> LabelLaw:
        return _law(self.aggregator, tuple(self.aggregator.tally(ballots)[0].tolist()))


@lru_cache(maxsize=1 << 13)
def _law(aggregator: Aggregator, votes: tuple[int, ...]) -> LabelLaw:
    """Return the law of counts; many ballot boxes have the same."""
    return aggregator.law(np.array(votes, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed(OnBallots):
    """An aggregator that claims its cost under another relation than it was made for: a negative control."""

    adjacency: Adjacency

    @property
    def cost(self) -> Cost:
        return Cost(adjacency=self.adjacency, uses=self.aggregator.cost.uses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charged(OnBallots):
    """An aggregator that charges another's cost: a negative control."""

    charge: Cost

    @property
    def cost(self) -> Cost:
        return self.charge


@dataclass(frozen=True, slots=True, kw_only=True)
class WanderingMiddle(OnBallots):
    """Asks for a majority of the ballots that came instead of the teachers: a ballot of zeros then moves every label.

    Each label still moves by one step only, so it is where the charge counts on labels that do not move, under a ballot
    limit, that this breaks the claim.
    """

    aggregator: OptimalVote

    def law(self, ballots: Ballots, /) -> LabelLaw:
        table, teachers = self.aggregator.table, self.aggregator.teachers
        shifted = BitTable(values=table.values, start=table.start + len(ballots) // 2 - teachers // 2)
        return replace(self.aggregator, table=shifted).law(self.aggregator.tally(ballots)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedVote(OnBallots):
    """Rounds the upper end of its table to exactly 1, and charges the table it was built from."""

    aggregator: OptimalVote | StableMajority
    near: float

    def law(self, ballots: Ballots, /) -> LabelLaw:
        table = self.aggregator.table
        values = np.asarray(table.values)
        rounded = np.where(values > 1 - self.near, 1.0, values)
        wrong = BitTable(values=tuple(rounded.tolist()), start=table.start)
        return replace(self.aggregator, table=wrong).law(self.aggregator.tally(ballots)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class CarelessMajority(OnBallots):
    """Takes the number of ballots until the majority flips for the distance, though one ballot fewer already may."""

    aggregator: StableMajority

    def law(self, ballots: Ballots, /) -> LabelLaw:
        counts = self.aggregator.tally(ballots)[0]
        teachers = self.aggregator.teachers
        passes = float(self.aggregator.table(confidences(counts, teachers).min()))
        return {tuple(majorities(counts, teachers).tolist()): passes, (None,) * len(counts): 1 - passes}


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWayConfident(StableConfident):
    """Takes confidences for counts, which all move one way under ADD_REMOVE; a ballot that joins moves confidences both."""

    @classmethod
    def constants(cls, adjacency: Adjacency) -> Adjacency:
        """Take the relation as it is."""
        return adjacency
