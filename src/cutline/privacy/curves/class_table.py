r"""One class out of several by weights that are read off a table at its number of votes: what one teacher's vote can change.

A class with n votes weighs ``v(n)``, and class j comes out with probability ``v(n_j)`` over the sum of all weights. If v is an
exponential this is the exponential mechanism, and for two classes a voting table of `BitTable` has this form. One vote moves
one or two weights and leaves all others as they are, so the exact Rényi divergence is that of three outcomes: the two classes,
and all the rest together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cutline.arrays import FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.privacy.curves.base import check_order, check_positive, check_whole, hold, register
from cutline.privacy.curves.bit_table import log_of_sum
from cutline.privacy.curves.bounded_range import BoundedRange

LIGHTEST, HEAVIEST = 2**30, 2**430  # whole weights: ratios are good to 1e-9, and drawing needs no fractions
HASTES = (1.0, 1.5, 2.5)
MOST_VOTES = 1000  # every pair of counts is looked at
_FAR = 300.0  # above this exponent a divergence is bounded by its limit at infinite order
_ROUND_UP = 1 + 1e-12
_TINY = 1e-6
_ROUNDS = 60
_UNSPENT = 1e-7  # of the cost that a table is built for
_LENIENT = (
    1 + 1e-10
)  # a step may cost so much more while a table is built: lighter classes can stand at the bound exactly


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ClassTable:
    r"""Weights of a class at 0, 1, ..., T votes: whole numbers that do not fall.

    **Privacy.** `rdp` is the largest Rényi divergence over all numbers of votes that the classes which lose and win it can
    have, and over every weight of the rest: that supremum is known in closed form [docs/proofs/class-vote.md].

    Parameters
    ----------
    weights
        At 0, 1, ..., T votes, of T votes in all.
    classes
        How many classes there are.
    moved
        2 if a vote may pass from one class to another (or to none), 1 if a vote may only come or go.

    Examples
    --------
    >>> table = ClassTable.build(order=8.0, rdp=0.05, votes=50, classes=10, moved=2)
    >>> 0.0499999 < table.rdp(8.0) <= 0.05
    True
    >>> weights = table(np.array([40, 6, 4] + 7 * [0]))
    >>> f"{weights[0] / weights.sum():.3f}"
    '0.974'
    """

    kind: ClassVar[str] = "class-table"
    weights: tuple[int, ...]
    classes: int
    moved: int

    def __post_init__(self) -> None:
        hold(self, classes=check_whole("classes", self.classes), moved=check_whole("moved", self.moved, most=2))
        values = self.weights
        if len(values) < 2 or values[0] < 1 or values[-1] > HEAVIEST or any(b < a for a, b in pairwise(values)):
            raise ParameterError("weights must be whole numbers of at least 1 that do not fall", "", "Use build.")
        if any(int(float(value)) != value for value in values):
            # The cost is computed from floats: a step that is small beside its weight would be lost in rounding.
            raise ParameterError("weights must have at most 53 binary digits before their zeros", "", "Use build.")
        _check_votes(len(values) - 1)

    @classmethod
    def build(cls, *, order: float, rdp: float, votes: int, classes: int, moved: int, haste: float = 2.5) -> Self:
        r"""Build the steepest table that one order allows: greedy upwards, each weight as large as the lighter ones permit.

        Up to half of the votes a step is at most ``haste`` times that of the exponential mechanism of the same cost: at high
        orders a step that is taken early leaves nothing for the later ones.
        """
        order, rdp = check_order(order), check_positive("rdp", rdp)
        _check_votes(check_whole("votes", votes))
        aim, best = rdp * (1 - _UNSPENT / 4), None
        low, high = 0.0, math.inf  # what was aimed at and fits, and what does not: the cost can jump in between
        for _ in range(_ROUNDS):
            table = cls(weights=_rise(order, aim, votes, classes, moved, haste), classes=classes, moved=moved)
            found = table.rdp(order)
            if found <= rdp:
                best, low = table, aim
                if found >= rdp * (1 - _UNSPENT) or found == 0:
                    break
            else:
                high = aim
            if high <= low * (1 + _UNSPENT):
                break
            aim *= (1 - _UNSPENT / 4) * rdp / found
            if not low < aim < high:
                aim = math.sqrt(low * high) if low else high / 2
        if best is None:
            raise ParameterError("a table must fit the cost it is for", f"rdp={rdp:.3g}", "Lower the order.")
        return best

    def __call__(self, votes: IntArray) -> npt.NDArray[Any]:
        """Return the weight at each number of votes: whole numbers, which can be too large for a machine's."""
        kind = np.int64 if self.weights[-1] < 2**62 else object
        return np.array(self.weights, dtype=kind)[np.clip(votes, 0, len(self.weights) - 1)]

    def sharpness(self) -> float:
        """Return how often a winner comes out who has 35 % to 85 % of the votes, half of the others being for the second."""
        weights, votes, found = np.array(self.weights, dtype=np.float64), len(self.weights) - 1, []
        for share in (0.35, 0.45, 0.55, 0.65, 0.75, 0.85):
            winner = round(share * votes)
            second = (votes - winner) // 2 if self.classes > 2 else votes - winner
            others = max(self.classes - 2, 0)
            each, more = divmod(votes - winner - second, others) if others else (0, 0)
            rest = (others - more) * weights[each] + more * weights[min(each + 1, votes)]
            found.append(weights[winner] / (weights[winner] + weights[second] + rest))
        return float(np.mean(found))

    def rdp(self, order: float) -> float:
        """Return the exact maximum over all moves of one vote at this order, rounded up."""
        return _dearest(self, check_order(order))

    def __repr__(self) -> str:
        return f"ClassTable({len(self.weights) - 1} votes, {self.classes} classes)"


def _check_votes(votes: int) -> None:
    """Raise if there are more votes than every pair of counts can be looked at for."""
    if votes > MOST_VOTES:
        raise ParameterError(f"a table of classes has at most {MOST_VOTES} votes", f"{votes}", "Use gnmax for more.")


class Moves(NamedTuple):
    """Moves of one vote: the weights of the classes that lose and win it, before and after, and what the rest may weigh."""

    loser: FloatArray
    winner: FloatArray
    loser_after: FloatArray
    winner_after: FloatArray
    least_rest: FloatArray
    most_rest: FloatArray


@lru_cache(maxsize=512)
def _dearest(table: ClassTable, order: float) -> float:
    moves = _moves(table)
    if not moves.loser.size:
        return 0.0
    return max(float(divergence(moves, order).max()), 0.0)


@lru_cache(maxsize=8)
def _moves(table: ClassTable) -> Moves:
    """List all moves of one vote that the table's numbers of votes allow, in both directions."""
    weights = np.asarray(table.weights, dtype=np.float64)
    votes, classes = len(weights) - 1, table.classes
    rest = _heaviest_rest(weights)
    below = np.arange(votes)
    # One vote that comes or goes: the class has n or n + 1 votes, the others share at most T - 1 - n.
    alone = _single(weights[:-1], weights[1:], weights[0] * (classes - 1), rest[votes - 1 - below] * (classes > 1))
    if table.moved == 1 or classes < 2:
        return alone
    x, y = (at.ravel() for at in np.meshgrid(below, below, indexing="ij"))
    x, y = x[x + y < votes], y[x + y < votes]
    least = np.full(x.shape, weights[0] * (classes - 2))
    passes = Moves(
        loser=weights[x + 1],
        winner=weights[y],
        loser_after=weights[x],
        winner_after=weights[y + 1],
        least_rest=least,
        most_rest=least + rest[votes - 1 - x - y] * (classes > 2),
    )
    return Moves(*map(np.concatenate, zip(alone, passes, strict=True)))


def _single(low: FloatArray, high: FloatArray, least: float, more: FloatArray) -> Moves:
    """Return the moves of a vote that comes (from the lower weight to the higher) or goes; nobody else loses or wins it."""
    before, after = np.concatenate([high, low]), np.concatenate([low, high])
    none, floor = np.zeros(before.shape), np.full(before.shape, least)
    return Moves(before, none, after, none, floor, floor + np.concatenate([more, more]))


def _heaviest_rest(weights: FloatArray) -> FloatArray:
    """Bound, for every number of votes that other classes share, how much they can weigh above what they weigh without any."""
    votes = np.arange(1, len(weights))
    each = np.maximum.accumulate((weights[1:] - weights[0]) / votes)
    return np.concatenate([[0.0], each * votes * _ROUND_UP])


def divergence(moves: Moves, order: float) -> FloatArray:
    r"""Bound the Rényi divergence of every move from above, at the worst weight of the rest.

    With A and B the weights of the two classes together before and after, and E = sum q f(ln p/q) over both, the divergence as
    a function of the rest's weight W has one stationary point, a maximum, at ``a (a-1) (A-B)^2 / E - B + (a-1) (A-B)``.
    """
    p, q = (moves.loser, moves.winner), (moves.loser_after, moves.winner_after)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratios = [
            np.where(after > 0, np.log1p((before - after) / after), 0.0) for before, after in zip(p, q, strict=True)
        ]
        before, after = p[0] + p[1], q[0] + q[1]
        far = order * np.maximum(np.abs(ratios[0]), np.abs(ratios[1])) > _FAR / 2
        if order == math.inf or far.all():
            return _largest_ratio(moves, ratios)
        gap = before - after
        excess = sum(
            (w * np.maximum(np.expm1(order * x) - order * np.expm1(x), 0.0) for w, x in zip(q, ratios, strict=True)),
            np.zeros(1),
        )
        worst = order * (order - 1) * gap * (gap / excess) - after + (order - 1) * gap
        rest = np.clip(np.where(np.isfinite(worst), worst, 0.0), moves.least_rest, moves.most_rest)
        shift = np.log1p(-gap / (before + rest))  # of every log-ratio, since the weights are divided by their sum
        outcomes = [(w / (after + rest), x + shift) for w, x in zip((*q, rest), (*ratios, 0.0), strict=True)]
        bound = log_of_sum(order, [(chance, x, np.expm1(x)) for chance, x in outcomes]) / (order - 1) * _ROUND_UP
        # Steps so small that E has lost its digits: a law within a range e of log-ratios costs at most a e^2 / 8.
        span = np.maximum(np.maximum(*ratios), 0.0) - np.minimum(np.minimum(*ratios), 0.0)
        bound = np.where(span < _TINY, order * span**2 / 8 * (1 + _TINY), bound)
        if far.any():
            bound = np.where(far, _largest_ratio(moves, ratios), bound)
    return np.where(np.isnan(bound), np.inf, bound)


def _largest_ratio(moves: Moves, ratios: list[FloatArray]) -> FloatArray:
    """Return the largest log-ratio of an outcome: it is monotone in the weight of the rest."""
    before, after = moves.loser + moves.winner, moves.loser_after + moves.winner_after
    found: FloatArray = np.full(before.shape, -np.inf)
    for rest in (moves.least_rest, moves.most_rest):
        shift = np.where(rest < np.inf, np.log((after + rest) / (before + rest)), 0.0)
        found = np.maximum(found, shift + np.maximum(ratios[0], np.where(moves.winner > 0, ratios[1], -np.inf)))
        found = np.maximum(found, np.where(rest > 0, shift, -np.inf))
    largest: FloatArray = np.maximum(found, 0.0) * _ROUND_UP
    return largest


def _rise(order: float, rdp: float, votes: int, classes: int, moved: int, haste: float) -> tuple[int, ...]:
    """Return the greedy weights in plain floats; `ClassTable.rdp` says what they really cost."""
    weights = [LIGHTEST]
    steady = BoundedRange.within(order=order, rdp=rdp).epsilon / moved  # the step of the exponential mechanism
    step = steady
    for n in range(votes):
        known = np.array(weights, dtype=np.float64)
        if weights[-1] >= HEAVIEST or classes < 2:
            weights.append(weights[-1])
            continue
        most = min(haste * steady if 2 * n < votes else math.inf, math.log(HEAVIEST / known[n]))
        step = _largest_step(known, step, most, order=order, rdp=rdp, votes=votes, classes=classes, moved=moved)
        weights.append(min(HEAVIEST, max(weights[-1], int(known[n] * math.exp(step)))))
    return tuple(weights)


def _largest_step(
    known: FloatArray, near: float, most_step: float, *, order: float, rdp: float, votes: int, classes: int, moved: int
) -> float:
    """Return by how much the logarithm of the next weight may be above that of the last, as far as lighter classes say."""
    from scipy.optimize import brentq

    n, left = len(known) - 1, votes - len(known)
    # The others may have more votes than any weight is known for: then they may weigh anything.
    rest = np.append(_heaviest_rest(known), np.inf)
    y = np.arange(min(n, left) + 1)
    least, most = known[0] * (classes - 2), rest[np.minimum(left - y, n + 1)] if classes > 2 else np.zeros(1)

    def excess(step: float) -> float:
        top = known[n] * math.exp(step)
        moves = _single(known[-1:], np.array([top]), known[0] * (classes - 1), rest[[min(left, n + 1)]])
        if moved == 2:
            lower, upper = known[y], np.append(known, top)[y + 1]
            old, new = np.full(y.shape, known[n]), np.full(y.shape, top)
            floor = np.full(y.shape, least)
            falls = Moves(new, lower, old, upper, floor, floor + most)
            rises = Moves(old, upper, new, lower, floor, floor + most)
            moves = Moves(*map(np.concatenate, zip(moves, falls, rises, strict=True)))
        return float(divergence(moves, order).max()) - rdp * _LENIENT

    if excess(0.0) >= 0:
        return 0.0
    high = min(2 * max(near, 1e-9), most_step)
    while excess(high) <= 0:
        if high >= most_step:
            return most_step
        high = min(2 * high, most_step)
    return float(brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-9))
