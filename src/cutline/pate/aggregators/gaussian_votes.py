r"""Voting with Gaussian noise, the baselines of PATE: counts against a quorum of the teachers, or the largest count.

Where only a comparison is released no noise is ever made: with a quorum of half the teachers a label is a coin of bias
``Phi((n - T/2) / sigma)``, drawn exactly.
The aggregators differ in what they charge: PATE for the whole vector of noisy counts, `BinaryVote` for the bits.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from flint import arb

from cutline.arrays import FloatArray, Int8Array, IntArray
from cutline.errors import ParameterError
from cutline.mechanisms.base import Parameter
from cutline.mechanisms.noise_laws import normal_law
from cutline.pate.aggregators.base import Aggregator, Panel, Votes, check_one_vote, double_quorum, moved_labels
from cutline.pate.aggregators.calibration import bit_precision, vector_precision
from cutline.pate.aggregators.optimal_vote import CoinVote
from cutline.pate.ballots import Ballots, check_powerset, count_powersets
from cutline.pate.labels import LabelLaw, mark_classes
from cutline.privacy import Adjacency, Budget, Cost, Filter, Gaussian, GaussianBit
from cutline.privacy.curves.base import check_positive
from cutline.privacy.curves.gaussian_bit import in_deviations
from cutline.sampling import Source
from cutline.sampling.coins import Coins
from cutline.sampling.noise import NORMAL, noisy_argmax


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyVote(Aggregator):
    r"""A base for aggregators that add Gaussian noise to counts.

    Parameters
    ----------
    sigma
        Standard deviation of the noise on a count. Calibration takes the least that the budget allows. The other
        parameters are those of `Aggregator`.
    """

    sigma: float

    def __post_init__(self) -> None:
        Aggregator.__post_init__(self)
        check_positive("sigma", self.sigma)

    def public_parameters(self) -> dict[str, Any]:
        return {"sigma": self.sigma}


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianVote(NoisyVote, CoinVote):
    """A base for aggregators that set a label iff its noisy count is above the quorum, and charge a vector of noisy counts."""

    @property
    def offset(self) -> float:
        """The middle in standard deviations: the quorum over sigma, as a float, which is what the law uses."""
        return middle(self.sigma, self.doubled_quorum)

    @property
    def cost(self) -> Cost:
        return vector_cost(self.sigma, self.moved, self.adjacency)

    def coins(self) -> Coins:
        return _coins(self.sigma, self.doubled_quorum, self.teachers)

    def chances(self, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        from scipy.special import ndtr

        x = in_deviations(counts, self.sigma, self.offset)
        return ndtr(x), ndtr(-x)


@dataclass(frozen=True, slots=True, kw_only=True)
class PateGaussian(GaussianVote):
    r"""Noisy counts of all labels, each compared with the quorum, by default half of the teachers.

    **Privacy.** The vector of counts has L2 sensitivity sqrt(labels) under both relations; releasing it with Gaussian noise
    costs ``alpha labels / (2 sigma^2)``, and the labels are read off it [Mir17, Proposition 7; docs/proofs/gaussian-votes.md].
    A ballot limit is refused: with one, this is `PateTau` [PSM18; ZYC20].

    Examples
    --------
    >>> vote = PateGaussian.calibrate(Budget(epsilon=2.0, delta=1e-6, releases=10), teachers=200, labels=3)
    >>> f"{vote.sigma:.2f}"
    '12.22'
    """

    name: ClassVar[str] = "pate-gaussian"
    reference: ClassVar[str] = "PSM18"
    cost_rule: ClassVar[str] = "Gaussian vector of all counts"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter(name="quorum"),)

    def __post_init__(self) -> None:
        GaussianVote.__post_init__(self)
        if self.limit is not None:
            raise ParameterError("pate-gaussian takes ballots as they are", f"limit={self.limit}", "Use pate-tau.")

    @classmethod
    def spend(cls, budget: Budget, limits: Filter | None, panel: Panel, *, quorum: float = 0.5) -> Self:
        sigma = vector_sigma(budget, limits, squared_sensitivity=panel["labels"], adjacency=panel["adjacency"])
        return cls(**panel, sigma=sigma, quorum=quorum, budget=budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class PateTau(GaussianVote):
    r"""Ballots limited to ``limit`` labels, then noisy counts of all labels, each compared with the quorum.

    **Privacy.** A limited ballot has L2 norm at most sqrt(limit): squared sensitivity ``limit`` under ADD_REMOVE,
    ``min(labels, 2 limit)`` under REPLACE [ZYC20; docs/proofs/gaussian-votes.md].
    """

    name: ClassVar[str] = "pate-tau"
    reference: ClassVar[str] = "ZYC20"
    cost_rule: ClassVar[str] = "Gaussian vector of limited ballots"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter(name="limit", required=True), Parameter(name="quorum"))

    def __post_init__(self) -> None:
        GaussianVote.__post_init__(self)
        if self.limit is None:
            raise ParameterError("pate-tau needs a ballot limit", "limit=None", "Pass limit=5, or use pate-gaussian.")

    @classmethod
    def spend(cls, budget: Budget, limits: Filter | None, panel: Panel, *, limit: int, quorum: float = 0.5) -> Self:
        moved = moved_labels(panel["labels"], limit, panel["adjacency"])
        sigma = vector_sigma(budget, limits, squared_sensitivity=moved, adjacency=panel["adjacency"])
        return cls(**panel, sigma=sigma, limit=limit, quorum=quorum, budget=budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryVote(GaussianVote):
    r"""Each label its own noisy majority, composed, and charged as the bits they are.

    **Privacy.** A label's bit costs the largest binary Rényi divergence between neighbouring counts, about 2/pi of what its
    noisy count would; ``moved`` labels can move [docs/proofs/gaussian-votes.md; docs/proofs/gaussian-bit.md]. Adding noise of
    ``sqrt(2) sigma`` to both the ayes and the noes and taking the larger is the same law [DBM23].

    Examples
    --------
    >>> budget = Budget(epsilon=2.0, delta=1e-6, releases=10)
    >>> f"{BinaryVote.calibrate(budget, teachers=200, labels=3).sigma:.2f}"
    '10.52'
    """

    name: ClassVar[str] = "binary-vote"
    reference: ClassVar[str] = "DBM23"
    cost_rule: ClassVar[str] = "one Gaussian bit per label that can move"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter(name="limit"), Parameter(name="quorum"))

    @classmethod
    def spend(
        cls, budget: Budget, limits: Filter | None, panel: Panel, *, limit: int | None = None, quorum: float = 0.5
    ) -> Self:
        moved = moved_labels(panel["labels"], limit, panel["adjacency"])
        doubled = double_quorum(panel["teachers"], quorum)

        def cost(precision: float) -> Cost:
            return moved * Cost.of(_bit(1 / precision, doubled), adjacency=panel["adjacency"])

        sigma = 1 / bit_precision(budget, limits, cost, coins=moved)
        return cls(**panel, sigma=sigma, limit=limit, quorum=quorum, budget=budget)

    @property
    def cost(self) -> Cost:
        return self.moved * Cost.of(_bit(self.sigma, self.doubled_quorum), adjacency=self.adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMaxVote(NoisyVote):
    """A base: every teacher gives one vote to one of `width` choices, and the largest noisy count wins."""

    @classmethod
    def spend(cls, budget: Budget, limits: Filter | None, panel: Panel) -> Self:
        adjacency = panel["adjacency"]
        sigma = vector_sigma(budget, limits, squared_sensitivity=adjacency.count_range, adjacency=adjacency)
        return cls(**panel, sigma=sigma, budget=budget)

    @property
    def cost(self) -> Cost:
        # One vote moves one count by 1 when it comes or goes, two when it changes.
        return vector_cost(self.sigma, self.adjacency.count_range, self.adjacency)

    @abstractmethod
    def rows(self, winners: IntArray) -> Int8Array:
        """Return the labels that each winner stands for."""

    def draw(self, votes: Votes, source: Source) -> Int8Array:
        """Answer every query by the argmax of continuous noise, drawn exactly."""
        winners = noisy_argmax(self.read_votes(votes), scale=Fraction(self.sigma), noise=NORMAL, rng=source)
        return self.rows(winners)

    def law(self, votes: Votes) -> LabelLaw:
        """Return the law of one query by certified integration."""
        self.check_law_size(self.width)
        counts = self.read_votes(votes, dimensions=1)
        chances = normal_law((counts - counts.max()) / self.sigma)
        rows = self.rows(np.arange(self.width)).tolist()
        return {tuple(row): chance for row, chance in zip(rows, chances.tolist(), strict=True)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GNMax(NoisyMaxVote):
    r"""The one class with the most votes after Gaussian noise, for multi-class questions: every teacher votes for one class.

    **Privacy.** A vote that changes moves two counts by 1: squared sensitivity 2 and ``alpha / sigma^2`` under REPLACE;
    ``alpha / (2 sigma^2)`` under ADD_REMOVE [PSM18, Proposition 8; docs/proofs/noisy-max-votes.md]. The limit is always 1.

    Examples
    --------
    >>> vote = GNMax.calibrate(Budget(epsilon=2.0, delta=1e-6, releases=10), teachers=200, labels=3)
    >>> f"{vote.sigma:.2f}", max(vote.law(np.array([150, 30, 20])).items(), key=lambda found: found[1])[0]
    ('9.97', (1, 0, 0))
    """

    name: ClassVar[str] = "gnmax"
    reference: ClassVar[str] = "PSM18"
    cost_rule: ClassVar[str] = "Gaussian vector of one vote"
    one_class: ClassVar[bool] = True

    limit: int | None = 1

    def __post_init__(self) -> None:
        NoisyMaxVote.__post_init__(self)
        check_one_vote(self)

    def rows(self, winners: IntArray) -> Int8Array:
        return mark_classes(winners, self.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class PowersetVote(NoisyMaxVote):
    r"""The one *set* of labels with the most votes after Gaussian noise: every ballot is a vote for its set, out of 2^labels.

    Votes have 2^labels columns; make them with `tally`.

    **Privacy.** As `GNMax`, whatever the number of labels, as a ballot is one vote [DBM23; docs/proofs/noisy-max-votes.md].
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


def vector_cost(sigma: float, squared_sensitivity: int, adjacency: Adjacency) -> Cost:
    """Return the cost of releasing a vector of counts with noise."""
    return Cost.of(Gaussian(sigma=sigma, squared_sensitivity=float(squared_sensitivity)), adjacency=adjacency)


@lru_cache(maxsize=256)
def vector_sigma(budget: Budget, limits: Filter | None, *, squared_sensitivity: int, adjacency: Adjacency) -> float:
    """Return the least noise with which all queries' vectors stay within the budget; Gaussian DP composes them exactly."""

    def cost(precision: float) -> Cost:
        return vector_cost(1 / precision, squared_sensitivity, adjacency)

    return 1 / vector_precision(budget, limits, cost, squared_sensitivity=squared_sensitivity)


def middle(sigma: float, doubled_quorum: int) -> float:
    """Return the quorum in standard deviations."""
    return doubled_quorum / (2 * sigma)


def _bit(sigma: float, doubled_quorum: int) -> GaussianBit:
    # pi(n) = Phi(n / sigma - offset) over all n >= 0: the counts 0..teachers and beyond, so never too cheap.
    return GaussianBit(sigma=sigma, offset=middle(sigma, doubled_quorum), reach=1)


@lru_cache(maxsize=64)
def _coins(sigma: float, doubled_quorum: int, teachers: int) -> Coins:
    from scipy.special import ndtr

    offset = middle(sigma, doubled_quorum)

    def bias(entry: int) -> Any:
        if entry == Fraction(offset) * Fraction(sigma):
            return Fraction(1, 2)
        return ((arb(offset) - arb(entry) / arb(sigma)) / arb(2).sqrt()).erfc() / 2

    return Coins.of_reals(ndtr(in_deviations(np.arange(teachers + 1), sigma, offset)), bias)
