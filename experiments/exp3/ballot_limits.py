r"""What a ballot limit buys: the same aggregators on ballots cut to each teacher's surest labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cutline.privacy import Adjacency
from experiments.exp3.polls import Poll, score
from experiments.exp3.sweeps import RELATIONS, Line, release_labels


class Limited(NamedTuple):
    """Scores at one limit: of the plain majority, and of the trials of OptimalVote and of PATE with Gaussian noise."""

    majority: float
    optimal: dict[Adjacency, list[float]]
    gaussian: dict[Adjacency, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCell:
    """One ballot limit, or none, on one poll at one epsilon."""

    poll: Poll
    limit: int | None
    epsilon: float
    trials: int

    def __call__(self, seed: int) -> Limited:
        """Run both aggregators under both relations."""
        limited = self.limit is not None
        poll = self.poll if self.limit is None else replace(self.poll, limit=self.limit)

        def scores(name: str, adjacency: Adjacency) -> list[float]:
            line = Line(aggregator=name, limited=limited)
            found = release_labels(poll, line, epsilon=self.epsilon, adjacency=adjacency, trials=self.trials, seed=seed)
            return [getattr(score(values, poll.truth), poll.measure) for values in found]

        plain = score(poll.majority_of(self.limit).astype(np.int8), poll.truth)
        gaussian = "pate-tau" if limited else "pate-gaussian"
        return Limited(
            majority=getattr(plain, poll.measure),
            optimal={adjacency: scores("optimal-vote", adjacency) for adjacency in RELATIONS},
            gaussian={adjacency: scores(gaussian, adjacency) for adjacency in RELATIONS},
        )
