r"""The exact price of planned releases: what the worst adversary attains who sees every answer before the next question.

T releases of one kind are planned. Between neighbours one of them is a coin of a bit table against the coin one step beside it,
or the unstable case, in which each side has an outcome of its own with probability delta_t; where k was drawn, a bounded-range
step comes with it. With ``V_n(x)`` the largest hockey-stick divergence at ``e^x`` after n releases,

    V_0(x) = (1 - e^x)_+,   (C V)(x) = max over coins of sum_o P(o) V(x - ln P(o)/Q(o)), and delta_t + (1 - delta_t) V(x),

``V_n = C V_{n-1}``, or the larger of ``B C V_{n-1}`` and ``C B V_{n-1}`` with the operator B of the rule ``exact``. No Rényi
order is chosen and none is wasted: epsilon is where V_T falls to delta [docs/proofs/adaptive.md]. Here V is bounded from above
on a grid.

The price holds for a plan. It is not a filter: releases whose number or kind depends on earlier answers, as in a ledger, are
charged at one Rényi order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from cutline.arrays import FloatArray, IntArray
from cutline.privacy.curves.base import Composition, Use
from cutline.privacy.curves.bit_table import BitTable
from cutline.privacy.curves.bounded_range import BoundedRange
from cutline.privacy.rules.coin_laws import CoinLaws
from cutline.privacy.rules.exact import first_below, worst_mean
from cutline.privacy.rules.rdp import rdp
from cutline.rounding import sum_up

_WORK = (
    1.1e10  # laws times grid points times releases: half a minute; a coarser grid is taken where more would be needed
)
_FINE, _FINER, _COARSEST = (
    10.0,
    300.0,
    2.5,
)  # grid points in the standard deviation of one coin's loss; more for few rounds
_SPREAD, _SPREAD_OF_MANY, _MANY = 2e-4, 1e-3, 1000  # how far laws are spread so that fewer remain
_MOST_POINTS = 1 << 15
_RANGE_WORK, _LARGEST_BLOCK, _SMALLEST_BLOCK = 8e7, 1 << 20, 1 << 15  # of a bounded-range step: in all, and at once
_OUT_OF_SIGHT = 1e-3  # share of delta at which the Rényi rule puts the end of the grid
_FARTHEST = 700.0
_UNSEEN = 1e-5  # share of delta that all coins of the smallest total variation may cost together
_FLAT = 1e-5  # share of delta by which the last value may stand out before the grid is made longer
_FEWEST_CELLS, _SHORTEST = 4, 256
_CACHED = 1 << 16  # numbers in one product of matrices, which then stays in the cache
_UP = 1 + 2.0**-46  # covers the rounding of one operator: sums of a few non-negative products
_TINIEST = 1e-290  # added at every step, above anything that underflows

Operator: TypeAlias = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Round:
    """What the adversary plays again and again: the coins of a table, the unstable case, a bounded-range step; or fewer."""

    biases: FloatArray
    unstable: float = 0.0  # delta_t
    epsilon: float = 0.0  # of the bounded-range step, 0 if there is none

    @classmethod
    def of(cls, uses: tuple[Use, ...]) -> Self | None:
        """Return the round of one release; None if its uses are other than those above."""
        tables = [use for use in uses if isinstance(use.curve, BitTable)]
        ranges = [use for use in uses if isinstance(use.curve, BoundedRange)]
        if len(tables) + len(ranges) != len(uses) or len(tables) != 1 or len(ranges) > 1:
            return None
        (table,) = tables
        values = table.curve.values if isinstance(table.curve, BitTable) else ()
        # A table's delta is the chance of passing where the set is unstable; any other delta would be some other event.
        known = table.delta in (0.0, values[0]) and not any(use.delta for use in ranges)
        once = len(uses) == 1 or all(use.times == 1 for use in uses)
        inside = len(values) == 1 or (values[0] > 0 and values[-1] < 1)
        if not (known and once and inside):
            return None
        epsilon = ranges[0].curve.epsilon if ranges and isinstance(ranges[0].curve, BoundedRange) else 0.0
        return cls(biases=np.asarray(values, dtype=np.float64), unstable=table.delta, epsilon=epsilon)


def adaptive(cost: Composition, delta: float, *, releases: int = 1) -> float:
    r"""Return the epsilon of ``releases`` planned releases, one after the other, each of which costs ``cost``.

    **Privacy.** Holds for adaptively chosen data and any order of the uses within one release; stopping early is covered
    [docs/proofs/adaptive.md]. Never above the rule ``rdp``.

    The rule applies to releases by one bit table (as stability tests with the delta of the unstable case, or as coins without
    a delta, any number of them), alone or with one bounded-range step. Elsewhere it is infinite.

    Examples
    --------
    >>> from cutline.privacy import Adjacency, BitTable, Cost
    >>> table = BitTable.stability(order=17.0, rdp=0.02, delta=1e-8)
    >>> test = Cost.of(table, adjacency=Adjacency.ADD_REMOVE, delta=1e-8)
    >>> f"{adaptive(test, 1e-6, releases=10):.2f} against {rdp(10 * test, 1e-6):.2f}"
    '0.80 against 0.83'
    """
    played = Round.of(cost.uses)
    if played is None or releases < 1:
        return math.inf
    # Coins of one kind may be counted as releases or as uses: it is the same plan, and priced once.
    times = releases * max(use.times for use in cost.uses)
    return _price(_Planned(uses=tuple(Use(curve=use.curve, delta=use.delta, times=times) for use in cost.uses)), delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """The uses of all rounds, as the Rényi rule reads them; `cutline.privacy.cost` stands above the rules."""

    uses: tuple[Use, ...]

    @property
    def delta(self) -> float:
        return sum_up((use.times, use.delta) for use in self.uses)

    def rdp(self, order: float) -> float:
        return sum_up((use.times, use.curve.rdp(order)) for use in self.uses)


@lru_cache(maxsize=256)
def _price(plan: _Planned, delta: float) -> float:
    known = rdp(plan, delta)
    played = Round.of(tuple(Use(curve=use.curve, delta=use.delta) for use in plan.uses))
    if played is None or not 0 < known < math.inf:
        return known
    without = _Planned(uses=tuple(Use(curve=use.curve, times=use.times) for use in plan.uses))
    reach = min(rdp(without, _OUT_OF_SIGHT * delta), 3 * known + 3, _FARTHEST)
    return min(known, price(played, plan.uses[0].times, delta, guess=known, reach=reach))


def price(
    played: Round,
    times: int,
    delta: float,
    *,
    guess: float,
    reach: float,
    finest: float | None = None,
    spread: float | None = None,
) -> float:
    r"""Return the epsilon at which the adversary is held to ``delta`` after ``times`` rounds, rounded up.

    ``guess`` is an epsilon of about that size, which decides how fine a grid is worth its time; the grid grows as far as
    ``reach``. ``finest`` and ``spread`` trade accuracy for time, to the safe side.
    """
    # Two laws at total variation v differ by less than the unstable case with delta_t = v: coins of less need not be tried.
    unstable = max(played.unstable, _UNSEEN * delta / times)
    laws = CoinLaws.of(played.biases, at_least=unstable)
    laws, step = (laws.thinned(_spread(times) if spread is None else spread), laws.step) if len(laws) else (laws, 0.0)
    sharp = min(s for s in (step, played.epsilon, reach) if s > 0)
    finest = _FINE + _FINER / times if finest is None else finest
    fine = min(finest, max(_COARSEST, _WORK * sharp / (max(len(laws), 1) * guess * times)))
    # The operator B works on as many numbers as the grid has points and cells together.
    block = min(_LARGEST_BLOCK, max(_RANGE_WORK / times, _SMALLEST_BLOCK))
    h = max(sharp / fine, reach / _MOST_POINTS, math.sqrt(played.epsilon * reach / block))
    cells = max(_FEWEST_CELLS, math.ceil(played.epsilon / h)) if played.epsilon else 0
    h = played.epsilon / cells * (1 + 2.0**-50) if cells else h
    size = max(math.ceil(reach / h), 2) + 1
    coin = _Coins.on_grid(laws, h=h, size=size, unstable=unstable)
    if not cells:
        return first_below(h, repeat(coin, times, size=size, unstable=unstable, delta=delta), delta)
    ranged = _Range.on_grid(cells=cells, h=h, size=size)

    def both(values: FloatArray) -> FloatArray:  # a cost does not say which of its uses comes first
        return np.maximum(ranged(coin(values)), coin(ranged(values)))

    return first_below(h, repeat(both, times, size=size, unstable=unstable, delta=delta), delta)


def _spread(times: int) -> float:
    return _SPREAD_OF_MANY if times > _MANY else _SPREAD


def repeat(operator: Operator, times: int, *, size: int, unstable: float, delta: float) -> FloatArray:
    """Apply an operator to V_0, as many times; the grid starts short and grows as V spreads, V being constant beyond it."""
    values = np.zeros(min(size, _SHORTEST))  # (1 - e^x)_+ at 0, h, 2h, ...
    flat = 0.0  # what the unstable case alone amounts to, at every x
    for _ in range(times):
        flat += unstable * (1 - flat)
        after = _bounded(operator(values))
        while len(values) < size and after[-1] > flat * (1 + 1e-9) + _FLAT * delta:
            longer = min(size, len(values) + max(len(values) // 4, 1))
            values = np.concatenate([values, np.full(longer - len(values), values[-1])])
            after = _bounded(operator(values))
        values = after
    return values


def _bounded(values: FloatArray) -> FloatArray:
    """Round up; V is never above 1, and never rises, which chords rely on."""
    return np.maximum.accumulate(np.minimum(values * _UP + _TINIEST, 1.0)[::-1])[::-1]


def extend(values: FloatArray, *, left: int, right: int, h: float) -> FloatArray:
    """Return V at ``-left h .. (len(values) + right - 1) h``: ``V(-x) = 1 - e^{-x} (1 - V(x))``, and constant above the top."""
    below = h * np.arange(left, 0, -1)
    mirrored = values[np.minimum(np.arange(left, 0, -1), len(values) - 1)]
    lower = (-np.expm1(-below) + np.exp(-below) * mirrored) * _UP
    return np.concatenate([lower, values, np.full(right, values[-1])])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class _Coins:
    """The operator C: coins laid on the grid, each a sum of four shifted copies of V."""

    h: float
    left: int  # how far V is needed below 0
    right: int  # and above the top
    shifts: IntArray  # those that occur
    weights: Any  # a sparse matrix, laws by shifts
    ones: FloatArray | None  # the chance of outcomes after which V counts as 1, if there are any
    unstable: float

    @classmethod
    def on_grid(cls, laws: CoinLaws, *, h: float, size: int, unstable: float) -> Self:
        from scipy.sparse import csr_array

        total = laws.up + laws.down
        losses = np.stack([np.log1p(laws.up), np.log1p(-np.minimum(laws.down, 1 - 2.0**-53))], axis=1)
        chances = np.stack([(1 + laws.up) * laws.down / total, (1 - laws.down) * laws.up / total], axis=1) * _UP
        floors = np.floor(-losses / h)
        # The share of the upper neighbour in a chord in e^x; a hair less of it, as V is larger at the lower one.
        part = np.expm1(-losses - floors * h) / math.expm1(h)
        part = np.clip(part - 2.0**-48 * (1 + np.abs(losses)) / h - 2.0**-46, 0.0, 1.0)
        # Far below 0 it is enough that V is at most 1, and above the top V is constant: no shift is longer than the grid needs.
        certain = floors < -4 * size
        left = int(max(1.0, -floors[~certain].min(initial=0.0)))
        right = int(min(max(floors.max(initial=0.0) + 2, 1), size))
        at = np.clip(floors, -left, right - 1).astype(np.int64)
        columns = np.stack([at, at + 1], axis=2).reshape(len(laws), 4)
        shares = np.stack([chances * (1 - part), chances * part], axis=2) * _UP
        shares[certain] = 0.0
        shares = shares.reshape(len(laws), 4)
        shifts, index = np.unique(columns, return_inverse=True)
        index = index.reshape(columns.shape)
        weights = csr_array(
            (shares.ravel(), index.ravel(), np.arange(0, shares.size + 1, 4)), shape=(len(laws), len(shifts))
        )
        ones = np.where(certain, chances, 0.0).sum(axis=1)[:, None] if certain.any() else None
        return cls(h=h, left=left, right=right, shifts=shifts + left, weights=weights, ones=ones, unstable=unstable)

    def __call__(self, values: FloatArray) -> FloatArray:
        whole = extend(values, left=self.left, right=self.right, h=self.h)
        best = self.unstable + (1 - self.unstable) * values
        laws = self.weights.shape[0]
        if not laws:
            return best
        shifted = sliding_window_view(whole, len(values))
        points = max(_CACHED // laws, 128)
        for i in range(0, len(values), points):
            means = self.weights @ shifted[self.shifts, i : i + points]
            if self.ones is not None:
                means += self.ones
            np.maximum(best[i : i + points], means.max(axis=0), out=best[i : i + points])
        return best


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class _Range:
    """The operator B of a bounded-range step, as the rule ``exact`` bounds it."""

    h: float
    cells: int
    up: FloatArray
    down: FloatArray
    room: FloatArray

    @classmethod
    def on_grid(cls, *, cells: int, h: float, size: int) -> Self:
        steps = h * np.arange(cells + 1)
        up = np.expm1(-steps[::-1]) / math.expm1(-cells * h)
        down = math.exp(-cells * h) * np.expm1(steps) / -math.expm1(-cells * h)
        return cls(h=h, cells=cells, up=up[:, None], down=down[:, None], room=np.empty((3, cells + 1, size)))

    def __call__(self, values: FloatArray) -> FloatArray:
        whole = extend(values, left=self.cells, right=self.cells, h=self.h)
        room = self.room[:, :, : len(values)]
        worst = worst_mean(sliding_window_view(whole, len(values)), self.up, self.down, self.h, room)
        return np.maximum.accumulate((worst * _UP)[::-1])[::-1]
