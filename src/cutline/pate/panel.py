r"""The public shape of a vote: who votes, on how many labels, for whose protection. Every aggregator is built on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray
from cutline.pate.aggregators.base import Votes, check_ballots_fit, check_public, checked_votes, plain
from cutline.pate.ballots import Ballots, count_ballots, limit_ballots
from cutline.privacy import Adjacency, Budget, Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel(ABC):
    r"""A base of public parameters; subclasses add their own, and `cost`, `release`, `law` and `calibrate`.

    Parameters
    ----------
    teachers
        How many teachers there are, voting or not; the middle is half of it, never half of the ballots that came.
    labels
        How many labels a query has.
    adjacency
        Who is protected.
    limit
        The most labels a ballot may give, or None. `tally` cuts ballots to it; a caller who counts elsewhere must too.
    budget
        What the aggregator was calibrated for, if it was.
    """

    name: ClassVar[str]
    reference: ClassVar[str]
    cost_rule: ClassVar[str]

    teachers: int
    labels: int
    adjacency: Adjacency = Adjacency.REPLACE
    limit: int | None = None
    budget: Budget | None = None

    def __post_init__(self) -> None:
        check_public(self.teachers, self.labels, self.limit)
        # A narrow whole number wraps around in sums: what a limit of np.uint8(128) costs would come out as nothing.
        for field in ("teachers", "labels", "limit"):
            value = getattr(self, field)
            object.__setattr__(self, field, value if value is None else int(value))
        object.__setattr__(self, "adjacency", Adjacency(self.adjacency))

    @property
    def width(self) -> int:
        """One column for each label."""
        return self.labels

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """The cost of one query."""

    def tally(self, ballots: Ballots, scores: npt.ArrayLike | None = None) -> IntArray:
        """Cut every ballot to the limit and count."""
        return count_ballots(self.cut(ballots, scores))

    def cut(self, ballots: Ballots, scores: npt.ArrayLike | None) -> Ballots:
        """Cut every ballot to the limit."""
        check_ballots_fit(ballots, teachers=self.teachers, labels=self.labels)
        return ballots if self.limit is None else limit_ballots(ballots, scores, self.limit)

    def counted(self, votes: Votes, *, dimensions: int = 2) -> IntArray:
        """Return the votes as possible counts: integers from 0 to the number of teachers."""
        array = checked_votes(votes, width=self.width, teachers=self.teachers, dimensions=dimensions)
        return np.clip(array, 0, self.teachers)

    def describe(self) -> dict[str, Any]:
        """Return name and public parameters as plain data."""
        return plain(self)
