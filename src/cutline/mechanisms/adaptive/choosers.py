r"""Ways to choose the cut: the exponential mechanism on gaps, the largest gap as it is, or the largest after adding noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from cutline.arrays import BoolArray, FloatArray, IntArray
from cutline.errors import ParameterError, shortened
from cutline.histogram import check_max_k
from cutline.mechanisms.calibration import largest_pure
from cutline.mechanisms.noise_laws import exponential_law, laplace_law, normal_law
from cutline.privacy import Adjacency, BoundedRange, Cost, NoisyMaxGaussian, Pure, largest
from cutline.privacy.curves.base import check_number, check_positive
from cutline.sampling import Source, Weights, categorical, probabilities
from cutline.sampling.noise import EXPONENTIAL, LAPLACE, NORMAL, Noise, noisy_argmax

UNIT = 1 << 20
_LARGEST = 1 << 40  # scores stay within int64: counts are below 2^42
_NEVER = np.iinfo(np.int64).max // 4  # a distance no table is long enough to tell from infinity


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    r"""A public regulariser of the gap: ``score(k) = min(gap_k, clip) - weight * |k - target|`` for min_k <= k <= max_k.

    Clipping keeps the score 1-Lipschitz in the gap; with the clip at the gap that surely passes the test, a preference for
    a certain k can win over the largest raw gap, which on long-tailed logs sits at the first ranks.

    Parameters
    ----------
    min_k, max_k
        The window k is chosen from; all of it, however few items were seen.
    target, weight
        The k wished for, and how much gap one rank of distance is worth. The weight is kept as a multiple of 2^-20.
    clip
        The gap above which more gap is worth nothing.

    Examples
    --------
    >>> preference = Preference(max_k=3, target=2, weight=0.5, clip=5)
    >>> (preference.scores(np.array([[9, 4, 1]])) / UNIT).tolist()
    [[4.5, 4.0, 0.5]]
    """

    max_k: int
    min_k: int = 1
    target: int | None = None
    weight: float = 0.0
    clip: int | None = None

    def __post_init__(self) -> None:
        check_max_k(self.max_k)
        weight = check_number("weight", self.weight)
        if not _whole(self.min_k) or not 1 <= self.min_k <= self.max_k:
            raise ParameterError(
                "min_k must be a whole number from 1 to max_k",
                f"min_k={shortened(self.min_k)}, max_k={self.max_k}",
                "Lower min_k or raise max_k.",
            )
        if not 0 <= weight * self.max_k < _LARGEST:
            raise ParameterError(
                "weight must be at least 0 and not huge", f"weight={weight}", "Try a few users per rank, like 2."
            )
        if self.weight and self.target is None:
            raise ParameterError("a weight needs a target", f"weight={self.weight}", "Pass target=k.")
        if self.target is not None and (not _whole(self.target) or not 1 <= self.target <= self.max_k):
            raise ParameterError(
                "target must be a whole number from 1 to max_k",
                f"target={shortened(self.target)}, max_k={self.max_k}",
                "Lower target.",
            )
        if self.clip is not None and (not _whole(self.clip) or not 1 <= self.clip < _LARGEST):
            raise ParameterError(
                "clip must be a whole number of at least 1", f"clip={shortened(self.clip)}", "Try clip=100."
            )
        object.__setattr__(self, "weight", round(weight * UNIT) / UNIT)

    @property
    def choices(self) -> npt.NDArray[np.int64]:
        """The values k can take."""
        return np.arange(self.min_k, self.max_k + 1)

    def scores(self, gaps: IntArray) -> IntArray:
        """Return the scores of the choices, in units of 2^-20, for rows of gaps of k = 1..max_k."""
        window = gaps[..., self.min_k - 1 : self.max_k]
        value = (window if self.clip is None else np.minimum(window, self.clip)) * UNIT
        if self.target is None:
            return value
        penalty: IntArray = round(self.weight * UNIT) * np.abs(self.choices - self.target)
        return value - penalty


def _whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


class Chooser(ABC):
    """How k is chosen from rows of scores, and what that reveals."""

    __slots__ = ()
    name: ClassVar[str]
    shows_k: ClassVar[bool] = True  # whether the chosen k is public even when the set is withheld

    @abstractmethod
    def cost(self, adjacency: Adjacency) -> Cost:
        """Return the cost of the choice itself."""

    @abstractmethod
    def law(self, scores: IntArray, adjacency: Adjacency) -> FloatArray:
        """Return the probability of each choice."""

    @abstractmethod
    def draw(self, scores: IntArray, adjacency: Adjacency, rng: Source) -> IntArray:
        """Draw the index of a choice for each row."""

    def slack(self, scores: IntArray, adjacency: Adjacency) -> IntArray:  # noqa: ARG002 - most laws never jump
        """Return, per row, how many people must change before the choice's law could jump."""
        return np.full(scores.shape[:-1], _NEVER, dtype=np.int64)

    # Most choosers leave it to a test whether the set is shown: without one they show nothing.
    def pass_chances(self, scores: IntArray, adjacency: Adjacency) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """Return the probabilities of showing and of withholding the set at each choice, where no test follows."""
        return np.zeros(scores.shape), np.ones(scores.shape)

    def passes(self, scores: IntArray, chosen: IntArray, adjacency: Adjacency, rng: Source) -> BoolArray:  # noqa: ARG002
        """Draw, exactly, whether the set of each row's choice is shown, where no test follows."""
        return np.zeros(len(chosen), dtype=np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True)
class GapExponential(Chooser):
    r"""Draw k with probability proportional to ``exp(epsilon * score / gap range)``.

    **Privacy.** epsilon-bounded-range: scores are 1-Lipschitz in the gaps, whose changes span at most 2 under ADD_REMOVE
    and 4 under REPLACE [docs/proofs/stable-top-k.md]. The chosen k is always part of the output.
    """

    name: ClassVar[str] = "em"
    epsilon: float

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)

    def cost(self, adjacency: Adjacency) -> Cost:
        return Cost.of(BoundedRange(epsilon=self.epsilon), adjacency=adjacency)

    def _weights(self, scores: IntArray, adjacency: Adjacency) -> Weights:
        return Weights(scores=scores, rate=Fraction(self.epsilon) / (adjacency.gap_range * UNIT))

    def law(self, scores: IntArray, adjacency: Adjacency) -> FloatArray:
        return probabilities(self._weights(scores, adjacency))

    def draw(self, scores: IntArray, adjacency: Adjacency, rng: Source) -> IntArray:
        return categorical(self._weights(scores, adjacency), rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class GapArgmax(Chooser):
    r"""Take the first largest score as it is, and leave it to the test to certify that it could not have been another.

    **Privacy.** Free by itself: neighbours whose choices differ both have slack 0, and the slack is 1-Lipschitz, so the
    one bit of the test pays for the choice too [docs/proofs/stable-top-k.md]. Withheld, k is not shown.
    """

    name: ClassVar[str] = "argmax"
    shows_k: ClassVar[bool] = False

    def cost(self, adjacency: Adjacency) -> Cost:
        return Cost(adjacency=adjacency)

    def law(self, scores: IntArray, adjacency: Adjacency) -> FloatArray:  # noqa: ARG002
        best = np.argmax(scores, axis=-1, keepdims=True)
        return np.where(np.arange(scores.shape[-1]) == best, 1.0, 0.0)

    def draw(self, scores: IntArray, adjacency: Adjacency, rng: Source) -> IntArray:  # noqa: ARG002
        largest: IntArray = np.argmax(scores, axis=-1)
        return largest

    def slack(self, scores: IntArray, adjacency: Adjacency) -> IntArray:
        if scores.shape[-1] == 1:
            return Chooser.slack(self, scores, adjacency)
        two = np.partition(scores, -2, axis=-1)[..., -2:]
        return adjacency.margin_distance(two[..., 1] - two[..., 0], unit=UNIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class GapGaussian(Chooser):
    r"""The k whose score is largest after adding N(0, sigma^2) to each; the paper's RNM-Gaussian.

    **Privacy.** At order a, the smaller of ``2 a c^2/sigma^2 + ln K/(a-1)`` and ``a K c^2/(2 sigma^2)`` for K choices that one
    person moves by at most c = 1 (ADD_REMOVE) or 2 (REPLACE) [ZW22, Corollary; docs/proofs/noisy-max.md]. k is always shown.

    Parameters
    ----------
    sigma
        Standard deviation, in users.
    choices
        How many values k can take: ``len(preference.choices)``. The cost depends on it, so it is fixed before any data.
    """

    name: ClassVar[str] = "rnm-gaussian"
    sigma: float
    choices: int

    def __post_init__(self) -> None:
        NoisyMaxGaussian(sigma=self.sigma, choices=self.choices)  # refuses what is out of range

    @classmethod
    def within(cls, *, order: float, rdp: float, choices: int, adjacency: Adjacency) -> Self:
        """Return the choice with the least noise whose curve at ``order`` stays within ``rdp``; the vector bound always can."""
        change = adjacency.gap_change

        def fits(precision: float) -> bool:
            return NoisyMaxGaussian(sigma=1 / precision, choices=choices, change=change).rdp(order) <= rdp

        check_positive("rdp", rdp)
        low = (2 * rdp / (order * choices)) ** 0.5 / change
        precision = largest(fits, low=low * (1 - 1e-9), high=low * (1 + choices) ** 0.5, relative=1e-10)
        return cls(sigma=1 / precision, choices=choices)

    def cost(self, adjacency: Adjacency) -> Cost:
        curve = NoisyMaxGaussian(sigma=self.sigma, choices=self.choices, change=adjacency.gap_change)
        return Cost.of(curve, adjacency=adjacency)

    def law(self, scores: IntArray, adjacency: Adjacency) -> FloatArray:  # noqa: ARG002 - sigma is in users
        self._check(scores)
        scale = Fraction(self.sigma) * UNIT
        return np.array([normal_law(_below_best(row, scale)) for row in scores])

    def draw(self, scores: IntArray, adjacency: Adjacency, rng: Source) -> IntArray:  # noqa: ARG002
        self._check(scores)
        return noisy_argmax(scores, scale=Fraction(self.sigma) * UNIT, noise=NORMAL, rng=rng)

    def _check(self, scores: IntArray) -> None:
        if scores.shape[-1] != self.choices:
            raise ParameterError(
                "the noise must have been priced for the number of choices",
                f"choices={self.choices}, scores of {scores.shape[-1]}",
                "Pass choices=len(preference.choices).",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class GapLaplace(Chooser):
    r"""The k whose score is largest after adding Laplace noise of scale ``gap range / epsilon`` to each.

    **Privacy.** epsilon-DP, and not bounded-range: charged as pure DP [docs/proofs/noisy-max.md]. The gap
    range is 2 under ADD_REMOVE and 4 under REPLACE. k is always shown.
    """

    name: ClassVar[str] = "rnm-laplace"
    noise: ClassVar[Noise] = LAPLACE
    epsilon: float

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)

    @classmethod
    def within(cls, *, order: float, rdp: float) -> Self:
        """Return the choice with the largest epsilon whose curve at ``order`` stays within ``rdp``."""
        return cls(epsilon=largest_pure(order=order, rdp=rdp))

    def cost(self, adjacency: Adjacency) -> Cost:
        return Cost.of(Pure(epsilon=self.epsilon), adjacency=adjacency)

    def scale(self, adjacency: Adjacency) -> Fraction:
        """Return the scale of the noise in the unit of the scores."""
        return Fraction(adjacency.gap_range * UNIT) / Fraction(self.epsilon)

    def law(self, scores: IntArray, adjacency: Adjacency) -> FloatArray:
        scale = self.scale(adjacency)
        return np.array([laplace_law([int(score) / scale for score in row - row.max()]) for row in scores])

    def draw(self, scores: IntArray, adjacency: Adjacency, rng: Source) -> IntArray:
        return noisy_argmax(scores, scale=self.scale(adjacency), noise=self.noise, rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class GapPermuteAndFlip(GapLaplace):
    r"""The k whose score is largest after adding exponential noise of scale ``gap range / epsilon``: permute-and-flip.

    **Privacy.** epsilon-DP and not bounded-range: charged as pure DP [MS20, DKS21; docs/proofs/noisy-max.md]. At
    the same pure epsilon it errs less than the exponential mechanism, which in turn is cheaper in Rényi terms.
    """

    name: ClassVar[str] = "permute-and-flip"
    noise: ClassVar[Noise] = EXPONENTIAL

    def law(self, scores: IntArray, adjacency: Adjacency) -> FloatArray:
        scale = self.scale(adjacency)
        return np.array([exponential_law(_below_best(row, scale)) for row in scores])


def _below_best(row: IntArray, scale: Fraction) -> FloatArray:
    """Return score minus the best score in units of the noise's scale, each correctly rounded."""
    return np.array([float(int(score) / scale) for score in row - row.max()])
