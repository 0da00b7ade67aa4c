r"""Every aggregator on one poll: how good its labels are at equal epsilon, and which epsilon equal labels need.

All spend the same total on all queries, by the best rule that is proved for them, under each relation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cutline.mechanisms.adaptive.choosers import GapExponential
from cutline.pate import Aggregator
from cutline.pate import aggregator as find_aggregator
from cutline.pate.aggregators.stable_sets import StableTopKVote
from cutline.privacy import Adjacency, Budget
from cutline.privacy.rules.registry import RULES
from cutline.sampling import SeededSource
from experiments.exp3.least_epsilon import Interval, interval, least_epsilon
from experiments.exp3.polls import Poll, Score, Tally, score, tally

DELTA = 1e-6
RELATIONS = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)
PAPERS_TEST = "StableTopK (paper's test)"
_UNSPENT = 1e-6  # of epsilon, at most
_ROUNDS = 30  # four do


def as_named(build: Callable[[Budget], Aggregator], budget: Budget) -> Aggregator:
    """Let an aggregator's own calibration spend the budget."""
    return build(budget)


def by_exact_cost(build: Callable[[Budget], Aggregator], budget: Budget) -> Aggregator:
    r"""Name to a calibration that wastes a larger epsilon, the one at which its exact cost is the budget.

    **Privacy.** What is returned was seen to cost at most the budget, and all of it but a millionth, by the Rényi rule, which
    is the best one for the paper's test (the test of equal spending asks all rules).
    """
    goal = math.log(budget.epsilon) + math.log1p(-_UNSPENT / 2)
    tried: list[
        tuple[float, float]
    ] = []  # logarithms of the epsilon named and of the one spent: nearly a straight line
    named, slope = math.log(budget.epsilon), 1.0
    for _ in range(_ROUNDS):
        aggregator = build(replace(budget, epsilon=math.exp(named)))
        spent = RULES["rdp"](budget.releases * aggregator.cost, budget.delta)
        if (1 - _UNSPENT) * budget.epsilon <= spent <= budget.epsilon:
            return replace(aggregator, budget=budget)
        tried.append((named, math.log(spent)))
        if len(tried) > 1:
            (before, was), (now, is_) = tried[-2:]
            slope = (is_ - was) / (now - before)
        named += (goal - math.log(spent)) / slope
    raise AssertionError(budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One aggregator as it is run: with ballots as they are or cut to the poll's limit, and how it spends a budget."""

    aggregator: str
    limited: bool = False
    public: Mapping[str, Any] = field(default_factory=dict)
    spend: Callable[[Callable[[Budget], Aggregator], Budget], Aggregator] = as_named


LINES: Mapping[str, Line] = MappingProxyType(
    {
        "OptimalVote": Line(aggregator="optimal-vote"),
        "OptimalVote, limited": Line(aggregator="optimal-vote", limited=True),
        "Binary voting": Line(aggregator="binary-vote"),
        "Binary voting, limited": Line(aggregator="binary-vote", limited=True),
        "PATE-Gaussian": Line(aggregator="pate-gaussian"),
        "PATE-tau": Line(aggregator="pate-tau", limited=True),
        PAPERS_TEST: Line(aggregator="stable-top-k-vote", public={"test": "paper"}, spend=by_exact_cost),
        "StableTopK (bit table)": Line(aggregator="stable-top-k-vote"),
        "StableMajority": Line(aggregator="stable-majority"),
        "StableConfident": Line(aggregator="stable-confident"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Of one aggregator under one relation: scores of all trials at each epsilon, and the least epsilon for the target."""

    scores: Mapping[float, Sequence[Score]]
    needed: float | None  # None: not reached at the largest epsilon tried
    between: Interval | None = None  # four of five other draws of queries need an epsilon in here

    @property
    def at_most(self) -> bool:
        """Whether the smallest epsilon tried was enough already, so that less may do."""
        return self.needed == min(self.scores)

    def values(self, epsilon: float, what: str) -> list[float]:
        """Return one number of every trial."""
        return [getattr(each, what) for each in self.scores[epsilon]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCell:
    """One line on one poll.

    Parameters
    ----------
    poll, line, epsilons, trials
        What is run.
    target
        What is to be reached, in the poll's own measure.
    relative
        Whether the target is a share of what the plain majority reaches on the same queries.
    """

    poll: Poll
    line: str
    epsilons: tuple[float, ...]
    target: float
    trials: int
    relative: bool = False

    def __call__(self, seed: int) -> dict[Adjacency, Found]:
        """Run both relations in one process: where they cost the same, calibration is remembered."""
        return {adjacency: self._under(adjacency, seed) for adjacency in RELATIONS}

    def _under(self, adjacency: Adjacency, seed: int) -> Found:
        poll, line = self.poll, LINES[self.line]
        tallies: dict[float, Tally] = {}

        @cache
        def scores(epsilon: float) -> list[Score]:
            released = release_labels(poll, line, epsilon=epsilon, adjacency=adjacency, trials=self.trials, seed=seed)
            tallies[epsilon] = tally(np.stack(released), poll.truth, poll.measure)
            return [score(values, poll.truth) for values in released]

        def mean(epsilon: float) -> float:
            return float(np.mean([getattr(each, poll.measure) for each in scores(epsilon)]))

        needed = least_epsilon(mean, self.epsilons, self.target)
        majority = tally(poll.majority.astype(np.int8), poll.truth, poll.measure) if self.relative else None
        return Found(
            scores={epsilon: scores(epsilon) for epsilon in self.epsilons},
            needed=needed,
            between=None if needed is None else interval(tallies, self.target, majority=majority, seed=seed),
        )


def calibrate(poll: Poll, line: Line, *, epsilon: float, adjacency: Adjacency) -> Aggregator:
    """Return the aggregator that spends a total of (epsilon, 1e-6) on all queries of the poll."""
    limit = poll.limit if line.limited else None
    queries, labels = poll.truth.shape
    public = dict(line.public) | ({"limit": limit} if line.limited else {})
    if line.aggregator != "stable-top-k-vote":
        public["quorum"] = poll.quorum
    elif poll.window is not None:  # it compares labels with each other and with no quorum
        public["max_k"] = poll.window

    def build(budget: Budget) -> Aggregator:
        return find_aggregator(line.aggregator).calibrate(
            budget, teachers=poll.teachers, labels=labels, adjacency=adjacency, **public
        )

    return line.spend(build, Budget(epsilon=epsilon, delta=DELTA, releases=queries))


def release_labels(
    poll: Poll, line: Line, *, epsilon: float, adjacency: Adjacency, trials: int, seed: int
) -> list[npt.NDArray[np.int8]]:
    """Calibrate once and release the labels of all queries, once a trial."""
    aggregator = calibrate(poll, line, epsilon=epsilon, adjacency=adjacency)
    votes = poll.votes[poll.limit if line.limited else None]
    source = SeededSource(seed)
    return [aggregator.release(votes, rng=source).values for _ in range(trials)]


class Wasted(NamedTuple):
    """The paper's test as the paper charges it: which part of epsilon it really costs, and the scores of all trials."""

    spent: float
    scores: list[Score]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperCell:
    """The paper's test on one poll at one epsilon, calibrated by the paper's own accounting: zCDP, converted rightly."""

    poll: Poll
    epsilon: float
    trials: int

    def __call__(self, seed: int) -> dict[Adjacency, Wasted]:
        """Run both relations."""
        return {adjacency: self._under(adjacency, seed) for adjacency in RELATIONS}

    def _under(self, adjacency: Adjacency, seed: int) -> Wasted:
        line = replace(LINES[PAPERS_TEST], spend=as_named)
        aggregator = calibrate(self.poll, line, epsilon=self.epsilon, adjacency=adjacency)
        spent = (len(self.poll.truth) * aggregator.cost).epsilon(DELTA)
        labels = release_labels(
            self.poll, line, epsilon=self.epsilon, adjacency=adjacency, trials=self.trials, seed=seed
        )
        return Wasted(spent / self.epsilon, [score(values, self.poll.truth) for values in labels])


def price_by_the_paper(poll: Poll, *, epsilon: float, adjacency: Adjacency) -> float:
    """Return what the paper's own accounting would call the mechanism that costs ``epsilon`` with the paper's test."""
    aggregator = calibrate(poll, LINES[PAPERS_TEST], epsilon=epsilon, adjacency=adjacency)
    if not (isinstance(aggregator, StableTopKVote) and isinstance(aggregator.chooser, GapExponential)):
        raise AssertionError(aggregator.name)
    # Choosing and testing cost half of rho each, and a choice by bounded range epsilon_0 costs epsilon_0^2 / 8; half of delta
    # is left for the conversion (docs/errata.md).
    rho = len(poll.truth) * aggregator.chooser.epsilon**2 / 4
    return float(rho + 2 * math.sqrt(rho * math.log(2 / DELTA)))
