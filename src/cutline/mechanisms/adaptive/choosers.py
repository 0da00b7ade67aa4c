r"""Two ways to find the cut: draw k with the exponential mechanism, or take the largest score and test that it is stable."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.mechanisms.adaptive.preference import UNIT
from cutline.privacy import Adjacency, BoundedRange, Cost
from cutline.privacy.curves.base import check_positive
from cutline.sampling import Source, Weights, categorical, probabilities

_NEVER = np.iinfo(np.int64).max // 4  # a distance no table is long enough to tell from infinity


class Chooser(Protocol):
    """How k is chosen from rows of scores, and what that reveals."""

    name: ClassVar[str]
    shows_k: ClassVar[bool]  # whether the chosen k is public even when the set is withheld

    def cost(self, adjacency: Adjacency) -> Cost:
        """Return the cost of the choice itself."""
        ...

    def law(self, scores: IntArray, adjacency: Adjacency) -> FloatArray:
        """Return the probability of each choice."""
        ...

    def draw(self, scores: IntArray, adjacency: Adjacency, rng: Source) -> IntArray:
        """Draw the index of a choice for each row."""
        ...

    def slack(self, scores: IntArray, adjacency: Adjacency) -> IntArray:
        """Return, per row, how many people must change before the choice's law could jump."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GapExponential:
    r"""Draw k with probability proportional to ``exp(epsilon * score / gap range)``.

    **Privacy.** epsilon-bounded-range: scores are 1-Lipschitz in the gaps, whose changes span at most 2 under ADD_REMOVE
    and 4 under REPLACE [SPEC section 1; docs/proofs/stable-top-k.md]. The chosen k is always part of the output.
    """

    name: ClassVar[str] = "em"
    shows_k: ClassVar[bool] = True
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

    def slack(self, scores: IntArray, adjacency: Adjacency) -> IntArray:  # noqa: ARG002 - the law never jumps
        return np.full(scores.shape[:-1], _NEVER, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class GapArgmax:
    r"""Take the first largest score as it is, and leave it to the test to certify that it could not have been another.

    **Privacy.** Free by itself: neighbours whose choices differ both have slack 0, and the slack is 1-Lipschitz, so the
    one bit of the test pays for the choice too [docs/proofs/stable-top-k.md]. Withheld, k is not shown.
    """

    name: ClassVar[str] = "argmax"
    shows_k: ClassVar[bool] = False

    def cost(self, adjacency: Adjacency) -> Cost:
        return Cost(adjacency=adjacency)

    def law(self, scores: IntArray, adjacency: Adjacency) -> FloatArray:  # noqa: ARG002
        largest: IntArray = np.argmax(scores, axis=-1)
        law: FloatArray = np.equal(np.arange(scores.shape[-1]), largest[..., None]).astype(np.float64)
        return law

    def draw(self, scores: IntArray, adjacency: Adjacency, rng: Source) -> IntArray:  # noqa: ARG002
        largest: IntArray = np.argmax(scores, axis=-1)
        return largest

    def slack(self, scores: IntArray, adjacency: Adjacency) -> IntArray:
        if scores.shape[-1] == 1:
            return np.full(scores.shape[:-1], _NEVER, dtype=np.int64)
        two = np.partition(scores, -2, axis=-1)[..., -2:]
        return adjacency.margin_distance(two[..., 1] - two[..., 0], unit=UNIT)
