r"""The strongest adaptive adversary against a claimed (epsilon, delta): it plays rounds of explicit pairs of laws.

In each round it sees every answer so far, picks from each family the pair of laws that suits it best, and at the end wants
the largest hockey-stick divergence. With ``V(g)`` that divergence at ``g = e^epsilon``,

    V_0(g) = (1 - g)_+,   V(g) <- max over the family of  sum over outcomes o of P(o) V(g Q(o) / P(o)).

It knows nothing of how costs are computed, so it can show a rule of `cutline.privacy.rules` wrong, and never shares its
mistakes. V is kept on a uniform grid of ln g; between grid points it is joined by chords in g, which lie above V since V is
convex, so the value returned is at least what the families allow, by a little [docs/proofs/exact.md].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch

import numpy as np
from scipy.special import ndtr

from cutline.arrays import FloatArray
from cutline.errors import ParameterError
from cutline.privacy import BitTable, BoundedRange, Cost, Curve, Gaussian, GaussianBit, Pure

_TOPS = 24  # bounded-range pairs tried per step
_COINS = 40  # pairs of neighbouring coins tried per table, spread over its values
_SLICES = 64  # outcomes of a Gaussian cut into intervals
_POINTS = 4000  # of the grid, from 0 to epsilon


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """Pairs of laws to choose from: row i of ``p`` and of ``q`` is one pair, outcome by outcome; rows sum to 1."""

    p: FloatArray
    q: FloatArray

    def __post_init__(self) -> None:
        for law in (self.p, self.q):
            if law.ndim != 2 or not np.all(law >= 0) or not np.allclose(law.sum(axis=1), 1, rtol=0, atol=1e-12):
                raise ParameterError("a family is rows of probabilities that sum to 1", "", "")
        if self.p.shape != self.q.shape:
            raise ParameterError("both laws of a pair have the same outcomes", f"{self.p.shape}, {self.q.shape}", "")

    def or_caught(self, delta: float) -> Family:
        """Return the family in which, with probability delta, an outcome shows which law it came from."""
        if delta == 0:
            return self
        own, none = np.full((len(self.p), 1), delta), np.zeros((len(self.p), 1))
        return Family(p=np.hstack([(1 - delta) * self.p, own, none]), q=np.hstack([(1 - delta) * self.q, none, own]))


@singledispatch
def family(curve: Curve) -> Family:
    """Return pairs of laws that one use of the curve allows; kinds without any are refused."""
    given, advice = f"kind={curve.kind!r}", "Pass families instead of a cost."
    raise ParameterError("the adversary needs explicit pairs of laws", given, advice)


@family.register
def _(curve: BoundedRange) -> Family:
    """Two atoms, log-ratios t and t - epsilon; denser near both ends, where few and late steps have their optimum."""
    near = np.exp2(-np.arange(5.0, 17.0))
    t = curve.epsilon * np.concatenate([near, np.arange(1, _TOPS) / _TOPS, 1 - near])
    p = np.expm1(t - curve.epsilon) / math.expm1(-curve.epsilon)
    q = np.exp(-t) * p
    return Family(p=np.stack([p, 1 - p], axis=1), q=np.stack([q, 1 - q], axis=1))


@family.register
def _(curve: Pure) -> Family:
    """Randomised response."""
    yes = 1 / (1 + math.exp(-curve.epsilon))
    return _both_ways(np.array([yes]), np.array([1 - yes]))


@family.register
def _(curve: BitTable) -> Family:
    return _coins(np.asarray(curve.values), 1)


@family.register
def _(curve: GaussianBit) -> Family:
    distances = np.arange(math.ceil((curve.offset + 6) * curve.sigma))
    return _coins(ndtr(distances / curve.sigma - curve.offset), curve.reach)


@family.register
def _(curve: Gaussian) -> Family:
    """Cut the noisy number into slices: an attack, not the whole mechanism."""
    mu = math.sqrt(curve.squared_sensitivity) / curve.sigma
    edges = np.concatenate([[-math.inf], np.linspace(-8, 8, _SLICES - 1) + mu / 2, [math.inf]])
    p, q = np.diff(ndtr(edges - mu)), np.diff(ndtr(edges))
    keep = (p > 0) & (q > 0)
    p, q = p[keep] / p[keep].sum(), q[keep] / q[keep].sum()
    return Family(p=np.stack([p, q]), q=np.stack([q, p]))


def stability(table: BitTable, delta: float) -> Family:
    """Return what a stability test allows: a step along the table, or two sets that each go out with probability delta."""
    coins = _coins(np.asarray(table.values), 1)
    none = np.zeros((len(coins.p), 2))
    p, q = np.array([[0.0, 1 - delta, delta, 0.0]]), np.array([[0.0, 1 - delta, 0.0, delta]])
    return Family(p=np.vstack([np.hstack([coins.p, none]), p]), q=np.vstack([np.hstack([coins.q, none]), q]))


def planned_families(cost: Cost) -> list[Family]:
    """Return what the steps of one planned release allow, a table's delta being that of the unstable case."""
    return [
        stability(use.curve, use.delta) if isinstance(use.curve, BitTable) else family(use.curve).or_caught(use.delta)
        for use in cost.uses
    ]


def families(cost: Cost) -> list[Family]:
    """Return what each use of the cost allows, in the cost's own order, each as often as it is used."""
    return [family(use.curve).or_caught(use.delta) for use in cost.uses for _ in range(use.times)]


def adversary_profile(
    attack: Cost | Sequence[Family], rounds: int, epsilon: float, *, points: int = _POINTS
) -> Callable[[float], float]:
    """Return the adversary's delta as a function, after ``rounds`` rounds of the attack, sharp from 0 to ``epsilon``.

    A round plays one family after the other in the order given. ``epsilon`` is the ``points``-th point of the grid, which
    goes on to half as much again; V is held constant beyond.
    """
    h = epsilon / points
    played = [_Move.of(f, h) for f in (families(attack) if isinstance(attack, Cost) else attack)]
    last = points + math.ceil((0.5 * epsilon + 0.1) / h)
    x = h * np.arange(-last, last + 1)
    value = np.maximum(-np.expm1(x), 0.0)
    for _ in range(rounds):
        for move in reversed(played):  # the recursion goes from the last answer back to the first
            value = move.best(value, h)
    g = np.exp(x)
    return lambda at: float(np.interp(math.exp(min(at, x[-1])), g, value))


def adversary_delta(attack: Cost | Sequence[Family], rounds: int, epsilon: float, *, points: int = _POINTS) -> float:
    """Return the delta that the adversary attains at ``epsilon``; above a claimed delta, the claim is false.

    Examples
    --------
    >>> from cutline.privacy import Adjacency
    >>> step = Cost.of(BoundedRange(epsilon=0.5), adjacency=Adjacency.ADD_REMOVE)
    >>> claimed = (10 * step).epsilon(1e-6)
    >>> adversary_delta(step, 10, claimed) <= 1e-6 < adversary_delta(step, 10, 0.9 * claimed)
    True
    """
    return adversary_profile(attack, rounds, epsilon, points=points)(epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """A family laid on a grid: by how many points an outcome shifts V, and with which weights of two neighbours."""

    shifts: list[list[int]]
    below: list[list[float]]
    above: list[list[float]]
    certain: list[float]  # outcomes that Q never has

    @classmethod
    def of(cls, pairs: Family, h: float) -> _Move:
        with np.errstate(divide="ignore", invalid="ignore"):
            losses = np.log(pairs.p / pairs.q)
        possible = (pairs.p > 0) & (pairs.q > 0)
        losses = np.where(possible, losses, 0.0)
        shifts = np.floor(-losses / h)  # ln g moves down by the loss
        part = np.expm1(-losses - shifts * h) / math.expm1(h)
        weights = np.where(possible, pairs.p, 0.0)
        return cls(
            shifts=shifts.astype(int).tolist(),
            below=(weights * (1 - part)).tolist(),
            above=(weights * part).tolist(),
            certain=np.where(pairs.q == 0, pairs.p, 0.0).sum(axis=1).tolist(),
        )

    def best(self, value: FloatArray, h: float) -> FloatArray:
        """Return the largest mean over the family at every grid point."""
        longest = max(max(abs(s) for s in row) for row in self.shifts) + 1
        # Towards g = 0 the chord to V(0) = 1, beyond the top the last value: both lie above V.
        low = 1 - (1 - value[0]) * np.exp(-h * np.arange(longest, 0, -1))
        whole = np.concatenate([low, value, np.full(longest, value[-1])])
        size, best = len(value), np.zeros_like(value)
        mean, term, other = np.empty(
            (3, size)
        )  # fresh arrays for every outcome would cost more time than the arithmetic
        for shifts, below, above, certain in zip(self.shifts, self.below, self.above, self.certain, strict=True):
            mean.fill(certain)
            for shift, left, right in zip(shifts, below, above, strict=True):
                if left + right > 0:
                    start = longest + shift
                    np.multiply(left, whole[start : start + size], out=term)
                    term += np.multiply(right, whole[start + 1 : start + 1 + size], out=other)
                    mean += term
            np.maximum(best, mean, out=best)
        return best


def _coins(values: FloatArray, apart: int) -> Family:
    """Return neighbouring coins spread over the table, both ways; always the steps from its first and to its last."""
    last = len(values) - 1 - apart
    picked = np.unique(np.linspace(0, last, _COINS if last >= 0 else 0).astype(int))
    low, high = values[picked], values[picked + apart]
    return _both_ways(np.append(low, 0.5), np.append(high, 0.5))  # two equal coins, so that a constant table has a pair


def _both_ways(low: FloatArray, high: FloatArray) -> Family:
    p, q = np.append(low, high), np.append(high, low)
    return Family(p=np.stack([p, 1 - p], axis=1), q=np.stack([q, 1 - q], axis=1))
