r"""Choose where the top ends and decide whether to show it, in one draw that is paid for once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from flint import arb

from cutline.arrays import BoolArray, FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.mechanisms.adaptive.choosers import UNIT, Chooser, Preference
from cutline.privacy import Adjacency, Cost, Pure
from cutline.privacy.curves.base import check_positive
from cutline.rounding import fraction_down
from cutline.sampling import Source, Weights, bernoulli_real, categorical, probabilities
from cutline.sampling.draws import enclose_rational

_SURE_ODDS = 99.0
_LIGHTEST = 1e-100  # of the weights: logarithms of anything heavier keep the digits that a draw relies on


@dataclass(frozen=True, slots=True, kw_only=True)
class JointDraw(Chooser):
    r"""Draw k with probability proportional to ``b_k = w_k exp(epsilon d_k / 2)`` and show its set with odds ``b_k sum_j b_j``.

    ``d_k = max(0, gap_k - c) / c``, with c = 1 (ADD_REMOVE) or 2 (REPLACE), is how far the set is from changing. So the set
    at k goes out with probability ``b_k^2 / (1 + b_k sum_j b_j)``. Withheld, k is not shown.

    **Privacy.** (epsilon, delta)-DP if the squares of the weights add up to at most ``delta / (1 - delta)``, which is made
    sure of here; as a step among others, delta-approximate at the curve of pure DP [docs/proofs/joint-stable.md].

    Parameters
    ----------
    epsilon, delta
        Of the whole draw.
    prior
        A positive number for every choice, public: how much k is wished for beside others; scaled to the weights w_k.

    Examples
    --------
    >>> joint = JointDraw(epsilon=1.0, delta=1e-6, prior=(1.0,) * 3)
    >>> scores = UNIT * np.array([[0, 20, 0]])
    >>> yes, _ = joint.pass_chances(scores, Adjacency.ADD_REMOVE)
    >>> [f"{p:.4f}" for p in (joint.law(scores, Adjacency.ADD_REMOVE) * yes)[0]]
    ['0.0000', '0.9833', '0.0000']
    """

    name: ClassVar[str] = "joint"
    shows_k: ClassVar[bool] = False
    epsilon: float
    delta: float
    prior: tuple[float, ...]

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        if not 0 < self.delta < 1:
            raise ParameterError("delta must be above 0 and below 1", f"delta={self.delta}", "Try delta=1e-6.")
        object.__setattr__(self, "prior", check_prior(self.prior))
        if min(self.weights) < _LIGHTEST:
            raise ParameterError(
                "a prior must not make a cut all but impossible",
                f"a weight below {_LIGHTEST:g}",
                "Leave that cut out by min_k or max_k, or raise delta.",
            )

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights w_k, with the largest sum of squares that delta allows, rounded down."""
        return scale_weights(self.prior, self.delta)

    def describe_prior(self, preference: Preference) -> dict[str, Any]:
        """Return what `StableTopK.calibrate` was asked for to get this prior, as plain data; nothing if all k are alike."""
        if len({*self.prior}) == 1:
            return {}
        if preference.clip is not None and self.prior == _growing(preference):
            return {"prefer_larger": True}
        return {"prior": list(self.prior)}

    def check_choices(self, choices: int) -> None:
        """Raise if there is not one weight for every choice."""
        if len(self.prior) != choices:
            raise ParameterError(
                "a prior must have one number for every k from min_k to max_k",
                f"{len(self.prior)} numbers for {choices} cuts",
                "Give as many as there are.",
            )

    def cost(self, adjacency: Adjacency) -> Cost:
        return Cost.of(Pure(epsilon=self.epsilon), adjacency=adjacency, delta=self.delta)

    def law(self, scores: IntArray, adjacency: Adjacency) -> FloatArray:
        return probabilities(self._to_weights(scores, adjacency))

    def draw(self, scores: IntArray, adjacency: Adjacency, rng: Source) -> IntArray:
        return categorical(self._to_weights(scores, adjacency), rng=rng)

    def pass_chances(self, scores: IntArray, adjacency: Adjacency) -> tuple[FloatArray, FloatArray]:
        log_odds = self._log_odds(scores, adjacency)
        with np.errstate(under="ignore"):
            rest = np.exp(-np.abs(log_odds))
        likely, unlikely = 1 / (1 + rest), rest / (1 + rest)
        return np.where(log_odds > 0, likely, unlikely), np.where(log_odds > 0, unlikely, likely)

    def passes(self, scores: IntArray, chosen: IntArray, adjacency: Adjacency, rng: Source) -> BoolArray:
        shown = np.take_along_axis(self.pass_chances(scores, adjacency)[0], chosen[:, None], axis=1)[:, 0]

        def enclose(row: int, precision: int) -> Any:  # noqa: ARG001 - flint's precision is already set
            steps, rate = self._steps(scores[row], adjacency).tolist(), self._rate(adjacency)
            powers = {step: enclose_rational(rate * step).exp() for step in set(steps)}
            weighed = [arb(w) * powers[step] for w, step in zip(self.weights, steps, strict=True)]
            odds = weighed[int(chosen[row])] * sum(weighed, start=arb(0))
            return 1 - 1 / (1 + odds)

        return bernoulli_real(shown, enclose, rng=rng)

    def _rate(self, adjacency: Adjacency) -> Fraction:
        """Return epsilon / 2 per unit of distance, in the unit of the scores."""
        return Fraction(self.epsilon) / (2 * adjacency.gap_change * UNIT)

    @staticmethod
    def _steps(scores: IntArray, adjacency: Adjacency) -> IntArray:
        """Return how far the gaps are above what one person can undo, in the unit of the scores."""
        return np.maximum(scores - adjacency.gap_change * UNIT, 0)

    def _to_weights(self, scores: IntArray, adjacency: Adjacency) -> Weights:
        multiplicities = np.array(_over_lightest(self.weights), dtype=object)[None, :]
        return Weights(scores=self._steps(scores, adjacency), rate=self._rate(adjacency), multiplicities=multiplicities)

    def _log_odds(self, scores: IntArray, adjacency: Adjacency) -> FloatArray:
        r"""Return ``ln(b_k sum_j b_j)``.

        Where the odds are not beyond e^+-250, no term is larger than 750 in size: each is off by a few units of 2^-53 of that,
        the sum by less than 2^-40. Beyond, a probability is 0 or 1 to more digits than anyone asks for.
        """
        logs = np.log(np.array(self.weights)) + self._steps(scores, adjacency) * float(self._rate(adjacency))
        top = logs.max(axis=-1, keepdims=True)
        with np.errstate(under="ignore"):
            total = top + np.log(np.exp(logs - top).sum(axis=-1, keepdims=True))
        return np.asarray(logs + total)


def shape_prior(preference: Preference, prior: Sequence[float] | None, *, prefer_larger: bool) -> tuple[float, ...]:
    """Return the wish for every k of the window: as given, growing with k, or all alike."""
    if prior is not None and prefer_larger:
        raise ParameterError("a wish for larger k is a prior of its own", "both", "Leave one of them out.")
    if prior is not None:
        return check_prior(prior)
    return _growing(preference) if prefer_larger else (1.0,) * len(preference.choices)


def _growing(preference: Preference) -> tuple[float, ...]:
    return tuple(preference.choices.astype(np.float64).tolist())


def clip_surely_shown(joint: JointDraw, preference: Preference, adjacency: Adjacency) -> Preference:
    """Return the preference with the clip at a gap that is shown 99 times in 100 at any k, unless it has a clip."""
    if preference.clip is not None:
        return preference
    distance = math.log(_SURE_ODDS / min(joint.weights) ** 2) / joint.epsilon
    return replace(preference, clip=math.ceil((1 + distance) * adjacency.gap_change))


def check_prior(prior: object) -> tuple[float, ...]:
    """Return the prior as floats; raise if it is empty or one of its numbers is not positive and finite."""
    if isinstance(prior, str) or not isinstance(prior, Sequence) or not prior:
        raise ParameterError("a prior must be a row of numbers", f"a {type(prior).__name__}", "Try prior=(1, 2, 3).")
    for number in prior:
        if isinstance(number, bool) or not isinstance(number, int | float | np.number) or not 0 < number < math.inf:
            raise ParameterError("the numbers of a prior must be finite and above 0", f"{number}", "Try 1 for each.")
    return tuple(float(number) for number in prior)


@lru_cache(maxsize=64)
def scale_weights(prior: tuple[float, ...], delta: float) -> tuple[float, ...]:
    r"""Scale a prior so that the sum of its squares is as close to ``delta / (1 - delta)`` as floats come, and never above.

    Examples
    --------
    >>> weights = scale_weights((1.0, 2.0, 2.0), 1e-6)
    >>> sum(Fraction(w) ** 2 for w in weights) <= Fraction(1e-6) / (1 - Fraction(1e-6))
    True
    >>> [f"{1e3 * w:.4f}" for w in weights]
    ['0.3333', '0.6667', '0.6667']
    """
    exact = Fraction(delta)
    allowed = exact / (1 - exact)
    largest = max(prior)
    shape = [Fraction(p / largest) for p in prior]  # a public number, rounded once
    squares = sum((s**2 for s in shape), start=Fraction(0))
    scale = Fraction(math.sqrt(allowed / squares))  # a guess, which is proved below
    while True:
        weights = tuple(fraction_down(scale * s) for s in shape)
        if sum((Fraction(w) ** 2 for w in weights), start=Fraction(0)) <= allowed:
            return weights
        scale *= 1 - Fraction(1, 2**52)


@lru_cache(maxsize=64)
def _over_lightest(weights: tuple[float, ...]) -> tuple[Fraction, ...]:
    """Return the weights beside the lightest, which changes no probability, so that all are at least 1."""
    lightest = Fraction(min(weights))
    return tuple(Fraction(w) / lightest for w in weights)
