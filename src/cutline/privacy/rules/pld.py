r"""The rule ``pld``: all uses composed as privacy-loss distributions by dp-accounting, from above.

Each use is replaced by one law of the privacy loss on a grid that dominates it (connect-the-dots on its profile); the
laws are convolved and the hockey-stick of the result is read off. The proof, adaptive composition included, is in
docs/proofs/pld.md. Nothing is taken on trust about rounding: each grid law is compared with the profile it stands for after
it was computed, and what the Fourier transforms can have lost is added to the mass at infinity.

Of dp-accounting only `DensePLDPmf` is used (``self_compose``, ``compose``, ``get_delta_for_epsilon``). Its
`PLDAccountant` ignores the count of a repeated `RandomizedResponseDpEvent` in 0.6.0, so repeats are never left to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.privacy.curves.base import Composition, Normal, Profiled, Use
from cutline.privacy.curves.gaussian import normal_profile
from cutline.privacy.rules.rdp import remaining_delta
from cutline.rounding import fraction_up, largest, smallest

Profile: TypeAlias = Callable[[FloatArray], FloatArray]

_ULP = 2.0**-53
_PROFILE_ERROR = 2.0**-47  # absolute, of any profile we evaluate: a few float operations on numbers of at most 1
_LARGEST_LOSS = 200.0  # of one use; beyond it exponentials lose their meaning and so would the answer
_MOST_DOTS, _FEWEST_DOTS = 20_000, 2_000  # on each side of zero: of one use alone, of one among many
_LONGEST = 1 << 15  # grid steps from zero to the largest loss of one use
_FINENESS = 10_000  # grid steps in one standard deviation of the total loss, at least
_COARSENESS = 2e-6  # relative growth of the total variance that discretisation may cause, while the grid allows it
_FINEST = 20_000  # grid steps in one standard deviation, at most
_LEFT_OUT = 1e-5  # share of delta that tails may cost
_TRANSFORM_ERROR = 16.0  # 6.7 ulp per level of one transform [Hig02, Theorem 24.2]; powers and the way back
_SECANTS = 20  # at most, before the search by halves goes on
_CLOSE = 2.0**-33  # of two logarithms


class Part(NamedTuple):
    """A dominating profile, and how many times it is used."""

    profile: Profile
    times: int


class GridLaw(NamedTuple):
    """A law of the privacy loss on ``-reach .. reach`` times the interval, and the mass at infinity."""

    reach: int
    masses: FloatArray
    infinite: float

    @property
    def variance(self) -> float:
        """Of the finite part, in squared grid steps; a rough float."""
        steps = np.arange(-self.reach, self.reach + 1, dtype=np.float64)
        return max(0.0, float(self.masses @ steps**2 - (self.masses @ steps) ** 2))


def pld(cost: Composition, delta: float) -> float:
    r"""Return epsilon by privacy-loss distributions; infinity if some use has no known profile.

    **Privacy.** Valid for adaptive composition of the uses, with the outside probability ``cost.delta`` taken off as
    everywhere, ``d' = (delta - delta_0) / (1 - delta_0)``; like all rules, for costs fixed in advance
    [ZDW22, Theorem 10; DGK22, Algorithm 1; docs/proofs/pld.md].

    Examples
    --------
    >>> from cutline.privacy import Adjacency, BoundedRange, Cost, Gaussian
    >>> noise = Cost.of(Gaussian(sigma=60.0), adjacency=Adjacency.ADD_REMOVE)
    >>> f"{pld(600 * noise, 4e-7):.4f}"
    '1.8848'
    """
    if not cost.delta < delta:
        return math.inf
    parts = dominating_parts(cost.uses)
    if parts is None:
        return math.inf
    if not parts:
        return 0.0
    return first_epsilon(parts, share=remaining_delta(delta=delta, slack=cost.delta), spread=math.sqrt(cost.rdp(2.0)))


def first_epsilon(parts: list[Part], *, share: float, spread: float) -> float:
    """Return the first epsilon at which all parts together are seen to stay within ``share``; infinity if none is.

    ``spread`` is about the standard deviation of the total loss: it says how fine a grid should be.
    """
    uses = sum(part.times for part in parts)
    tail = tail_left_out(share, uses)
    farthest = max(_first_within(part.profile, tail) for part in parts)
    if farthest == 0:  # every use is (0, tail)-DP, and deltas add up
        return 0.0 if uses * (tail + _PROFILE_ERROR) <= share else math.inf
    if not farthest <= _LARGEST_LOSS:
        return math.inf
    spread = min(spread, uses * farthest)
    fineness = min(max(_FINENESS, math.sqrt(uses / (6 * _COARSENESS))), _FINEST)
    interval = max(spread / fineness, farthest / _LONGEST)
    law = compose_parts(parts, interval=interval, tail=tail, give_up=share)
    if law is None:
        return math.inf

    # The sum over the grid is of positive numbers; its own rounding is far below this allowance.
    def spent(epsilon: float) -> float:
        return float(law.get_delta_for_epsilon(epsilon)) * (1 + 2.0**-30) + 2.0**-50

    return smallest(_Within(spent, share).holds, guess=spread, most=1e6, relative=1e-9)


class _Within:
    """Whether a function that never rises is at most ``share``, asked of few values: each is a sum over a whole grid.

    Once the last epsilon above and the first within are enclosed, secants find them in a few steps, where a search by halves
    needs thirty. What lies outside of two values seen close to both sides of it is then known.
    """

    def __init__(self, spent: Callable[[float], float], share: float) -> None:
        self._spent, self._share = spent, share
        self._above, self._within = -math.inf, math.inf
        self._excess: dict[float, float] = {}  # in logarithms, where profiles are nearly straight
        self._narrowed = False

    def holds(self, epsilon: float) -> bool:
        if self._above < epsilon < self._within and not self._narrowed and len(self._excess) > 1:
            self._narrow()
        if self._above < epsilon < self._within:
            self._ask(epsilon)
        return epsilon >= self._within

    def _ask(self, epsilon: float) -> float:
        spent = self._spent(epsilon)
        self._excess[epsilon] = math.log(spent) - math.log(self._share)
        if spent <= self._share:
            self._within = min(epsilon, self._within)
        else:
            self._above = max(epsilon, self._above)
        return self._excess[epsilon]

    def _narrow(self) -> None:
        if not (self._above >= 0 and self._within < math.inf):
            return
        self._narrowed = True
        low, high = self._above, self._within
        at_low, at_high, before = self._excess[low], self._excess[high], 0.0
        for _ in range(_SECANTS):
            middle = high - at_high * (high - low) / (at_high - at_low) if at_high < at_low else low
            if not low < middle < high:
                return
            found = self._ask(middle)
            if abs(found) < _CLOSE:
                break
            # An end that stays a second time counts half, so that both come closer (the Illinois rule).
            if found <= 0:
                high, at_high, at_low = middle, found, at_low / 2 if before < 0 else at_low
            else:
                low, at_low, at_high = middle, found, at_high / 2 if before > 0 else at_high
            before = found
        for side in (middle * (1 - 2.0**-33), middle * (1 + 2.0**-33)):
            if self._above < side < self._within:
                self._ask(side)


def tail_left_out(share: float, uses: int) -> float:
    """Return the probability that may be moved to infinity in each use."""
    return _LEFT_OUT * share / uses


def dominating_parts(uses: Iterable[Use]) -> list[Part] | None:
    """Return a dominating profile for each kind of use, all Gaussians merged into one; None if a use has none."""
    parts: list[Part] = []
    squared = Fraction(0)
    for use in uses:
        if isinstance(use.curve, Normal) and use.curve.mu < math.inf:
            squared += use.times * Fraction(use.curve.mu) ** 2
        elif isinstance(use.curve, Profiled):
            parts.append(Part(use.curve.profile, use.times))
        else:
            return None
    if squared:  # Gaussians compose to one Gaussian exactly [DRS22, Corollary 3.3]
        parts.append(Part(partial(normal_profile, math.sqrt(fraction_up(squared)) * (1 + 2.0**-50)), 1))
    return parts


def compose_parts(parts: list[Part], *, interval: float, tail: float, give_up: float = 1.0) -> Any:
    """Return a dp-accounting `DensePLDPmf` that dominates all parts together, every rounding error included.

    ``tail`` bounds what is moved to infinity per use to keep the grids short. None as soon as it is plain that rounding
    alone may exceed ``give_up``.
    """
    from dp_accounting.pld.pld_pmf import DensePLDPmf

    uses = sum(part.times for part in parts)
    dots = max(_FEWEST_DOTS, _MOST_DOTS // uses)
    laws = [grid_law(part.profile, interval=interval, tail=tail, dots=dots) for part in parts]
    norms = sum((part.times + 4) * float(np.linalg.norm(law.masses)) for part, law in zip(parts, laws, strict=True))
    # The composed law is at least some standard deviations long: a first guess, before the transforms are paid for.
    deviation = math.sqrt(sum(part.times * law.variance for part, law in zip(parts, laws, strict=True)))
    if uses > 1 and _transform_error(math.ceil(8 * deviation) + 1, norms) >= give_up:
        return None
    whole: Any = None
    for part, law in zip(parts, laws, strict=True):
        one = DensePLDPmf(interval, -law.reach, law.masses, law.infinite, True)
        many = one.self_compose(part.times, tail_mass_truncation=tail) if part.times > 1 else one
        whole = many if whole is None else whole.compose(many)
    if uses == 1:
        return whole
    # What the transforms can have lost, as one more mechanism that fails with that probability (docs/proofs/pld.md).
    return whole.compose(law_of_failure(interval, min(_transform_error(whole.size, norms), 1.0)))


def _transform_error(size: int, norms: float) -> float:
    return _TRANSFORM_ERROR * _ULP * math.log2(2 * size + 2) * math.sqrt(size) * norms


def law_of_failure(interval: float, probability: float) -> Any:
    """Return the distribution of a mechanism that reveals everything with this probability and else nothing."""
    from dp_accounting.pld.pld_pmf import DensePLDPmf

    return DensePLDPmf(interval, 0, np.array([math.nextafter(1 - probability, 2)]), probability, True)


def grid_law(profile: Profile, *, interval: float, tail: float, dots: int = _FEWEST_DOTS) -> GridLaw:
    r"""Return a law on multiples of ``interval`` whose profile is nowhere below ``profile``.

    Connect-the-dots [DGK22, Algorithm 1]: with a = e^x the profile is convex in a, and the law whose profile joins
    its values at the dots by chords has masses ``a_i (S_{i-1} - S_i)``, S being minus the slopes.
    """
    reach = max(1, math.ceil(_first_within(profile, tail) / interval))
    at = _dots(reach, dots)
    x: FloatArray = np.asarray(at * interval, dtype=np.float64)
    deltas = np.minimum.accumulate(np.clip(profile(x), 0.0, 1.0))
    a, rise = np.exp(x), np.exp(x[:-1]) * np.expm1(np.diff(x))
    slopes = np.concatenate([[(1 - deltas[0]) / a[0]], -np.diff(deltas) / rise, [0.0]])
    at_dots = np.maximum(-np.diff(slopes) * a, 0.0)
    masses = np.zeros(2 * reach + 1)
    masses[at + reach] = at_dots
    # The law as computed, against the profile: sums of positive terms only, in the longest floats the machine has.
    long = np.longdouble
    falling = np.cumsum((at_dots / a)[::-1], dtype=long)[::-1][1:]
    got = deltas[-1] + np.append(np.cumsum((rise * falling)[::-1], dtype=long)[::-1], long(0))
    relative = 4 * len(at) * float(np.finfo(long).eps) + (16 + 4 * x[-1]) * _ULP
    short = float(np.max(deltas + _PROFILE_ERROR - got * (1 - relative)))
    missing = float(1 - (at_dots.sum(dtype=long) + deltas[-1]) * (1 - relative))
    return GridLaw(reach, masses, min(1.0, float(deltas[-1]) + max(short, missing, 0.0)))


@lru_cache(maxsize=64)
def _dots(reach: int, most: int) -> IntArray:
    """Return grid indices from -reach to reach: all of them if few, else ever sparser away from zero."""
    if reach <= most:
        return np.arange(-reach, reach + 1)
    # c asinh(reach / c) is the number of dots, and grows with c
    c = largest(lambda c: c * math.asinh(reach / c) < most, low=1.0, high=float(most), relative=1e-15)
    right = np.unique(np.append(np.round(c * np.sinh(np.arange(1, most) / c)), reach).astype(np.int64))
    right = right[(right > 0) & (right <= reach)]
    return np.concatenate([-right[::-1], [0], right])


def _first_within(profile: Profile, tail: float) -> float:
    """Return a loss beyond which the profile is at most ``tail``; past `_LARGEST_LOSS` the search is given up."""
    found = smallest(
        lambda x: bool(profile(np.array([x]))[0] <= tail), guess=2.0**-20, most=_LARGEST_LOSS, relative=1 / 64
    )
    return min(found, 2 * _LARGEST_LOSS)
