r"""Which epsilon a score needs, and how far other queries would have moved it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cutline.arrays import FloatArray
from experiments.exp3.polls import Tally

CLOSELY = 0.005  # how closely an epsilon is searched, relative
_DRAWS = 200
_OUTSIDE = 0.1  # share of the draws on each side of an interval


class Interval(NamedTuple):
    """Two ends; 0 and infinity stand for "below all that were tried" and "above"."""

    low: float
    high: float


def least_epsilon(mean: Callable[[float], float], epsilons: Sequence[float], target: float) -> float | None:
    r"""Return an epsilon at which ``mean`` was seen to reach the target, 0.5 % above one at which it was seen not to.

    The epsilons are tried first, from the smallest; between the two around the target the interval is halved in its logarithm,
    whatever the curve looks like. The first of the epsilons is returned if it is enough already: then less may do. None: the
    target was not reached.

    Examples
    --------
    >>> found = least_epsilon(lambda e: 1 - 1 / e, (1.0, 2.0, 4.0, 8.0), 0.7)
    >>> 10 / 3 <= found < 10 / 3 * 1.005
    True
    """
    reached = [i for i, epsilon in enumerate(epsilons) if mean(epsilon) >= target]
    if not reached or reached[0] == 0:
        return epsilons[0] if reached else None
    low, high = epsilons[reached[0] - 1], epsilons[reached[0]]
    while high > low * (1 + CLOSELY):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if mean(middle) >= target else (middle, high)
    return high


def interval(
    tallies: Mapping[float, Tally], target: float, *, majority: Tally | None = None, seed: int, draws: int = _DRAWS
) -> Interval:
    r"""Return between which least epsilons four of five other draws of queries lie: a bootstrap over the queries.

    Queries are drawn again with replacement; the curve through the epsilons that were tried is read where it first reaches
    the target, straight between two of them in the logarithm.

    Parameters
    ----------
    tallies
        Per query, at each epsilon that was tried.
    target
        Score to reach.
    majority
        Of the plain majority, if the target is a share of its score: then the target moves with the queries.
    seed
        Of the draws.
    draws
        How many.
    """
    epsilons = sorted(tallies)
    queries = len(tallies[epsilons[0]].gained)
    random = np.random.default_rng(seed)
    times = random.multinomial(queries, np.full(queries, 1 / queries), size=draws).astype(np.float64)
    curves = np.stack([_scores(tallies[epsilon], times) for epsilon in epsilons], axis=1)
    targets = np.full(draws, target)
    if majority is not None:
        targets *= _scores(majority, times) / _scores(majority, np.ones((1, queries)))
    logs = np.log(epsilons)
    found = sorted(_crossing(logs, curve - goal) for curve, goal in zip(curves, targets, strict=True))
    out = int(_OUTSIDE * draws)
    return Interval(math.exp(found[out]), math.exp(found[-1 - out]))


def _scores(tally: Tally, times: FloatArray) -> FloatArray:
    """Return the score of each draw, in which a query occurs so many times."""
    return np.asarray((times @ tally.gained) / np.maximum(times @ tally.possible, 1.0))


def _crossing(logs: FloatArray, above: FloatArray) -> float:
    """Return where a curve first reaches 0, straight between points."""
    reached = np.flatnonzero(above >= 0)
    if not len(reached):
        return math.inf
    i = int(reached[0])
    return -math.inf if i == 0 else float(np.interp(0.0, above[i - 1 : i + 1], logs[i - 1 : i + 1]))
