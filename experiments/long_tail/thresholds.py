r"""Two rivals: noise on bounded counts and a public threshold, each charged exactly.

Every user keeps at most D items. Each item that somebody kept gets noise, Gaussian or discrete Laplace, and goes out if its
noisy count exceeds the threshold; the list is cut to the k largest noisy counts. An item that nobody kept never goes out.

**Privacy.** One user joins or leaves. Of the D counts that move, j are items that nobody else kept: each is shown with a small
probability q, which a neighbour without that user never does. The other n = D - j move by one. Let ``delta_n(epsilon)`` be the
profile of the noise on n such counts: the largest difference ``P(S) - e^epsilon Q(S)`` of its two laws over all sets S. None of
the j items is shown with probability ``s = (1 - q)^j``, so the two differences of the whole release are

    1 - s + s delta_n(epsilon - ln s)    and    delta_n(epsilon + ln s).

The larger of them at the worst j is the delta of the release, exactly, since counts can be as far above the threshold as they
like [WKZ24 does so for Gaussian noise]. No honest accounting gives less. Plain floats, for simulations on public logs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, ndtr, ndtri

from cutline.arrays import FloatArray, IntArray
from cutline.privacy import Budget, largest
from cutline.privacy.curves.gaussian import normal_profile

_LEAST = 1e-40  # a chance of being shown that is as good as none


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyThreshold(ABC):
    """Noise of one scale on every bounded count, and what a noisy count must exceed to go out.

    Parameters
    ----------
    scale
        Of the noise.
    threshold
        What a noisy count must exceed.
    max_items_per_user
        In how many items one user counts at most.
    """

    name: ClassVar[str]

    scale: float
    threshold: float
    max_items_per_user: int

    @classmethod
    def calibrate(cls, budget: Budget, *, max_items_per_user: int) -> Self:
        """Return the lowest threshold that keeps the budget, and the scale that allows it.

        With more noise, counts that move need less of delta and leave more for items of one user, but the threshold is so many
        multiples of a larger scale; the best split is searched.
        """
        bound, epsilons = np.array([max_items_per_user]), np.array([budget.epsilon])

        def affords(precision: float) -> bool:
            return bool(cls.profile(1 / precision, bound, epsilons)[0] < budget.delta)

        def at(log_scale: float) -> tuple[float, float]:
            scale = math.exp(log_scale)
            shown = largest(
                lambda q: (
                    cls.delta_of(budget.epsilon, scale=scale, shown=q, max_items_per_user=max_items_per_user)
                    <= budget.delta
                ),
                low=_LEAST,
                high=budget.delta,
            )
            return scale, cls.threshold_of(shown, scale)

        least = -math.log(largest(affords, low=1e-6, high=1e3))
        found = minimize_scalar(lambda log: at(log)[1], bounds=(least, least + 1), method="bounded")
        scale, threshold = at(float(found.x))
        return cls(scale=scale, threshold=threshold, max_items_per_user=max_items_per_user)

    @classmethod
    def delta_of(cls, epsilon: float, *, scale: float, shown: float, max_items_per_user: int) -> float:
        """Return the exact delta at epsilon if an item of one user is shown with probability ``shown``."""
        alone = np.arange(max_items_per_user + 1)
        logs: FloatArray = alone * np.float64(math.log1p(-shown))
        appears = -np.expm1(logs) + np.exp(logs) * cls.profile(scale, alone[::-1], epsilon - logs)
        return float(max(appears.max(), cls.profile(scale, alone[::-1], epsilon + logs).max()))

    def delta(self, epsilon: float) -> float:
        """Return the exact delta of one release at epsilon."""
        return self.delta_of(epsilon, scale=self.scale, shown=self.shown(1), max_items_per_user=self.max_items_per_user)

    @staticmethod
    @abstractmethod
    def profile(scale: float, moved: IntArray, epsilons: FloatArray) -> FloatArray:
        """Return the profile of the noise on so many counts that move by one, at as many epsilons."""

    @staticmethod
    @abstractmethod
    def threshold_of(shown: float, scale: float) -> float:
        """Return the threshold that a noisy count of one user exceeds with probability ``shown``, or less."""

    @abstractmethod
    def shown(self, count: int) -> float:
        """Return the probability that an item of that many users exceeds the threshold."""

    @abstractmethod
    def noise(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw noise, in plain floats or whole numbers."""

    def released_indices(self, bounded: IntArray, runs: int, *, seed: int) -> Iterator[IntArray]:
        """Yield, for each of ``runs`` independent releases, the indices that go out, the largest noisy count first."""
        rng = np.random.default_rng(seed)
        seen = np.flatnonzero(bounded)
        for _ in range(runs):
            noisy = bounded[seen] + self.noise(len(seen), rng)
            above = np.flatnonzero(noisy > self.threshold)
            yield seen[above[np.argsort(-noisy[above], kind="stable")]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianThreshold(NoisyThreshold):
    """Gaussian noise: n counts that move by one are as far apart as one that moves by the root of n.

    Examples
    --------
    >>> rival = GaussianThreshold.calibrate(Budget(epsilon=1.0, delta=1e-6), max_items_per_user=50)
    >>> round(rival.threshold), f"{rival.delta(1.0):.3g}"
    (165, '1e-06')
    """

    name: ClassVar[str] = "Gaussian threshold"

    @staticmethod
    def profile(scale: float, moved: IntArray, epsilons: FloatArray) -> FloatArray:
        apart = np.sqrt(np.maximum(moved, 1)) / scale
        return np.where(moved > 0, normal_profile(apart, epsilons), np.maximum(-np.expm1(epsilons), 0.0))

    @staticmethod
    def threshold_of(shown: float, scale: float) -> float:
        return 1 - scale * float(ndtri(shown))

    def shown(self, count: int) -> float:
        return float(ndtr((count - self.threshold) / self.scale))

    def noise(self, size: int, rng: np.random.Generator) -> FloatArray:
        return rng.normal(scale=self.scale, size=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceThreshold(NoisyThreshold):
    """Discrete Laplace noise, as OpenDP adds to whole numbers, on each of a user's D counts.

    A count that moves by one is randomised response: of the two laws either is e^(1/scale) times the other, to the left of
    both centres or to the right. So many of them have the exact profile of as many coins [KOV15].

    Examples
    --------
    >>> rival = LaplaceThreshold.calibrate(Budget(epsilon=1.0, delta=1e-6), max_items_per_user=50)
    >>> rival.delta(1.0) <= 1e-6
    True
    """

    name: ClassVar[str] = "Laplace threshold (OpenDP)"

    @staticmethod
    def profile(scale: float, moved: IntArray, epsilons: FloatArray) -> FloatArray:
        coins = moved[:, None]
        heads = np.arange(int(moved.max(initial=0)) + 1)
        tails = np.maximum(coins - heads, 0)
        ways = np.where(heads <= coins, gammaln(coins + 1) - gammaln(heads + 1) - gammaln(tails + 1), -np.inf)
        chances = np.exp(ways - tails / scale - coins * math.log1p(math.exp(-1 / scale)))
        losses = (2 * heads - coins) / scale
        differences = chances * -np.expm1(np.minimum(epsilons[:, None] - losses, 0.0))
        total: FloatArray = differences.sum(axis=1)
        return total

    @staticmethod
    def threshold_of(shown: float, scale: float) -> float:
        return float(math.ceil(-scale * (math.log(shown) + math.log1p(math.exp(-1 / scale)))))

    def shown(self, count: int) -> float:
        above = self.threshold - count  # the noise must exceed it
        heavier = 1 + math.exp(-1 / self.scale)
        if above < 0:
            return 1 - math.exp(above / self.scale) / heavier
        return math.exp(-(above + 1) / self.scale) / heavier

    def noise(self, size: int, rng: np.random.Generator) -> FloatArray:
        stop = -math.expm1(-1 / self.scale)
        return (rng.geometric(stop, size) - rng.geometric(stop, size)).astype(np.float64)
