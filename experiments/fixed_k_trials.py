r"""Many runs of the fixed-k mechanisms on one histogram at once, for simulations: each run is a release of its own.

The draws are those of the mechanisms, exact and from the same laws; only their order differs, so that all runs make their
first draw together, then their second. What is kept of a run is which ranks went out, not in which order.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray
from cutline.histogram import Histogram, OpenHistogram
from cutline.mechanisms.fixed.continuation import Continuation, complete
from cutline.mechanisms.fixed.stable_fixed import StableTopKFixed
from cutline.mechanisms.fixed.test_first import TestFirst
from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.mechanisms.open.limited_rounds import LimitedRounds, Round
from cutline.mechanisms.open.top_stable import TopStable
from cutline.sampling import Source, Weights, invert
from cutline.sampling.weights import enclose_boundaries

Taken: TypeAlias = npt.NDArray[np.bool_]
FixedK: TypeAlias = LimitedDomain | TopStable | TestFirst | StableTopKFixed


def taken_ranks(mechanism: FixedK, histogram: OpenHistogram, runs: int, *, rng: Source) -> Taken:
    r"""Return which ranks each of ``runs`` independent releases holds, shape (runs, seen items).

    Parameters
    ----------
    mechanism
        What releases.
    histogram
        Public or made-up counts: this is a simulation.
    runs
        How many releases.
    rng
        A seeded source.

    Examples
    --------
    >>> from cutline.privacy import Budget
    >>> from cutline.sampling import SeededSource
    >>> counts = OpenHistogram.from_counts({"a": 940, "b": 933, "c": 12}, max_k=20)
    >>> mechanism = TestFirst.calibrate(Budget(epsilon=1.0, delta=1e-6), k=2, max_k=20)
    >>> taken_ranks(mechanism, counts, 3, rng=SeededSource(0)).astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [1, 1, 0]]
    """
    if isinstance(mechanism, LimitedDomain):
        return _lists(mechanism, histogram, runs, rng)
    if isinstance(mechanism, TopStable):
        cuts = mechanism.sample(histogram, runs, rng=rng)
        return _prefixes(histogram, cuts)
    if isinstance(mechanism, TestFirst):
        return _test_first(mechanism, histogram, runs, rng)
    return _stable_top_k_fixed(mechanism, histogram, runs, rng)


def shares_found(taken: Taken, counts: IntArray, k: int) -> npt.NDArray[np.float64]:
    r"""Return, for each run, the share of the true top k among what was released.

    An item whose count equals the k-th is as true as the k-th itself; all together count as at most k.

    Examples
    --------
    >>> shares_found(np.array([[True, False, True, False]]), np.array([9, 7, 7, 2]), k=2).tolist()
    [1.0]
    """
    true = counts[: taken.shape[1]] >= counts[k - 1]
    found: npt.NDArray[np.float64] = np.minimum((taken & true).sum(axis=1), k) / k
    return found


def _prefixes(histogram: OpenHistogram, cuts: IntArray) -> Taken:
    return np.arange(len(histogram.items)) < cuts[:, None]


def _lists(mechanism: LimitedDomain, histogram: OpenHistogram, runs: int, rng: Source) -> Taken:
    """Draw lists without replacement; every rank is a group of its own, which is the same law."""
    rounds: list[LimitedDomain | Round] = [mechanism.first if isinstance(mechanism, LimitedRounds) else mechanism]
    window = _domain(rounds[0])
    candidates = len(histogram.top(window.max_k))
    bottom = histogram.counts[window.max_k] + window.adjacency.count_range
    scores = np.append(histogram.counts[:candidates], bottom)
    taken = np.zeros((runs, len(histogram.items)), dtype=np.bool_)
    following: dict[tuple[int, int], int] = {}  # which round follows this one after so many items; -1 if none does
    now, listed, live = np.zeros(runs, dtype=np.int64), np.zeros(runs, dtype=np.int64), np.arange(runs)
    while live.size:
        domains = [_domain(rounds[number]) for number in now[live].tolist()]
        left = np.concatenate([~taken[live, :candidates], np.ones((len(live), 1), dtype=np.bool_)], axis=1)
        drawn = _draw(scores, left, domains, rng)
        found = drawn < candidates
        taken[live[found], drawn[found]] = True
        listed[live[found]] += 1
        full = found & (listed[live] == [domain.k for domain in domains])
        now[live[full]] = -1
        for row in live[~found].tolist():
            key = int(now[row]), int(listed[row])
            if key not in following:
                ended = rounds[key[0]]
                after = None if isinstance(ended, LimitedDomain) else ended.after(key[1])
                following[key] = -1 if after is None else len(rounds)
                rounds += [] if after is None else [after]
            now[row], listed[row] = following[key], 0
        live = live[now[live] >= 0]
    return taken


def _domain(one: LimitedDomain | Round) -> LimitedDomain:
    return one if isinstance(one, LimitedDomain) else one.domain


def _rate(domain: LimitedDomain) -> Fraction:
    """Return by how much the logarithm of a weight grows with one count."""
    return Fraction(domain.epsilon) / domain.adjacency.count_range


def _bottom_weight(domain: LimitedDomain) -> Fraction:
    """Return how many times the weight of one item of its score the bottom has."""
    return Fraction(domain.max_k) / Fraction(domain.delta)


def _draw(scores: IntArray, left: Taken, domains: list[LimitedDomain], rng: Source) -> IntArray:
    """Draw one rank, or the bottom as the last, for each row of what is left, by the Limited Domain of the row."""
    # x = rate * difference + ln(weight) is below 1100 in size wherever exp(x) counts, with a few roundings: the relative
    # error of a weight is below 2^-40, as the exact draw asks.
    rates = np.array([float(_rate(domain)) for domain in domains])
    logs = rates[:, None] * (scores - scores.max()).astype(np.float64)
    logs[:, -1] += [math.log(_bottom_weight(domain)) for domain in domains]
    logs = np.where(left, logs, -np.inf)
    with np.errstate(under="ignore"):
        sums = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
        boundaries = sums[:, :-1] / sums[:, -1:]

    def enclose(row: int, _precision: int) -> list[Any]:
        members = left[row].astype(np.int64).astype(object)
        members[-1] = _bottom_weight(domains[row])
        exact = Weights(scores=scores[None, :], rate=_rate(domains[row]), multiplicities=members[None, :])
        return enclose_boundaries(exact, 0)

    return invert(boundaries, enclose, source=rng)


def _test_first(mechanism: TestFirst, histogram: OpenHistogram, runs: int, rng: Source) -> Taken:
    taken = np.zeros((runs, len(histogram.items)), dtype=np.bool_)
    live = np.arange(runs)
    for planned in mechanism.planned_tests(histogram):
        gaps, slack = (np.repeat(value, len(live)) for value in (planned.gap, planned.slack))
        passed = planned.test.passes(gaps, slack, mechanism.adjacency, rng)
        continuation = complete(histogram, planned.cut, mechanism.fallback, steps=planned.passed)
        taken[live[passed]] = _filled_up(continuation, histogram, int(passed.sum()), rng)
        live = live[~passed]
    taken[live] = _lists(mechanism.fallback, histogram, len(live), rng)
    return taken


def _stable_top_k_fixed(mechanism: StableTopKFixed, histogram: OpenHistogram, runs: int, rng: Source) -> Taken:
    gaps = histogram.gaps(mechanism.max_k)
    scores = np.broadcast_to(mechanism.preference.scores(gaps[None, :]), (runs, len(mechanism.preference.choices)))
    cuts = mechanism.preference.choices[mechanism.chooser.draw(scores, mechanism.adjacency, rng)]
    slack = np.broadcast_to(mechanism.chooser.slack(scores[:1], mechanism.adjacency), (runs,))
    passed = mechanism.test.passes(gaps[cuts - 1], slack, mechanism.adjacency, rng)
    taken = np.zeros((runs, len(histogram.items)), dtype=np.bool_)
    taken[~passed] = _lists(mechanism.fallback, histogram, int((~passed).sum()), rng)
    for cut in np.unique(cuts[passed]).tolist():
        rows = np.flatnonzero(passed & (cuts == cut))
        continuation = mechanism.continue_after(histogram, cut)
        taken[rows] = _filled_up(continuation, histogram, len(rows), rng)
    return taken


def _filled_up(continuation: Continuation, histogram: OpenHistogram, runs: int, rng: Source) -> Taken:
    """Go on from a released prefix: fill it up in batches, or cut it down one run after the other."""
    kept = continuation.prefix or 0
    taken = _prefixes(histogram, np.full(runs, kept))
    if isinstance(continuation.selector, LimitedDomain):
        part: Histogram | None = continuation.part
        assert isinstance(part, OpenHistogram)  # noqa: S101 - what remains of an open domain
        taken[:, kept:] |= _lists(continuation.selector, part, runs, rng)
        return taken
    if continuation.selector is None:
        return taken
    ranks = {item: rank for rank, item in enumerate(histogram.items)}
    taken[:] = False
    for row in range(runs):
        taken[row, [ranks[item] for item in continuation.draw(rng)]] = True
    return taken
