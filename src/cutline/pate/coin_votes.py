r"""Aggregators that toss one coin per label, with a bias read off that label's count: their law, their draw, their shape."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from cutline.histogram import IntArray
from cutline.pate.aggregator import (
    Votes,
    check_ballots_fit,
    check_listable,
    check_public,
    checked_votes,
    labelled,
    moved_labels,
    plain,
)
from cutline.pate.ballots import Ballots, count_ballots, limit_ballots
from cutline.pate.labels import Labels
from cutline.privacy import Adjacency, Budget, Cost
from cutline.release import Law
from cutline.sampling import Source, resolve
from cutline.sampling.coins import Coins

FloatArray: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoinVote:
    r"""A base: subclasses give `coins`, `chances` and `cost`.

    Parameters
    ----------
    teachers
        How many teachers there are, voting or not; the middle is half of it, never half of the ballots that came.
    labels
        How many labels a query has.
    adjacency
        Who is protected.
    limit
        The most labels a ballot may give, or None.
    budget
        What the aggregator was calibrated for, if it was.
    """

    name: ClassVar[str]

    teachers: int
    labels: int
    adjacency: Adjacency = Adjacency.REPLACE
    limit: int | None = None
    budget: Budget | None = None

    def __post_init__(self) -> None:
        check_public(self.teachers, self.labels, self.limit)
        object.__setattr__(self, "adjacency", Adjacency(self.adjacency))

    @property
    def width(self) -> int:
        """One column for each label."""
        return self.labels

    @property
    def moved(self) -> int:
        """How many counts of one query one person can move."""
        return moved_labels(self.labels, self.limit, self.adjacency)

    @property
    def cost(self) -> Cost:
        """The cost of one query."""
        raise NotImplementedError

    def coins(self) -> Coins:
        """Return the coins of the counts 0..teachers."""
        raise NotImplementedError

    def chances(self, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities of yes and of no, each with full relative accuracy."""
        raise NotImplementedError

    def tally(self, ballots: Ballots, scores: npt.ArrayLike | None = None) -> IntArray:
        """Cut every ballot to the limit and count."""
        check_ballots_fit(ballots, teachers=self.teachers, labels=self.labels)
        return count_ballots(ballots if self.limit is None else limit_ballots(ballots, scores, self.limit))

    def release(self, votes: Votes, *, rng: Source | None = None) -> Labels:
        """Answer every label of a batch of queries."""
        source = resolve(rng)
        counts = checked_votes(votes, width=self.labels, teachers=self.teachers)
        values = self.coins().toss(counts, rng=source).view(np.int8)
        return labelled(self, values, budget=self.budget, seeded=source.seeded)

    def law(self, votes: Votes) -> Law:
        """Return the exact law of one query, a product of coins, to a relative 1e-12."""
        check_listable(1 << self.labels, self.labels)
        counts = checked_votes(votes, width=self.labels, teachers=self.teachers, dimensions=1)
        yes, no = self.chances(np.clip(counts, 0, self.teachers))
        coins = list(zip(no.tolist(), yes.tolist(), strict=True))
        return {
            row: math.prod(coin[bit] for coin, bit in zip(coins, row, strict=True))
            for row in product((0, 1), repeat=self.labels)
        }

    def describe(self) -> dict[str, Any]:
        """Return name and public parameters as plain data."""
        return plain(self)
