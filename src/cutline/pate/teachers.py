r"""Teachers: each learns from its own records, votes on the public examples, and is forgotten.

**Privacy.** A ballot is a function of its teacher's own records, the public examples and a seed that depends on the
teacher's number alone. Nothing is fitted on all private records, no teacher is ever dropped, and nothing a teacher
does can stop the others or reach them (`cutline.pate.isolation`): one that cannot learn (no records, one class, an exception)
votes for the majority of its own records. So one record changes one ballot and nothing else. What a teacher warns or raises
depends on its records and is not shown; mistakes in the teacher's own settings, and a teacher that remembers what was taught
before, are found earlier, by a `rehearse` on public examples.

At the end are the functions that fit a classifier and read its predictions in one shape, as scikit-learn has several; the
student learns by them too.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cutline.arrays import FloatArray, Int8Array, IntArray
from cutline.errors import EngineError, ParameterError
from cutline.pate.aggregators.base import Aggregator
from cutline.pate.isolation import alone, one_core, seeded_libraries, workers
from cutline.pate.labels import mark_classes
from cutline.pate.partition import read_records, shards

REHEARSAL_ROWS = 64  # rows: enough for nested cross-validation in a teacher, few enough to cost nothing


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Shard:
    """One teacher's records and its seed; private, and gone when the ballot is counted."""

    features: Any
    labels: Int8Array | IntArray  # one column a label; or one column of classes
    seed: int
    classes: int | None = None  # how many, if each record has one of them


class Tally(Protocol):
    """What becomes of ballots where they are cast; the tallies of all teachers are added up."""

    @property
    def teachers(self) -> int:
        """How many teachers there are."""
        ...

    @property
    def scored(self) -> bool:
        """Whether ballots come with their scores."""
        ...

    def blank(self, queries: int) -> IntArray:
        """Return the tally of no ballot at all."""
        ...

    def add(self, tally: IntArray, teacher: int, votes: Int8Array, scores: FloatArray | None) -> None:
        """Add one teacher's ballot, (examples, labels)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteTally:
    """Counts ballots as an aggregator does; no two exist at a time in one process."""

    aggregator: Aggregator

    @property
    def teachers(self) -> int:
        return self.aggregator.teachers

    @property
    def scored(self) -> bool:
        return self.aggregator.limit is not None

    def blank(self, queries: int) -> IntArray:
        return np.zeros((queries, self.aggregator.width), dtype=np.int64)

    def add(self, tally: IntArray, teacher: int, votes: Int8Array, scores: FloatArray | None) -> None:  # noqa: ARG002
        tally += self.aggregator.tally(votes[None], None if scores is None else scores[None])


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Teachers:
    """The teachers before they are trained: they see their records when their votes are asked for, and end with that call."""

    template: Any
    features: Any
    labels: FloatArray
    ids: list[Any] | None
    public: Any
    key: bytes
    seeds: npt.NDArray[np.int64]  # one a teacher
    n_jobs: int | None = None
    verbose: bool = False
    classes: int | None = None  # how many, if the labels are one column of classes

    def check(self, aggregator: Aggregator, queries: int) -> None:
        """Accept every aggregator: it was made for these teachers and labels."""

    def votes(self, aggregator: Aggregator) -> IntArray:
        """Train every teacher on its own records and count the votes on the public examples."""
        return self.poll(VoteTally(aggregator=aggregator))

    def poll(self, tally: Tally) -> IntArray:
        """Train every teacher on its own records and tally the ballots on the public examples."""
        own = self._shards(tally.teachers)
        return poll(self.template, own, self.public, tally=tally, n_jobs=self.n_jobs, progress=self.verbose)

    def _shards(self, teachers: int) -> Iterator[Shard]:
        several = self.classes is not None
        records = read_records(self.features, self.labels, self.ids, teachers=teachers, key=self.key, classes=several)
        for places, seed in zip(shards(records.teacher, teachers=teachers), self.seeds, strict=True):
            own, known = _own_rows(records.features, places), records.labels[places]
            yield Shard(features=own, labels=known, seed=int(seed), classes=self.classes)


def _own_rows(features: Any, places: IntArray) -> Any:
    """Return a teacher's rows as if there were no others: the indices of a sparse matrix are as wide as its own size asks for.

    Past 2^31 numbers the indices of a whole matrix are wide, and some classifiers refuse wide indices: one record more, and
    every teacher would fail.
    """
    rows = features[places]
    if hasattr(rows, "indptr"):
        width = np.int32 if max(rows.nnz, *rows.shape) <= np.iinfo(np.int32).max else np.int64
        rows.indices, rows.indptr = rows.indices.astype(width), rows.indptr.astype(width)
    return rows


def rehearse(template: Any, public: Any, *, labels: int, scored: bool = False, classes: int | None = None) -> None:
    """Let teachers learn made-up labels of public examples: their settings fail here, for a public reason, or never.

    The first and the third learn the same, the second something else. If the third votes differently from the first, the
    teacher remembers what was taught before it, or draws from a generator that `alone` does not know.
    """
    rows = np.resize(np.arange(public.shape[0]), REHEARSAL_ROWS)
    made_up, other = make_up_labels(labels if takes_many_labels(template) else 1, classes=classes)
    lessons = [Shard(features=public[rows], labels=each, seed=0, classes=classes) for each in (made_up, other, made_up)]
    columns = np.arange(made_up.shape[1])
    try:
        with one_core():
            (votes, scores), _, again = (_teach(template, each, columns, public, scored=scored) for each in lessons)
    except Exception as error:
        raise ParameterError(
            "the teacher must be able to learn from examples like the public ones",
            f"{type(template).__name__}, which says: {error}",
            "Correct the teacher's settings, or take one that accepts this kind of features.",
        ) from error
    if not (np.array_equal(votes, again[0]) and np.array_equal(scores, again[1], equal_nan=True)):
        raise ParameterError(
            "a teacher's ballot must depend on its own records and seed alone",
            f"{type(template).__name__}, which learnt the same public examples twice and voted differently",
            "Let it keep nothing from one fit to the next, and draw from its random_state or from the generators of random, "
            "numpy or torch, which each teacher gets at a seed of its own.",
        )


def make_up_labels(width: int, *, classes: int | None = None) -> tuple[Int8Array | IntArray, Int8Array | IntArray]:
    """Return labels for a rehearsal, each of both values, or up to 8 classes, and others; they tell nothing."""
    rows = np.arange(REHEARSAL_ROWS)[:, None]
    if classes is not None:
        several = min(classes, 8)
        return rows % several, (rows + 1) % several
    labels = (rows // (np.arange(width) % 8 + 1) % 2).astype(np.int8)
    return labels, 1 - labels


def ballot(template: Any, shard: Shard, public: Any, *, scored: bool = False) -> tuple[Int8Array, FloatArray | None]:
    """Train one teacher and return its ballot, (examples, labels) of 0 and 1, with its scores if they are asked for.

    A copy of the template is trained, per label unless it learns several labels at once: then it gets all of them, so that a
    network's last layer is as wide for every teacher. One that cannot learn a label of one value only gets the others. A label
    of one value is answered by it, whatever was learnt. Scores are for cutting a ballot to its surest labels.
    """
    if shard.classes is not None:
        return _class_ballot(template, shard, shard.classes, public), None
    known = shard.labels
    majority = (2 * known.sum(axis=0, dtype=np.int64) > known.shape[0]).astype(np.int8)
    votes = np.tile(majority, (public.shape[0], 1))
    scores = np.where(votes == 1, np.inf, -np.inf) if scored else None
    varying = np.flatnonzero((known != known[:1]).any(axis=0))
    for attempts in _lessons(template, varying, known.shape[1]):
        for columns in attempts:
            predictions = _try_to_teach(template, shard, columns, public, scored=scored)
            if predictions is None:  # the majority stands
                continue
            predicted, predicted_scores = predictions
            learnt = np.isin(columns, varying)
            votes[:, columns[learnt]] = predicted[:, learnt]
            if scores is not None:
                scores[:, columns[learnt]] = predicted_scores[:, learnt]
            break
    return votes, scores


def _class_ballot(template: Any, shard: Shard, classes: int, public: Any) -> Int8Array:
    """Train one teacher on its classes, all together, and return its one vote for each example.

    A teacher that sees a single class, or fails, votes for the commonest class of its records; one without records for none.
    """
    known, queries = shard.labels[:, 0], public.shape[0]
    if not known.size:
        return np.zeros((queries, classes), dtype=np.int8)
    predictions = None
    if (known != known[0]).any():
        predictions = _try_to_teach(template, shard, np.arange(1), public, scored=False)
    commonest = np.bincount(known, minlength=classes).argmax()
    return mark_classes(np.full(queries, commonest), classes) if predictions is None else predictions[0]


def _lessons(template: Any, varying: IntArray, labels: int) -> Iterator[list[IntArray]]:
    """Yield which labels a model learns, and which instead if it cannot."""
    if labels > 1 and varying.size and takes_many_labels(template):
        yield [np.arange(labels)] + ([varying] if varying.size < labels else [])
    else:
        yield from ([column] for column in varying[:, None])


def _try_to_teach(
    template: Any, shard: Shard, columns: IntArray, public: Any, *, scored: bool
) -> tuple[Int8Array, FloatArray] | None:
    """Return what `_teach` does, or None if the teacher failed, or even left, because of its records."""
    try:
        return _teach(template, shard, columns, public, scored=scored)
    except KeyboardInterrupt:
        interrupted = True
    except BaseException:
        interrupted = False
    if interrupted:  # raised here, it carries no words of the teacher along
        raise KeyboardInterrupt
    return None


def _teach(
    template: Any, shard: Shard, columns: IntArray, public: Any, *, scored: bool
) -> tuple[Int8Array, FloatArray]:
    """Train one model for some of the labels, alone in its process; return its votes and scores, zeros if not asked for."""
    known = seeded_libraries()
    with alone(shard.seed):
        # Everything is its own to change: a pipeline with a scaler that saves the copy writes into what it is given.
        model = fit_labels(seeded_clone(template, shard.seed), shard.features.copy(), shard.labels[:, columns])
        if shard.classes is None:
            votes = predict_labels(model, public.copy(), columns.size)
        else:
            votes = mark_classes(np.asarray(model.predict(public.copy())).reshape(-1), shard.classes)
        scores = predict_scores(model, public.copy(), columns.size) if scored else np.zeros(votes.shape)
    if seeded_libraries() != known:  # a library that was loaded only now did not start at the teacher's seed
        return _teach(template, shard, columns, public, scored=scored)
    return votes, scores


def count_votes(
    template: Any,
    shards: Iterable[Shard],
    public: Any,
    *,
    aggregator: Aggregator,
    n_jobs: int | None = None,
    progress: bool = False,
) -> IntArray:
    """Train every teacher and return the votes that the aggregator reads, (examples, its width)."""
    tally = VoteTally(aggregator=aggregator)
    return poll(template, shards, public, tally=tally, n_jobs=n_jobs, progress=progress)


def poll(
    template: Any,
    shards: Iterable[Shard],
    public: Any,
    *,
    tally: Tally,
    n_jobs: int | None = None,
    progress: bool = False,
) -> IntArray:
    """Train every teacher, here or in worker processes, and add up the tallies of their ballots.

    If workers break down, what they say is withheld.
    """
    from sklearn.utils.parallel import delayed

    total, broken = tally.blank(public.shape[0]), False
    with workers(n_jobs) as (run, count), _progress_bar(tally.teachers, shown=progress) as advance:
        size = max(1, tally.teachers // (4 * count))  # the public examples travel once a batch
        jobs = (delayed(_poll_batch)(template, batch, public, tally) for batch in _batches(shards, size))
        try:
            for cast, counted in run(jobs):
                total += counted
                advance(cast)
        except Exception:  # the refusal is raised below: raised here, it would carry these words along
            broken = True
    if broken:
        raise EngineError(
            "the teachers' workers must stay alive; what stopped them is withheld, it may quote records",
            "",
            "Try n_jobs=1, or fewer jobs than cores if memory ran out.",
        )
    return total


def _batches(shards: Iterable[Shard], size: int) -> Iterator[list[tuple[int, Shard]]]:
    source = enumerate(shards)
    while batch := list(islice(source, size)):
        yield batch


def _poll_batch(template: Any, batch: list[tuple[int, Shard]], public: Any, tally: Tally) -> tuple[int, IntArray]:
    """Return how many teachers voted, and their tally; runs in a worker process or here."""
    total = tally.blank(public.shape[0])
    with one_core():
        for teacher, shard in batch:
            votes, scores = ballot(template, shard, public, scored=tally.scored)
            tally.add(total, teacher, votes, scores)
    return len(batch), total


@contextmanager
def _progress_bar(teachers: int, *, shown: bool) -> Iterator[Any]:
    """Show on standard error how many teachers have voted, if that is wanted; the number of teachers is public."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr)) as progress:
        task = progress.add_task("Teachers", total=teachers)
        yield lambda cast: progress.advance(task, cast)


def takes_many_labels(estimator: Any) -> bool:
    """Return whether the classifier learns several labels at once."""
    from sklearn.utils import get_tags

    tags = get_tags(estimator).classifier_tags
    return tags is not None and bool(tags.multi_label)


def seeded_clone(template: Any, seed: int) -> Any:
    """Return an unfitted copy whose every ``random_state``, nested ones too, is the seed."""
    from sklearn.base import clone

    own = clone(copy.deepcopy(template))  # a classifier may say that its clone is itself
    states = [name for name in own.get_params(deep=True) if name.split("__")[-1] == "random_state"]
    return own.set_params(**dict.fromkeys(states, seed)) if states else own


def fit_labels(model: Any, features: Any, labels: Int8Array | IntArray) -> Any:
    """Fit the model, to a vector if there is one label and to a matrix if there are several."""
    wide = labels.astype(np.int64)  # of hundreds of int8 labels RidgeClassifier learns nonsense, silently
    return model.fit(features, wide[:, 0] if wide.shape[1] == 1 else wide)


def predict_labels(model: Any, features: Any, width: int) -> Int8Array:
    """Return 1 where a label is set and 0 elsewhere, (examples, width)."""
    predicted = np.asarray(model.predict(features)).reshape(features.shape[0], width)
    return np.asarray(predicted == 1, dtype=np.int8)


def predict_probabilities(model: Any, features: Any, width: int) -> FloatArray:
    """Return the probability that each label is set, (examples, width)."""
    predicted = model.predict_proba(features)
    if isinstance(predicted, list):  # one (examples, 2) array a label, as trees and neighbours have it
        return np.column_stack(
            [_column_of_one(each, classes) for each, classes in zip(predicted, model.classes_, strict=True)]
        ).astype(np.float64)
    if width == 1:
        return _column_of_one(np.asarray(predicted), model.classes_).reshape(-1, 1).astype(np.float64)
    return np.asarray(predicted, dtype=np.float64)


def predict_scores(model: Any, features: Any, width: int) -> FloatArray:
    """Return how strongly the model believes in each label, in its own unit: for ranking the labels of one ballot."""
    if hasattr(model, "predict_proba"):
        return predict_probabilities(model, features, width)
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(features), dtype=np.float64).reshape(features.shape[0], width)
    return predict_labels(model, features, width).astype(np.float64)


def _column_of_one(probabilities: npt.NDArray[Any], classes: Any) -> npt.NDArray[Any]:
    """Return the probabilities of class 1, wherever the classifier keeps it."""
    places = np.flatnonzero(np.asarray(classes) == 1)  # none where a label was never set
    return np.asarray(probabilities[:, places].sum(axis=1))
