r"""One winner out of several after Gaussian noise: a class, or a whole set of labels."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from cutline.arrays import Int8Array, IntArray
from cutline.errors import ParameterError
from cutline.mechanisms.adaptive.noisy_max_laws import normal_law
from cutline.pate.aggregators.base import Votes, check_listable, check_public, labelled, plain
from cutline.pate.aggregators.gaussian_votes import vector_cost, vector_sigma
from cutline.pate.ballots import Ballots, check_powerset, count_powersets
from cutline.pate.labels import Labels
from cutline.pate.panel import Panel
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.privacy.curves.base import check_positive
from cutline.release import Law
from cutline.sampling import Source, resolve
from cutline.sampling.noise import NORMAL, noisy_argmax


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMaxVote(Panel):
    r"""A base: every teacher gives one vote to one of `width` choices, and the largest noisy count wins.

    Parameters
    ----------
    sigma
        Standard deviation of the noise on a count.
    teachers, labels, adjacency, limit, budget
        See `Panel`.
    """

    sigma: float

    def __post_init__(self) -> None:
        Panel.__post_init__(self)
        check_positive("sigma", self.sigma)

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        teachers: int,
        labels: int,
        adjacency: Adjacency = Adjacency.REPLACE,
        limits: Filter | None = None,
    ) -> Self:
        """Spend the whole budget on ``budget.releases`` queries: the least noise that Gaussian DP allows."""
        check_public(teachers, labels)
        adjacency = Adjacency(adjacency)
        sigma = vector_sigma(budget, limits, squared_sensitivity=adjacency.count_range, adjacency=adjacency)
        return cls(sigma=sigma, teachers=teachers, labels=labels, adjacency=adjacency, budget=budget)

    @property
    def cost(self) -> Cost:
        """The cost of one query: one vote moves one count by 1 when it comes or goes, two when it changes."""
        return vector_cost(self.sigma, self.adjacency.count_range, self.adjacency)

    @abstractmethod
    def rows(self, winners: IntArray) -> Int8Array:
        """Return the labels that each winner stands for."""

    def release(self, votes: Votes, *, rng: Source | None = None) -> Labels:
        """Answer a batch of queries; the argmax of continuous noise, drawn exactly."""
        source = resolve(rng)
        winners = noisy_argmax(self.counted(votes), scale=Fraction(self.sigma), noise=NORMAL, rng=source)
        return labelled(self, self.rows(winners), budget=self.budget, seeded=source.seeded)

    def law(self, votes: Votes) -> Law:
        """Return the law of one query by certified integration, to a relative 1e-12."""
        check_listable(self.width, self.labels)
        counts = self.counted(votes, dimensions=1)
        chances = normal_law((counts - counts.max()) / self.sigma)
        outcomes = map(tuple, self.rows(np.arange(self.width)).tolist())
        return dict(zip(outcomes, chances.tolist(), strict=True))

    def describe(self) -> dict[str, Any]:
        """Return name and public parameters as plain data."""
        return plain(self, sigma=self.sigma)


@dataclass(frozen=True, slots=True, kw_only=True)
class GNMax(NoisyMaxVote):
    r"""The one class with the most votes after Gaussian noise, for multi-class questions: every teacher votes for one class.

    **Privacy.** A vote that changes moves two counts by 1: squared sensitivity 2 and ``alpha / sigma^2`` under REPLACE;
    ``alpha / (2 sigma^2)`` under ADD_REMOVE [PSM18, Proposition 8; docs/proofs/noisy-max-votes.md]. The limit is always 1.

    References
    ----------
    [PSM18]; [SPEC] section 6.

    Examples
    --------
    >>> vote = GNMax.calibrate(Budget(epsilon=2.0, delta=1e-6, releases=10), teachers=200, labels=3)
    >>> f"{vote.sigma:.2f}", max(vote.law(np.array([150, 30, 20])).items(), key=lambda found: found[1])[0]
    ('9.97', (1, 0, 0))
    """

    name: ClassVar[str] = "gnmax"
    reference: ClassVar[str] = "PSM18"
    cost_rule: ClassVar[str] = "Gaussian vector of one vote"

    limit: int | None = 1

    def __post_init__(self) -> None:
        NoisyMaxVote.__post_init__(self)
        if self.limit != 1:
            raise ParameterError("gnmax takes one vote a teacher", f"limit={self.limit}", "Leave limit=1.")

    def rows(self, winners: IntArray) -> Int8Array:
        return np.equal(winners[:, None], np.arange(self.labels)).astype(np.int8)


@dataclass(frozen=True, slots=True, kw_only=True)
class PowersetVote(NoisyMaxVote):
    r"""The one *set* of labels with the most votes after Gaussian noise: every ballot is a vote for its set, out of 2^labels.

    Votes have 2^labels columns; make them with `tally`.

    **Privacy.** As `GNMax`, whatever the number of labels, as a ballot is one vote [DBM23; docs/proofs/noisy-max-votes.md].

    References
    ----------
    [DBM23]; [SPEC] section 6.
    """

    name: ClassVar[str] = "powerset-vote"
    reference: ClassVar[str] = "DBM23"
    cost_rule: ClassVar[str] = "Gaussian vector of one vote"

    def __post_init__(self) -> None:
        NoisyMaxVote.__post_init__(self)
        check_powerset(self.labels)

    @property
    def width(self) -> int:
        """One column for each set of labels; bit i of its number says whether label i is in it."""
        return 1 << self.labels

    def tally(self, ballots: Ballots, scores: npt.ArrayLike | None = None) -> IntArray:
        """Cut every ballot to the limit, if there is one, and count the sets."""
        return count_powersets(self.cut(ballots, scores))

    def rows(self, winners: IntArray) -> Int8Array:
        return (winners[:, None] >> np.arange(self.labels) & 1).astype(np.int8)
