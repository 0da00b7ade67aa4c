r"""Aggregators that toss one coin per label, with a bias read off that label's count."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from itertools import product

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.pate.aggregators.base import Votes, check_listable, checked_votes, labelled, moved_labels
from cutline.pate.labels import Labels
from cutline.pate.panel import Panel
from cutline.release import Law
from cutline.sampling import Source, resolve
from cutline.sampling.coins import Coins


@dataclass(frozen=True, slots=True, kw_only=True)
class CoinVote(Panel):
    """A base: subclasses give `coins`, `chances` and `cost`. Parameters as for `Panel`."""

    @property
    def moved(self) -> int:
        """How many counts of one query one person can move."""
        return moved_labels(self.labels, self.limit, self.adjacency)

    @abstractmethod
    def coins(self) -> Coins:
        """Return the coins of the counts 0..teachers."""

    @abstractmethod
    def chances(self, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities of yes and of no, each with full relative accuracy."""

    def release(self, votes: Votes, *, rng: Source | None = None) -> Labels:
        """Answer every label of a batch of queries."""
        source = resolve(rng)
        counts = checked_votes(votes, width=self.labels, teachers=self.teachers)  # coins clip as they look up
        values = self.coins().toss(counts, rng=source).view(np.int8)
        return labelled(self, values, budget=self.budget, seeded=source.seeded)

    def law(self, votes: Votes) -> Law:
        """Return the exact law of one query, a product of coins, to a relative 1e-12."""
        check_listable(1 << self.labels, self.labels)
        yes, no = self.chances(self.counted(votes, dimensions=1))
        coins = list(zip(no.tolist(), yes.tolist(), strict=True))
        return {
            row: math.prod(coin[bit] for coin, bit in zip(coins, row, strict=True))
            for row in product((0, 1), repeat=self.labels)
        }
