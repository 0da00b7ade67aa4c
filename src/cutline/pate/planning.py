r"""Which setting for PATE? From public numbers and, if there are any, public examples with labels; nothing is spent.

From numbers alone: how clear a majority must be to come out as it is. With public examples that are labelled: some teachers are
trained on as many of them as a teacher would have records, and what they say about the others gives the votes that so many
teachers would cast. The chances of the released labels are then exact, by the aggregator's own law.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from cutline.arrays import FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.extras import require
from cutline.mechanisms.noise_laws import normal_law
from cutline.pate.aggregators.base import MOST_TEACHERS, Aggregator
from cutline.pate.aggregators.class_vote import ClassVote
from cutline.pate.aggregators.gaussian_votes import GNMax
from cutline.pate.aggregators.optimal_vote import OptimalVote
from cutline.pate.aggregators.registry import aggregator as find_aggregator
from cutline.pate.ballots import limit_ballots
from cutline.pate.classes import choose_aggregator
from cutline.pate.partition import read_features, read_groups, read_labels
from cutline.pate.teachers import Shard, ballot
from cutline.privacy import Adjacency, Budget
from cutline.privacy.curves.base import check_whole

SURE = 0.95  # how often a label that is clear enough comes out as it is
_FEW = 100  # records: a teacher with fewer seldom learns something
_SAMPLED = 12  # teachers trained on public examples for each number of teachers
_JUDGED = 300  # public examples that they vote on


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOption:
    """One setting, and what it would make of the votes."""

    epsilon: float
    teachers: int
    records_each: int
    queries: int
    limit: int | None
    quorum: float | None  # None for classes
    clear: (
        float | None
    )  # the share of teachers at which yes comes out 19 times in 20; None if even all of them are too few
    right: float | None = None  # expected share of all labels that come out right, on the public examples
    f1: float | None = None  # of the labels set; for classes the share that is right

    def to_dict(self) -> dict[str, Any]:
        """Return the option as plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPlan:
    """All settings that were tried, the best first."""

    records: int
    labels: int
    classes: bool
    delta: float
    adjacency: Adjacency
    options: tuple[LabelOption, ...]
    public_alone: float | None = None  # F1 of one classifier trained on the public examples themselves

    @property
    def recommended(self) -> LabelOption:
        """The best by F1 on public examples; without any, the one that needs the least share of teachers above the quorum."""
        return self.options[0]

    @property
    def advice(self) -> tuple[str, ...]:
        """Reasons to doubt that PATE is the right tool here, in whole sentences."""
        found, best = [], self.recommended
        if best.clear is None:
            found.append("Even if all teachers agree, their labels come out at random: take more teachers or epsilon.")
        if best.records_each < _FEW:
            found.append(
                f"Each teacher would learn from {best.records_each} records, and of fewer than {_FEW} few learn much: take "
                "fewer teachers if you can. PATE suits tens of thousands of records and more."
            )
        if best.f1 is not None and self.public_alone is not None and best.f1 <= self.public_alone:
            found.append(
                f"A classifier trained on the public examples alone does as well ({self.public_alone:.2f}): no private record "
                "is needed."
            )
        if best.f1 is not None and best.f1 < 0.5 and not self.classes:
            found.append(
                "Few of the labels set come out: try a limit, a smaller quorum, or teachers balanced by class."
            )
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data for JSON, the recommended option first."""
        return {
            "records": self.records,
            "labels": self.labels,
            "classes": self.classes,
            "delta": self.delta,
            "adjacency": str(self.adjacency),
            "public_alone": self.public_alone,
            "advice": list(self.advice),
            "options": [option.to_dict() for option in self.options],
        }


def plan_labels(
    *,
    records: int,
    labels: int,
    classes: bool = False,
    epsilons: Sequence[float] = (1.0, 2.0, 4.0, 8.0),
    teachers: Sequence[int] = (50, 100, 250, 500),
    queries: Sequence[int] = (100,),
    limits: Sequence[int | None] = (None,),
    quorums: Sequence[float] = (0.5,),
    delta: float = 1e-6,
    adjacency: Adjacency | str = Adjacency.REPLACE,
    examples: tuple[Any, Any] | None = None,
    teacher: Any = None,
    seed: int = 0,
) -> LabelPlan:
    r"""Compare settings of PATE before anything is spent, from public numbers and public examples alone.

    **Privacy.** Nothing private goes in: the number of records must be a public one, and never pass private examples.

    Parameters
    ----------
    records, labels
        About how many private records there are, and how many labels.
    classes
        Whether a record has exactly one of the labels, its class. The aggregator is the default of `cutline.PATEClassifier`.
    epsilons, teachers, queries, limits, quorums
        What to try, each with each; limits and quorums are for labels only.
    delta, adjacency
        As for `cutline.label`.
    examples
        Public features and labels (0 and 1, one column a label; for classes a vector of 0, 1, ...), like the private ones.
    teacher, seed
        The classifier to try on the examples, by default logistic regression, and a seed for drawing its examples.

    Examples
    --------
    >>> plan = plan_labels(records=100_000, labels=40, epsilons=(3.0,), teachers=(50, 800), limits=(None, 5), queries=(600,))
    >>> for option in plan.options:
    ...     print(option.teachers, option.limit, None if option.clear is None else f"{option.clear:.2f}")
    800 5 0.68
    800 None 0.86
    50 None None
    50 5 None
    """
    relation = Adjacency.parse(adjacency)
    check_whole("records", records)
    check_whole("labels", labels)
    for each in teachers:
        check_whole("teachers", each, most=MOST_TEACHERS)
    if classes and (any(limit is not None for limit in limits) or any(quorum != 0.5 for quorum in quorums)):
        raise ParameterError(
            "a teacher has one vote for a class, and the class with the most votes wins",
            "a ballot limit or a quorum",
            "Leave it out, or plan for labels.",
        )
    grid = list(product(queries, teachers, [None] if classes else limits, [None] if classes else quorums, epsilons))
    if not grid:
        raise ParameterError("a plan compares at least one setting", "none", "Pass epsilons, teachers and queries.")
    polls = (
        None if examples is None else _Poll.read(examples, labels=labels, classes=classes, teacher=teacher, seed=seed)
    )
    found = []
    for number, count, limit, quorum, epsilon in grid:
        budget = Budget(epsilon=epsilon, delta=delta, releases=number)
        vote = _calibrate(budget, count, labels, relation, limit, quorum, classes=classes)
        each = records // count
        scores = (None, None) if polls is None else polls.expect(vote, each)
        found.append(
            LabelOption(
                epsilon=float(epsilon),
                teachers=int(count),
                records_each=each,
                queries=int(number),
                limit=limit,
                quorum=quorum,
                clear=_clear(vote),
                right=scores[0],
                f1=scores[1],
            )
        )
    found.sort(key=lambda each: (-(each.f1 or 0.0), each.clear is None, (each.clear or 0.0) - (each.quorum or 0.5)))
    return LabelPlan(
        records=int(records),
        labels=int(labels),
        classes=classes,
        delta=float(delta),
        adjacency=relation,
        options=tuple(found),
        public_alone=None if polls is None else polls.alone(),
    )


def _calibrate(
    budget: Budget,
    teachers: int,
    labels: int,
    adjacency: Adjacency,
    limit: int | None,
    quorum: float | None,
    *,
    classes: bool,
) -> Aggregator:
    kind = find_aggregator(str(choose_aggregator(None, classes=classes, teachers=teachers)))
    return kind.calibrate(budget, teachers=teachers, labels=labels, adjacency=adjacency, limit=limit, quorum=quorum)


def chances_of_yes(vote: Aggregator, counts: IntArray) -> FloatArray:
    """Return the probability that each label comes out set, (queries, labels), by the aggregator's own law."""
    if isinstance(vote, OptimalVote):
        return vote.chances(counts)[0]
    if isinstance(vote, GNMax):
        rows = [normal_law((row - row.max()) / vote.sigma) for row in counts]
        return np.array(rows, dtype=np.float64).reshape(counts.shape)
    if not isinstance(vote, ClassVote):
        raise ParameterError("a plan is for optimal-vote, class-vote or gnmax", vote.name, "Take one of these.")
    weights = vote.weigh(counts).astype(object)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True), dtype=np.float64)


def _clear(vote: Aggregator) -> float | None:
    """Return the smallest share of teachers at which yes comes out 19 times in 20; for classes against one rival."""

    def chance(count: int) -> float:
        if isinstance(vote, OptimalVote):
            return float(chances_of_yes(vote, np.array([count]))[0])
        duel = np.zeros((1, vote.labels), dtype=np.int64)
        duel[0, :2] = count, vote.teachers - count
        return float(chances_of_yes(vote, duel)[0, 0])

    least = bisect_left(range(vote.teachers + 1), True, key=lambda count: chance(count) >= SURE)
    return least / vote.teachers if least <= vote.teachers else None


@dataclass(slots=True, kw_only=True, repr=False, eq=False)
class _Poll:
    """Public examples: some to train sampled teachers on, some for them to vote on; ballots are kept for each size."""

    features: Any
    truth: npt.NDArray[np.int8]
    learnt: IntArray
    judged: IntArray
    classes: bool
    template: Any
    seed: int
    ballots: dict[int, tuple[npt.NDArray[np.int8], FloatArray]]

    @classmethod
    def read(cls, examples: tuple[Any, Any], *, labels: int, classes: bool, teacher: Any, seed: int) -> _Poll:
        linear = require("sklearn.linear_model", extra="pate", purpose="training on public examples")
        features, (values, _) = read_features(examples[0], name="examples"), read_labels(examples[1])
        read_groups(None, features, values)
        if classes and values.shape[1] == 1:
            values = values == np.arange(labels)
        if (
            values.shape[1] != labels
            or not ((values == 0) | (values == 1)).all()
            or (classes and not values.any(axis=1).all())
        ):
            raise ParameterError(
                "public labels are 0 and 1 in one column a label, or for classes a vector of 0, 1, ...",
                f"{values.shape[1]} columns for {labels} labels" if values.shape[1] != labels else "something else",
                "Leave out examples that are not labelled.",
            )
        if len(features) < 20:
            raise ParameterError("a plan needs at least 20 public examples", f"{len(features)}", "Leave them out.")
        order = np.random.default_rng(seed).permutation(len(features))
        judged = order[: min(_JUDGED, len(order) // 2)]
        return cls(
            features=features,
            truth=values.astype(np.int8),
            learnt=order[len(judged) :],
            judged=judged,
            classes=classes,
            template=linear.LogisticRegression() if teacher is None else teacher,
            seed=seed,
            ballots={},
        )

    def expect(self, vote: Aggregator, records_each: int) -> tuple[float, float]:
        """Return the expected share of labels that are right and the F1 of those set, for teachers of so many records."""
        size = min(max(records_each, 1), len(self.learnt))
        if size not in self.ballots:
            cast = [self._cast(rows, number) for number, rows in enumerate(self._samples(size))]
            self.ballots[size] = np.stack([votes for votes, _ in cast]), np.stack([scores for _, scores in cast])
        votes, scores = self.ballots[size]
        if vote.limit is not None and not self.classes:
            votes = limit_ballots(votes, scores, vote.limit).astype(np.int8)
        shares = votes.mean(axis=0)
        counts = np.floor(vote.teachers * shares).astype(np.int64) if self.classes else np.rint(vote.teachers * shares)
        return _score(chances_of_yes(vote, counts.astype(np.int64)), self.truth[self.judged], classes=self.classes)

    def alone(self) -> float:
        """Return the F1 of one classifier trained on the public examples that are not judged."""
        votes, _ = self._cast(self.learnt, 0)
        return _score(votes.astype(np.float64), self.truth[self.judged], classes=self.classes)[1]

    def _samples(self, size: int) -> Iterator[IntArray]:
        rng = np.random.default_rng([self.seed, size])
        for _ in range(_SAMPLED):
            yield rng.choice(self.learnt, size, replace=False)

    def _cast(self, rows: IntArray, number: int) -> tuple[npt.NDArray[np.int8], FloatArray]:
        known, classes = self.truth[rows], self.truth.shape[1] if self.classes else None
        learnt = known.argmax(axis=1)[:, None] if self.classes else known
        lesson = Shard(features=self.features[rows], labels=learnt, seed=number, classes=classes)
        votes, scores = ballot(self.template, lesson, self.features[self.judged], scored=True)
        return votes, np.asarray(votes if scores is None else scores, dtype=np.float64)


def _score(yes: FloatArray, truth: npt.NDArray[np.int8], *, classes: bool) -> tuple[float, float]:
    hits = float((yes * truth).sum())
    if classes:
        return hits / len(truth), hits / len(truth)
    right = float(np.where(truth == 1, yes, 1 - yes).mean())
    return right, 2 * hits / max(float(yes.sum() + truth.sum()), 1.0)
