r"""What a student learns from released labels, and how good it is on examples that nobody has seen."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cutline.pate.student import fit_student
from cutline.privacy import Adjacency
from experiments.exp3.polls import Score, score
from experiments.exp3.sweeps import LINES, RELATIONS, release_labels
from experiments.exp3.taught_ballots import Lesson, make_teacher


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
                labels = release_labels(
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
            student = fit_student(make_teacher(self.penalty), public, labels.astype(np.int64))
            said = student.predict(features)
        return score(said, self.lesson.truth)
