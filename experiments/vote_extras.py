r"""More questions to a poll: what a ballot limit buys, what a student learns, what the paper's own accounting wastes."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cutline.pate.student import fit_student
from cutline.privacy import Adjacency
from experiments.polls import Poll, Score, score
from experiments.taught_ballots import Lesson, teacher
from experiments.vote_study import DELTA, LINES, PAPERS_TEST, RELATIONS, Line, as_named, calibrated, labels_of


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
            found = labels_of(poll, line, epsilon=self.epsilon, adjacency=adjacency, trials=self.trials, seed=seed)
            return [getattr(score(values, poll.truth), poll.measure) for values in found]

        plain = score(poll.majority_of(self.limit).astype(np.int8), poll.truth)
        gaussian = "pate-tau" if limited else "pate-gaussian"
        return Limited(
            majority=getattr(plain, poll.measure),
            optimal={adjacency: scores("optimal-vote", adjacency) for adjacency in RELATIONS},
            gaussian={adjacency: scores(gaussian, adjacency) for adjacency in RELATIONS},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentCell:
    """Students of one aggregator at several epsilons; with no line, of the plain majority and of the truth."""

    lesson: Lesson
    line: str | None
    epsilons: tuple[float, ...]
    trials: int
    penalty: float = 10.0

    def __call__(self, seed: int) -> dict[tuple[Adjacency, float] | str, list[Score]]:
        """Train a student on every trial's labels and test it on examples that nobody has seen."""
        poll = self.lesson.poll
        if self.line is None:
            return {
                "majority": [self._student(poll.majority.astype(np.int8))],
                "truth": [self._student(poll.truth.astype(np.int8))],
                "everything": [score(self.lesson.everything, self.lesson.truth)],
            }
        found: dict[tuple[Adjacency, float] | str, list[Score]] = {}
        for adjacency in RELATIONS:
            for epsilon in self.epsilons:
                labels = labels_of(
                    poll, LINES[self.line], epsilon=epsilon, adjacency=adjacency, trials=self.trials, seed=seed
                )
                found[adjacency, epsilon] = [self._student(values) for values in labels]
        return found

    def _student(self, labels: npt.NDArray[np.int8]) -> Score:
        from threadpoolctl import threadpool_limits

        public, features = (each.astype(np.float64) for each in (self.lesson.public, self.lesson.features))
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")  # labels that went out with one value only: the tables show what that costs
            # Wide integers, as for the teachers.
            student = fit_student(teacher(self.penalty), public, labels.astype(np.int64))
            said = student.predict(features)
        return score(said, self.lesson.truth)


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
        ready = calibrated(self.poll, line, epsilon=self.epsilon, adjacency=adjacency)
        spent = (len(self.poll.truth) * ready.cost).epsilon(DELTA)
        labels = labels_of(self.poll, line, epsilon=self.epsilon, adjacency=adjacency, trials=self.trials, seed=seed)
        return Wasted(spent / self.epsilon, [score(values, self.poll.truth) for values in labels])


def booked(poll: Poll, *, epsilon: float, adjacency: Adjacency) -> float:
    """Return what the paper's own accounting would call the mechanism that costs ``epsilon`` with the paper's test."""
    ready = calibrated(poll, LINES[PAPERS_TEST], epsilon=epsilon, adjacency=adjacency)
    # Choosing and testing cost half of rho each, and a choice by bounded range epsilon_0 costs epsilon_0^2 / 8; half of delta
    # is left for the conversion [SPEC section 8.1].
    rho = len(poll.truth) * ready.chooser.epsilon**2 / 4
    return float(rho + 2 * math.sqrt(rho * math.log(2 / DELTA)))
