r"""What each mechanism makes of the logs at one k and epsilon: how much of the true top k it finds, and what else it shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from cutline.arrays import IntArray
from cutline.histogram import OpenHistogram
from cutline.mechanisms.base import Mechanism, resolve_max_k
from cutline.mechanisms.fixed.stable_fixed import StableTopKFixed
from cutline.mechanisms.fixed.test_first import TestFirst
from cutline.mechanisms.open.find_then_choose import FindThenChoose
from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.mechanisms.open.peel_then_test import PeelThenTest
from cutline.mechanisms.open.table_threshold import TableThreshold
from cutline.mechanisms.open.top_stable import TopStable
from cutline.mechanisms.registry import MECHANISMS
from cutline.privacy import Budget
from cutline.sampling import SeededSource
from experiments.bounded_trials import released_indices
from experiments.fixed_k_trials import taken_ranks
from experiments.long_tail.thresholds import GaussianThreshold, LaplaceThreshold, NoisyThreshold
from experiments.report import Estimate
from experiments.trials import mean_and_error, seed_of

DELTA = 1e-6
BOUND, PARTS = 50, 8
OURS = tuple(kind.name for kind in MECHANISMS if kind.accepts("k") and kind.domains != ("closed",))
WEIGHTED = "find-then-choose, weighted"  # votes in eighths instead of D whole ones
CUT = "table-threshold, cut by lot"  # is told no k; if its set is larger, k of it are taken by lot
LIMITED = (WEIGHTED, CUT)  # further ways to be told k, with a bound on items per user
RIVALS = (GaussianThreshold.name, LaplaceThreshold.name)
METHODS = (*OURS, *LIMITED, *RIVALS)

Method: TypeAlias = Mechanism | NoisyThreshold


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class LogCounts:
    """A public log, counted in the ways that the mechanisms look at it."""

    ranked: IntArray  # all users of the items of the first ranks, in descending order
    bounded: tuple[IntArray, IntArray]  # all users of each item that somebody kept, and those who kept it
    weighted: tuple[IntArray, IntArray] | None = None  # the same with votes in eighths, if such are run


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class StudyCase:
    """One cell: what is asked of all logs."""

    logs: Mapping[str, LogCounts]
    k: int
    epsilon: float
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What one mechanism did on one log: the shares of the top k found and of what was shown that is in it, and how many."""

    recall: Estimate
    precision: float | None  # of all that was shown in all trials; None if nothing ever was
    released: float  # items, in the mean


def answer(case: StudyCase, seed: int) -> dict[tuple[str, str], Score]:
    """Run every mechanism on every log ``trials`` times; return the scores by log and mechanism."""
    budget = Budget(epsilon=case.epsilon, delta=DELTA)
    scores = {}
    for name, method in calibrate_all(case.k, budget).items():
        for log, counts in case.logs.items():
            runs = run_method(method, counts, case.trials, seed=seed_of(seed, log, name), k=case.k)
            scores[log, name] = score(runs, least=int(counts.ranked[case.k - 1]), k=case.k)
    return scores


def calibrate_all(k: int, budget: Budget) -> dict[str, Method]:
    """Return every mechanism that is told k and the rivals, each calibrated for one release at the whole budget."""
    methods: dict[str, Method] = {}
    for kind in MECHANISMS:
        if kind.name not in OURS:
            continue
        offered: dict[str, Any] = {"k": k, "max_k": resolve_max_k(k, None), "max_items_per_user": BOUND}
        if kind is TopStable:  # only k ranks are tested, so that is what its delta is shared between
            del offered["max_k"]
        methods[kind.name] = kind.calibrate(budget, **{name: offered[name] for name in offered if kind.accepts(name)})
    methods[CUT] = TableThreshold.calibrate(budget, max_items_per_user=BOUND)
    methods[WEIGHTED] = FindThenChoose.calibrate(budget, k=k, max_items_per_user=BOUND, vote_parts=PARTS)
    for rival in (GaussianThreshold, LaplaceThreshold):
        methods[rival.name] = rival.calibrate(budget, max_items_per_user=BOUND)
    return {name: methods[name] for name in METHODS}


def run_method(method: Method, counts: LogCounts, trials: int, *, seed: int, k: int) -> Iterator[IntArray]:
    """Yield, for each of so many releases, the full counts of the items that go out; of more than k, k taken by lot."""
    full, bounded = counts.bounded
    if isinstance(method, FindThenChoose) and method.rounds[0].step.parts > 1:
        assert counts.weighted is not None  # noqa: S101 - whoever calibrates for weighted votes counts them
        full, bounded = counts.weighted
    if isinstance(method, NoisyThreshold):
        for indices in method.released_indices(bounded, trials, seed=seed):
            yield full[indices[:k]]
    elif isinstance(method, FindThenChoose | TableThreshold):
        lots = np.random.default_rng(seed_of(seed, "lots"))
        for indices in released_indices(method, full, bounded, trials, seed=seed):
            yield full[indices if len(indices) <= k else lots.choice(indices, k, replace=False)]
    elif isinstance(method, PeelThenTest):
        for indices in released_indices(method, counts.ranked, bounded, trials, seed=seed):
            yield counts.ranked[indices]
    elif isinstance(method, LimitedDomain | TopStable | TestFirst | StableTopKFixed):
        ranks = resolve_max_k(k, None)
        histogram = OpenHistogram.from_counts(counts.ranked[: ranks + 1], max_k=ranks)
        for taken in taken_ranks(method, histogram, trials, rng=SeededSource(seed)):
            yield histogram.counts[: len(taken)][taken]
    else:
        raise AssertionError(method.name)  # a new mechanism needs a line here


def score(runs: Iterable[IntArray], *, least: int, k: int) -> Score:
    """Compare what went out with the top k; an item with as many users as the k-th is as good as it.

    Examples
    --------
    >>> found = score([np.array([9, 7, 5, 5]), np.array([9, 2]), np.array([], dtype=int)], least=5, k=3)
    >>> f"{found.recall.mean:.3f} {found.precision:.3f} {found.released}"
    '0.444 0.833 2.0'
    """
    shown = [(int((counts >= least).sum()), len(counts)) for counts in runs]
    true, total = (sum(column) for column in zip(*shown, strict=True))
    return Score(
        recall=mean_and_error([min(right, k) / k for right, _ in shown]),
        precision=true / total if total else None,
        released=total / len(shown),
    )
