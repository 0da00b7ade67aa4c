r"""Every aggregator on one poll: how good its labels are at equal epsilon, and which epsilon equal labels need.

All are calibrated to the same total for all queries by the best rule that is proved for them, under each relation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from cutline.experiments.polls import Poll, Score, score
from cutline.pate.registry import aggregator
from cutline.privacy import Adjacency, Budget
from cutline.sampling import SeededSource

DELTA = 1e-6
RELATIONS = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)
_REFINED = 4
_SHORT = 0.002  # how closely an epsilon is searched, relative


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One aggregator as it is run: with ballots as they are, or cut to the poll's limit."""

    aggregator: str
    limited: bool = False
    public: Mapping[str, Any] = field(default_factory=dict)


LINES: Mapping[str, Line] = MappingProxyType(
    {
        "OptimalVote": Line(aggregator="optimal-vote"),
        "OptimalVote, limited": Line(aggregator="optimal-vote", limited=True),
        "Binary voting": Line(aggregator="binary-vote"),
        "Binary voting, limited": Line(aggregator="binary-vote", limited=True),
        "PATE-Gaussian": Line(aggregator="pate-gaussian"),
        "PATE-tau": Line(aggregator="pate-tau", limited=True),
        "StableTopK (paper)": Line(aggregator="stable-top-k-vote", public={"test": "paper"}),
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

    def values(self, epsilon: float, what: str) -> list[float]:
        """Return one number of every trial."""
        return [getattr(each, what) for each in self.scores[epsilon]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCell:
    """One line on one poll; ``target`` is in the poll's own measure."""

    poll: Poll
    line: str
    epsilons: tuple[float, ...]
    target: float
    trials: int

    def __call__(self, seed: int) -> dict[Adjacency, Found]:
        """Run both relations in one process: where they cost the same, calibration is remembered."""
        return {adjacency: self._under(adjacency, seed) for adjacency in RELATIONS}

    def _under(self, adjacency: Adjacency, seed: int) -> Found:
        line = LINES[self.line]

        @cache
        def scores(epsilon: float) -> list[Score]:
            released = labels_of(self.poll, line, epsilon=epsilon, adjacency=adjacency, trials=self.trials, seed=seed)
            return [score(values, self.poll.truth) for values in released]

        def mean(epsilon: float) -> float:
            return float(np.mean([getattr(each, self.poll.measure) for each in scores(epsilon)]))

        return Found(
            scores={epsilon: scores(epsilon) for epsilon in self.epsilons},
            needed=least_epsilon(mean, self.epsilons, self.target),
        )


def labels_of(
    poll: Poll, line: Line, *, epsilon: float, adjacency: Adjacency, trials: int, seed: int
) -> list[npt.NDArray[np.int8]]:
    """Calibrate once and release the labels of all queries, once a trial."""
    limit = poll.limit if line.limited else None
    votes, teachers = poll.box(line.aggregator, limit)
    budget = Budget(epsilon=epsilon, delta=DELTA, releases=len(votes))
    public = dict(line.public) | ({"limit": limit} if line.limited else {})
    if line.aggregator == "stable-top-k-vote" and poll.window is not None:
        public["max_k"] = poll.window
    ready = aggregator(line.aggregator).calibrate(
        budget, teachers=teachers, labels=votes.shape[1], adjacency=adjacency, **public
    )
    source = SeededSource(seed)
    return [ready.release(votes, rng=source).values for _ in range(trials)]


def least_epsilon(mean: Callable[[float], float], epsilons: Sequence[float], target: float) -> float | None:
    r"""Return an epsilon at which ``mean`` was seen to reach the target, a hair above the least one; None if none was tried.

    Examples
    --------
    >>> found = least_epsilon(lambda e: 1 - 1 / e, (1.0, 2.0, 4.0, 8.0), 0.7)
    >>> 10 / 3 <= found < 10 / 3 * 1.01
    True
    """
    reached = [i for i, epsilon in enumerate(epsilons) if mean(epsilon) >= target]
    if not reached or reached[0] == 0:
        return epsilons[0] if reached else None
    low, high = epsilons[reached[0] - 1], epsilons[reached[0]]
    for step in range(_REFINED):
        at_low, at_high = mean(low), mean(high)
        share = (target - at_low) / max(at_high - at_low, 1e-12)
        # The chord finds where a curve bends; a step to its left closes in from below every second time.
        share = min(max(share + (0.01 if step % 2 == 0 else -0.03), 0.02), 0.98)
        middle = low * math.exp(share * math.log(high / low))
        low, high = (low, middle) if mean(middle) >= target else (middle, high)
        if high / low < 1 + _SHORT:
            break
    return high
