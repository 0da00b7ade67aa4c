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
from cutline.pate.aggregators.base import Aggregator, Panel, Votes
from cutline.pate.aggregators.gaussian_votes import vector_cost, vector_sigma
from cutline.pate.ballots import Ballots, check_powerset, count_powersets
from cutline.pate.labels import LabelLaw
from cutline.privacy import Budget, Cost, Filter
from cutline.privacy.curves.base import check_positive
from cutline.sampling import Source
from cutline.sampling.noise import NORMAL, noisy_argmax


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMaxVote(Aggregator):
    r"""A base: every teacher gives one vote to one of `width` choices, and the largest noisy count wins.

    Parameters
    ----------
    sigma
        Standard deviation of the noise on a count. Calibration takes the least that Gaussian DP allows. The other
        parameters are those of `Aggregator`.
    """

    sigma: float

    def __post_init__(self) -> None:
        Aggregator.__post_init__(self)
        check_positive("sigma", self.sigma)

    @classmethod
    def spend(cls, budget: Budget, limits: Filter | None, panel: Panel) -> Self:
        adjacency = panel["adjacency"]
        sigma = vector_sigma(budget, limits, squared_sensitivity=adjacency.count_range, adjacency=adjacency)
        return cls(**panel, sigma=sigma, budget=budget)

    @property
    def cost(self) -> Cost:
        """The cost of one query: one vote moves one count by 1 when it comes or goes, two when it changes."""
        return vector_cost(self.sigma, self.adjacency.count_range, self.adjacency)

    @abstractmethod
    def rows(self, winners: IntArray) -> Int8Array:
        """Return the labels that each winner stands for."""

    def draw(self, votes: Votes, source: Source) -> Int8Array:
        """Answer every query by the argmax of continuous noise, drawn exactly."""
        winners = noisy_argmax(self.read_votes(votes), scale=Fraction(self.sigma), noise=NORMAL, rng=source)
        return self.rows(winners)

    def law(self, votes: Votes) -> LabelLaw:
        """Return the law of one query by certified integration, to a relative 1e-12."""
        self.check_law_size(self.width)
        counts = self.read_votes(votes, dimensions=1)
        chances = normal_law((counts - counts.max()) / self.sigma)
        rows = self.rows(np.arange(self.width)).tolist()
        return {tuple(row): chance for row, chance in zip(rows, chances.tolist(), strict=True)}

    def public_parameters(self) -> dict[str, Any]:
        return {"sigma": self.sigma}


@dataclass(frozen=True, slots=True, kw_only=True)
class GNMax(NoisyMaxVote):
    r"""The one class with the most votes after Gaussian noise, for multi-class questions: every teacher votes for one class.

    **Privacy.** A vote that changes moves two counts by 1: squared sensitivity 2 and ``alpha / sigma^2`` under REPLACE;
    ``alpha / (2 sigma^2)`` under ADD_REMOVE [PSM18, Proposition 8; docs/proofs/noisy-max-votes.md]. The limit is always 1.

    References
    ----------
    [PSM18]

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
    [DBM23]
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
        return count_powersets(self.limit_ballots(ballots, scores))

    def rows(self, winners: IntArray) -> Int8Array:
        return (winners[:, None] >> np.arange(self.labels) & 1).astype(np.int8)
