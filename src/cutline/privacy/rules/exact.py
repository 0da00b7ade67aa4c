r"""The exact price of bounded-range steps chosen one after the other: a value recursion instead of a Rényi order.

An adversary who sees every answer before the next step picks, at each step, the worst bounded-range pair for where the
log-ratio stands. With ``V_n(x)`` the largest hockey-stick divergence at ``e^x`` after n steps,

    V_0(x) = (1 - e^x)_+,   V_n(x) = max over t in [0, eps] of p_t V_{n-1}(x - t) + (1 - p_t) V_{n-1}(x - t + eps),

``p_t = (1 - e^{t-eps}) / (1 - e^-eps)``, is attained by a sequence of exponential mechanisms, so no accountant can be
tighter for them [DDR20; docs/proofs/exact.md]. Here it is bounded from above on a grid, to second order in its step.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from cutline.arrays import FloatArray
from cutline.privacy.curves.base import Composition
from cutline.privacy.curves.bounded_range import BoundedRange
from cutline.privacy.rules.pld import Part, dominating_parts, first_epsilon, tail_left_out
from cutline.privacy.rules.rdp import remaining_delta

_WORK = 16_000_000  # grid points times candidates times steps: about 0.2 s
_MOST_CELLS, _FEWEST_CELLS = 1 << 16, 4  # grid cells per step of range epsilon
_LARGEST_BLOCK = 1 << 20  # numbers in one array
_MOST_STEPS = 5_000
_OUT_OF_SIGHT = 1e-4  # share of delta left beyond the ends of a grid
_UP = 1 + 2.0**-46  # covers the rounding of one step of the recursion: sums of four non-negative products
_TINIEST = 1e-290  # added at every step, above anything that underflows
_SMALLEST_DELTA = 1e-250
_SHORTEST, _LONGEST = (
    1e-150,
    700.0,
)  # another step is left to other rules: squares would underflow, exponentials overflow


def exact(cost: Composition, delta: float) -> float:
    r"""Compose bounded-range steps exactly, with everything else that has a privacy profile placed before them.

    **Privacy.** Holds for any adaptive order of the uses, costs fixed in advance [docs/proofs/exact.md]. Steps of one
    epsilon, those that weigh most, go through the recursion; all other uses enter by their dominating pairs.

    The rule does not apply where there is no bounded-range use, or another use whose privacy profile is not known.

    Examples
    --------
    >>> from cutline.privacy import Adjacency, BoundedRange, Cost
    >>> step = Cost.of(BoundedRange(epsilon=0.05), adjacency=Adjacency.ADD_REMOVE)
    >>> f"{exact(600 * step, 4e-7):.2f} against {(600 * step).epsilons(4e-7)['rdp']:.2f}"
    '2.94 against 3.13'
    """
    ranges: Counter[float] = Counter()
    for use in cost.uses:
        if isinstance(use.curve, BoundedRange):
            ranges[use.curve.epsilon] += use.times
    share = remaining_delta(delta=delta, slack=cost.delta)
    if not ranges or not share >= _SMALLEST_DELTA:
        return math.inf
    epsilon = max(ranges, key=lambda e: ranges[e] * e * e)
    times, step = ranges[epsilon], BoundedRange(epsilon=epsilon)
    others = dominating_parts(use for use in cost.uses if use.curve != step)
    if others is None or times > _MOST_STEPS or not _SHORTEST <= epsilon <= _LONGEST:
        return math.inf
    if others:
        return _together(epsilon, times, others, share, spread=math.sqrt(cost.rdp(2.0)))
    reach = _reach(epsilon, times, _OUT_OF_SIGHT * share)
    return first_below(*adaptive_profile(epsilon, times, cells_within(epsilon, times, reach), reach), share)


def cells_within(epsilon: float, times: int, reach: float) -> int:
    """Return how finely ``[0, epsilon]`` can be divided for a fraction of a second's work."""
    length = reach / epsilon  # the grid has length * cells points, each with cells candidates
    room = min(_WORK / max(times - 1, 1), _LARGEST_BLOCK) if times > 1 else math.inf
    return max(_FEWEST_CELLS, int(min(math.sqrt(room / length), _MOST_CELLS / length)))


def adaptive_profile(epsilon: float, times: int, cells: int, reach: float) -> tuple[float, FloatArray]:
    r"""Bound the privacy profile of ``times`` adaptive steps at ``0, h, 2h, ...`` up to ``reach``; return h and the bounds.

    Between two grid points, the chord in ``e^x`` is a bound; beyond the last one, its value is; below 0,
    ``V(-x) = 1 - e^{-x} (1 - V(x))``.
    """
    h = epsilon / cells * (1 + 2.0**-50)
    size = max(math.ceil(reach / h), cells) + 1
    left = h * np.arange(cells, -1, -1)  # epsilon - x, exact near 0
    values = np.zeros(size)
    values[: cells + 1] = np.expm1(-left / 2) ** 2 / -math.expm1(-cells * h)  # one step, closed form
    values = np.minimum(values * _UP + _TINIEST, 1.0)  # no profile is above 1; left alone, the bounds could overflow
    t = h * np.arange(cells + 1)
    up = (np.expm1(-left) / math.expm1(-cells * h))[:, None]  # p_t: the log-ratio moves by t
    down = (math.exp(-cells * h) * np.expm1(t) / -math.expm1(-cells * h))[:, None]  # 1 - p_t: by t - epsilon
    lower, whole = t[:0:-1], np.empty(size + 2 * cells)
    room = np.empty((3, cells + 1, size if times > 1 else 0))
    for _ in range(times - 1):
        whole[:cells] = -np.expm1(-lower) + np.exp(-lower) * values[cells:0:-1]
        whole[cells : cells + size] = values
        whole[cells + size :] = values[-1]
        values = np.minimum(worst_mean(sliding_window_view(whole, size), up, down, h, room) * _UP + _TINIEST, 1.0)
    return h, values


def worst_mean(shifted: npt.NDArray[Any], up: FloatArray, down: FloatArray, h: float, room: FloatArray) -> FloatArray:
    """Return the largest mean over all t, on and off the grid; row i of ``shifted`` is V moved by i - cells points.

    ``room`` is three scratch arrays: fresh ones at every step would cost more time than the arithmetic.
    """
    cells, step = len(shifted) // 2, math.exp(h)
    after_up, after_down = shifted[cells::-1], shifted[: cells - 1 : -1]  # V(x - t) and V(x - t + eps)
    at, between, term = room[0], room[1, :-1], room[2, :-1]
    np.multiply(up, after_up, out=at)
    at += np.multiply(down, after_down, out=room[2])
    # Off the grid the mean is at most the parabola with Bernstein coefficients at[s], between[s], at[s+1].
    np.multiply(step / 2 * up[:-1], after_up[1:], out=between)
    between += np.multiply(step / 2 * down[:-1], after_down[1:], out=term)
    between += np.multiply(up[1:] / (2 * step), after_up[:-1], out=term)
    between += np.multiply(down[1:] / (2 * step), after_down[:-1], out=term)
    # Its top is at[s] + a^2 / (a + b) where a = between - at[s] and b = between - at[s+1] are positive, else at an end.
    second = np.maximum(np.subtract(between, at[1:], out=term), 0.0, out=term)
    first = np.maximum(np.subtract(between, at[:-1], out=between), 0.0, out=between)
    second += first
    second += _TINIEST  # never divide by 0; where b is 0 the top is at most at[s] + a = at[s+1] or below it
    first *= np.divide(first, second, out=second)
    first += at[:-1]
    tops: FloatArray = np.maximum(first.max(axis=0), at[-1])
    return tops


def first_below(h: float, values: FloatArray, share: float) -> float:
    """Return the first x, rounded up, at which the chord through the bounds is at most ``share``."""
    above = np.flatnonzero(~(values <= share))
    if above.size == 0:
        return 0.0
    last = int(above[-1])
    if last + 1 == len(values):
        return math.inf
    part = (values[last] - share) / (values[last] - values[last + 1])
    return float((last * h + math.log1p(part * math.expm1(h))) * (1 + 2.0**-44))


def _reach(epsilon: float, times: int, left: float) -> float:
    """Return where the profile has fallen to about ``left``: eps^2/8-zCDP, or pure DP."""
    rho = times * epsilon * epsilon / 8
    return min(times * epsilon, rho + 2 * math.sqrt(rho * -math.log(left)))


def _together(epsilon: float, times: int, others: list[Part], share: float, *, spread: float) -> float:
    """Compose the profile of the adaptive steps with the dominating pairs of the other uses."""
    tail = tail_left_out(share, 1 + sum(part.times for part in others))
    reach = _reach(epsilon, times, tail)
    cells = cells_within(epsilon, times, reach)
    h, values = adaptive_profile(epsilon, times, cells, reach)
    if not values[-1] <= tail:
        return math.inf
    return first_epsilon([Part(partial(_joined, h, values), 1), *others], share=share, spread=spread)


def _joined(h: float, values: FloatArray, epsilons: FloatArray) -> FloatArray:
    """Return the bounds joined by chords in ``e^x``, continued to both sides."""
    x = np.asarray(epsilons, dtype=np.float64)
    right = np.abs(x) * (1 - 2.0**-50)  # where the profile is no smaller, whatever the rounding of what follows
    at = np.minimum(right / h, len(values) - 2).astype(np.int64)
    part = np.minimum(np.expm1(right - at * h) / math.expm1(h), 1.0)
    chord = values[at] + (values[at + 1] - values[at]) * part
    return np.where(x >= 0, chord, -np.expm1(np.minimum(x, 0.0)) + np.exp(np.minimum(x, 0.0)) * chord)
